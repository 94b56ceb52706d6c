"""Parquet files as a stream of Arrow tables."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from oryx_marl import limits, reading
from oryx_marl.data.sources._columns import Columns, all_names
from oryx_marl.data.sources._csv import BLOCK_BYTES
from oryx_marl.data.sources._parquet_footer import read_claim
from oryx_marl.data.sources._to_table import METADATA, SEAL
from oryx_marl.data.sources.base import require
from oryx_marl.errors import OryxError

MOST_TIMES = 1_000
"""Times its own size that a table may have: values that repeat are stored once."""


class ParquetFile:
    """A Parquet file, whose columns keep their types."""

    def __init__(self, path: Path) -> None:
        self._path = path
        # Runs of one value take hardly any room in a file.
        limits.require_held("the file", _claimed(path), path.stat().st_size, MOST_TIMES)
        with self._open() as file:
            limits.require("the file", file.metadata.num_columns, limits.COLUMNS, "columns")
            schema = file.schema_arrow
            self.names: list[str] = schema.names
            about = (schema.metadata or {}).get(METADATA)
            seal = (file.metadata.metadata or {}).get(SEAL)
        if about is None and seal is not None:
            raise OryxError("it has checksums of ours, but what they belong to is gone: damaged")
        self.metadata: dict[str, Any] | None = None if about is None else _parse(about)
        self.seal: Any = None if seal is None else _parse(seal)

    def batches(self, layouts: Sequence[Columns]) -> Iterator[Any]:
        """The columns of all layouts, a few MiB at a time."""
        pa = require("pyarrow")
        with self._open() as file:
            size = _claimed(self._path) / max(file.metadata.num_rows, 1)
            rows = int(min(max(BLOCK_BYTES / max(size, 1), 64), 65_536))
            for batch in file.iter_batches(rows, columns=all_names(layouts), use_threads=False):
                yield _with_plain_texts(pa.Table.from_batches([batch]))

    def _open(self) -> Any:
        return require("pyarrow.parquet").ParquetFile(
            self._path, buffer_size=2**20, pre_buffer=False
        )


def _claimed(path: Path) -> int:
    """Bytes of a table once it is read: four for each value at least."""
    claim = read_claim(path)
    return max(4 * claim.values, claim.num_bytes)


def _parse(about: bytes) -> dict[str, Any]:
    found = reading.parse_json(about)
    if not isinstance(found, dict):
        raise OryxError("what it says about itself is no table")
    return found


def _with_plain_texts(table: Any) -> Any:
    """Texts of all Arrow's types as the one type that is known elsewhere."""
    pa = require("pyarrow")
    for index, column in enumerate(table.schema):
        kinds = (pa.types.is_large_string, pa.types.is_string_view, pa.types.is_binary)
        if any(is_kind(column.type) for is_kind in kinds):
            texts = table[column.name].cast(pa.string())
            table = table.set_column(index, column.name, texts)
    return table
