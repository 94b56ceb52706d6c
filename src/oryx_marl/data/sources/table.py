"""Long tables in Parquet or CSV: one row per episode, step and agent, read as a stream.

The rows of an episode stand together, in any order. A last step without actions is what was seen
after the end. Without a column of agents there is one agent, and one row per step.
"""

import json
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from oryx_marl.data.dataset import Dataset
from oryx_marl.data.sources._columns import ColumnOptions, resolve
from oryx_marl.data.sources._long import LongTable, read_long
from oryx_marl.data.sources._sealing import Digest, checked, digested
from oryx_marl.data.sources._table_file import CSV, PARQUET, has_suffix, open_table
from oryx_marl.data.sources._to_table import SEAL, describe, to_tables
from oryx_marl.data.sources.base import require
from oryx_marl.errors import OryxError, OryxWarning


@dataclass(frozen=True)
class Options(ColumnOptions):
    """Of tables with a row for each agent."""

    agent: str | None = None
    """Column with the agent's name or number; without one there is a single agent."""


def recognises(path: Path) -> bool:
    """Whether the name says so."""
    return has_suffix(path, (*PARQUET, *CSV))


def read(path: Path, name: str, options: Options) -> Iterator[Dataset]:
    """The episodes, in parts of a few MiB."""
    file = open_table(path)
    columns = resolve(file.names, options)
    table = LongTable(columns, lambda: file.batches([columns]), options.sort)
    parts = read_long(table, name, options, file.metadata)
    about = file.metadata
    if about is not None and replace(options, time_limit=None) == Options():
        if file.seal is not None:
            parts = checked(parts, about, file.seal)
        elif about.get("sealed"):
            warnings.warn(
                f"{path} has lost its checksums: another program has written it anew, so whether "
                "it was altered is not known",
                OryxWarning,
                stacklevel=2,
            )
    yield from parts


def write(parts: Iterable[Dataset], path: Path) -> None:
    """A Parquet file, from which `read` makes the same dataset again."""
    parquet = require("pyarrow.parquet")
    writer, episode = None, 0
    digest, about = Digest(), dict[str, Any]()
    try:
        for part in digested(parts, digest):
            about = about or describe(part)
            for table in to_tables(part, episode):
                writer = writer or parquet.ParquetWriter(path, table.schema, compression="zstd")
                writer.write_table(table)
            episode += part.num_episodes
        if writer is not None:
            writer.add_key_value_metadata({SEAL: json.dumps(digest.seal(about)).encode()})
    finally:
        if writer is not None:
            writer.close()
    if writer is None:
        raise OryxError("there is nothing to write: no part was given")
