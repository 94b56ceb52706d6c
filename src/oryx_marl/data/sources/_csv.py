"""CSV files as a stream of Arrow tables, in which every column has one type from start to end."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from oryx_marl import limits
from oryx_marl.data.sources._columns import VECTORS, Columns, all_names, parse_lists, refuse_words
from oryx_marl.data.sources.base import require
from oryx_marl.errors import OryxError

BLOCK_BYTES = 2**22
"""Of a table that are read at a time."""
EMPTY = ["", "NA", "null", "None"]
"""Cells that count as empty. NaN is a number that is wrong, and stays one."""
COMPRESSED = (".gz", ".bz2", ".zst", ".lz4", ".br", ".xz")
"""Ends of names by which a file is unpacked while it is read."""
KINDS = ("ids", "numbers", "lists", "words")
"""What a single column of actions can be, the narrowest first."""


class CsvFile:
    """A CSV file; its blocks have numbers where they must be, and texts where anything may be."""

    metadata = None
    seal = None

    def __init__(self, path: Path) -> None:
        self._path = path
        _require_unpacked(path)
        with _open(path, []) as reader:
            self.names: list[str] = list(reader.schema.names)

    def batches(self, layouts: Sequence[Columns]) -> Iterator[Any]:
        """The columns of all layouts (one for each agent of a wide table), block by block."""
        try:
            yield from self._tables(layouts)
        except require("pyarrow").ArrowInvalid:
            self._require_numbers(layouts)
            raise

    def _tables(self, layouts: Sequence[Columns]) -> Iterator[Any]:
        pa = require("pyarrow")
        wanted = {name: pa.string() for name in all_names(layouts)}
        for meaning in ("reward", *VECTORS):
            groups = [each[meaning] for each in layouts if meaning in each]
            is_several = meaning != "action_mask" and any(len(names) > 1 for names in groups)
            if meaning == "reward" or is_several:
                wanted.update({name: pa.float32() for names in groups for name in names})
        del wanted[layouts[0]["step"][0]]  # numbers or times: as its first block has them
        acted = [each["action"][0] for each in layouts if len(each["action"]) == 1]
        acted = acted if len(acted) == len(layouts) else []
        kind = KINDS[max((_guess(self._path, name) for name in set(acted)), default=0)]
        with _open(self._path, all_names(layouts), wanted) as reader:
            for batch in reader:
                table = pa.Table.from_batches([batch])
                for name in acted:
                    parsed = _parse(table[name], kind)
                    table = table.set_column(table.column_names.index(name), name, parsed)
                yield table

    def _require_numbers(self, layouts: Sequence[Columns]) -> None:
        """Raises if an action of several columns has words."""
        for names in (each["action"] for each in layouts if len(each["action"]) > 1):
            if any(KINDS[_guess(self._path, name)] == "words" for name in names):
                raise refuse_words(names, is_wide=len(layouts) > 1)


def _open(path: Path, columns: list[str], types: dict[str, Any] | None = None) -> Any:
    """A reader of all columns, or of those given."""
    csv = require("pyarrow.csv")
    convert = csv.ConvertOptions(
        column_types=types, include_columns=columns, strings_can_be_null=True, null_values=EMPTY
    )
    read = csv.ReadOptions(block_size=BLOCK_BYTES, use_threads=False)
    return csv.open_csv(path, read, csv.ParseOptions(delimiter=_find_delimiter(path)), convert)


def _require_unpacked(path: Path) -> None:
    """Raises if a compressed file unpacks to far more than it has."""
    pa = require("pyarrow")
    if path.suffix.lower() in COMPRESSED:
        size, held = 0, path.stat().st_size
        with pa.input_stream(str(path), compression="detect") as stream:
            while block := stream.read(2**20):
                size += len(block)
                limits.require_held("unpacked it", size, held)


def _find_delimiter(path: Path) -> str:
    """What stands most often in the first line."""
    pa = require("pyarrow")
    with pa.input_stream(str(path), compression="detect") as stream:
        start = stream.read(BLOCK_BYTES)
    line = start.decode("utf-8", errors="replace").partition("\n")[0]
    if not line.strip():
        raise OryxError("its first line is empty, but must name the columns")
    delimiter = max(",;\t|", key=line.count)
    limits.require("its first line", line.count(delimiter) + 1, limits.COLUMNS, "columns")
    return delimiter


def _guess(path: Path, name: str) -> int:
    """The narrowest of KINDS that all cells of a column are."""
    pa, compute = require("pyarrow"), require("pyarrow.compute")
    found = 0
    with _open(path, [name], {name: pa.string()}) as reader:
        for batch in reader:
            cells = compute.drop_null(batch.column(0))
            while KINDS[found] != "words":
                try:
                    _parse(cells, KINDS[found])
                    break
                except (pa.ArrowInvalid, OryxError):
                    found += 1
    return found


def _parse(column: Any, kind: str) -> Any:
    """Texts as ids, numbers, lists or words."""
    pa, compute = require("pyarrow"), require("pyarrow.compute")
    if kind == "ids":
        return compute.cast(column, pa.int32())
    if kind == "numbers":
        return compute.cast(column, pa.float32())
    return parse_lists(column, "of the actions") if kind == "lists" else column
