"""JSON Lines: one object per episode, step and agent, with the names of a table's columns.

Lists stand as they are, `"obs": [0.5, 1]`; objects within objects are columns such as `obs.x`. The
file may be compressed (`.jsonl.gz`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from oryx_marl.data.dataset import Dataset
from oryx_marl.data.sources import table
from oryx_marl.data.sources._table_file import JSON_LINES, has_suffix


@dataclass(frozen=True)
class Options(table.Options):
    """As of tables: the names within the objects are columns."""


def recognises(path: Path) -> bool:
    """Whether the name says so."""
    return has_suffix(path, JSON_LINES)


def read(path: Path, name: str, options: Options) -> Iterator[Dataset]:
    """The episodes, in parts of a few MiB."""
    return table.read(path, name, options)
