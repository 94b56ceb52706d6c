"""Files that hold a table, of whatever format: the names of its columns, and its rows in blocks."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from oryx_marl.data.sources._columns import Columns
from oryx_marl.data.sources._csv import CsvFile
from oryx_marl.data.sources._json_lines import JsonLinesFile
from oryx_marl.data.sources._parquet import ParquetFile
from oryx_marl.errors import OryxError

PARQUET = (".parquet", ".pq")
CSV = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
JSON_LINES = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")
JSON = (".json", ".json.gz")
"""JSON Lines, if their lines are objects."""


@runtime_checkable
class TableFile(Protocol):
    """A table on disk that is read as a stream."""

    @property
    def names(self) -> list[str]:
        """Of its columns."""
        ...

    @property
    def metadata(self) -> dict[str, Any] | None:
        """What our own export says about it."""
        ...

    @property
    def seal(self) -> Any:
        """Checksums of our own export; None where there are none."""
        ...

    def batches(self, layouts: Sequence[Columns]) -> Iterator[Any]:
        """Arrow tables of a few MiB, with the columns of all layouts: of a long table there is one,
        of a wide one each agent has its own."""
        ...


def has_suffix(path: Path, suffixes: tuple[str, ...]) -> bool:
    """Whether a file is called so."""
    return path.is_file() and path.name.lower().endswith(suffixes)


def open_table(path: Path) -> TableFile:
    """The table in a file; one whose name does not tell the format is taken for CSV."""
    file: TableFile
    if has_suffix(path, PARQUET):
        file = ParquetFile(path)
    elif has_suffix(path, (*JSON_LINES, *JSON)):
        file = JsonLinesFile(path)
    else:
        file = CsvFile(path)
    if twice := [name for name, count in Counter(file.names).items() if count > 1]:
        raise OryxError(f"the column {twice[0]} is there twice")
    return file
