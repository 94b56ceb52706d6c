"""Parquet files as a stream of Arrow tables."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from oryx_marl.data.sources._columns import Columns, all_names
from oryx_marl.data.sources._csv import BLOCK_BYTES
from oryx_marl.data.sources._to_table import METADATA, SEAL
from oryx_marl.data.sources.base import require
from oryx_marl.errors import OryxError


class ParquetFile:
    """A Parquet file, whose columns keep their types."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._open() as file:
            schema = file.schema_arrow
            self.names: list[str] = schema.names
            about = (schema.metadata or {}).get(METADATA)
            seal = (file.metadata.metadata or {}).get(SEAL)
        if about is None and seal is not None:
            raise OryxError("it has checksums of ours, but what they belong to is gone: damaged")
        self.metadata: dict[str, Any] | None = None if about is None else json.loads(about)
        self.seal: Any = None if seal is None else json.loads(seal)

    def batches(self, layouts: Sequence[Columns]) -> Iterator[Any]:
        """The columns of all layouts, a few MiB at a time."""
        pa = require("pyarrow")
        with self._open() as file:
            groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
            size = sum(group.total_byte_size for group in groups) / max(file.metadata.num_rows, 1)
            rows = int(min(max(BLOCK_BYTES / max(size, 1), 64), 65_536))
            for batch in file.iter_batches(rows, columns=all_names(layouts), use_threads=False):
                yield _with_plain_texts(pa.Table.from_batches([batch]))

    def _open(self) -> Any:
        return require("pyarrow.parquet").ParquetFile(
            self._path, buffer_size=2**20, pre_buffer=False
        )


def _with_plain_texts(table: Any) -> Any:
    """Texts of all Arrow's types as the one type that is known elsewhere."""
    pa = require("pyarrow")
    for index, column in enumerate(table.schema):
        kinds = (pa.types.is_large_string, pa.types.is_string_view, pa.types.is_binary)
        if any(is_kind(column.type) for is_kind in kinds):
            texts = table[column.name].cast(pa.string())
            table = table.set_column(index, column.name, texts)
    return table
