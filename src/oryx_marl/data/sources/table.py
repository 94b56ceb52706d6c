"""Long tables in Parquet or CSV: one row per episode, step and agent, read as a stream.

The rows of an episode stand together, in any order. A last step without actions is what was seen
after the end. Without a column of agents there is one agent, and one row per step.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from oryx_marl.data.dataset import Dataset
from oryx_marl.data.sources._columns import ColumnOptions, resolve
from oryx_marl.data.sources._long import LongTable, read_long
from oryx_marl.data.sources._table_file import CSV, PARQUET, has_suffix, open_table
from oryx_marl.data.sources._to_table import to_tables
from oryx_marl.data.sources.base import require
from oryx_marl.errors import OryxError


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
    yield from read_long(table, name, options, file.metadata)


def write(parts: Iterable[Dataset], path: Path) -> None:
    """A Parquet file, from which `read` makes the same dataset again."""
    parquet = require("pyarrow.parquet")
    writer, episode = None, 0
    try:
        for part in parts:
            for table in to_tables(part, episode):
                writer = writer or parquet.ParquetWriter(path, table.schema, compression="zstd")
                writer.write_table(table)
            episode += part.num_episodes
    finally:
        if writer is not None:
            writer.close()
    if writer is None:
        raise OryxError("there is nothing to write: no part was given")
