"""JSON Lines: one object per episode, step and agent, with the names of a table's columns.

Lists stand as they are, `"obs": [0.5, 1]`; objects within objects are columns such as `obs.x`. The
file may be compressed (`.jsonl.gz`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from oryx_marl.data.dataset import Dataset
from oryx_marl.data.sources import table
from oryx_marl.data.sources._json_lines import begins_with_object
from oryx_marl.data.sources._table_file import JSON, JSON_LINES, has_suffix


@dataclass(frozen=True)
class Options(table.Options):
    """As of tables: the names within the objects are columns."""


def recognises(path: Path) -> bool:
    """Whether the name says so, or it is a `.json` that begins with an object on a line."""
    return has_suffix(path, JSON_LINES) or (has_suffix(path, JSON) and begins_with_object(path))


def read(path: Path, name: str, options: Options) -> Iterator[Dataset]:
    """The episodes, in parts of a few MiB."""
    return table.read(path, name, options)
