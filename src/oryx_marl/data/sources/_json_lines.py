"""JSON Lines as a stream of Arrow tables, in which every column has one type from start to end.

JSON says of a number neither its precision nor whether a column has others, so the file is read
once for the types of its columns. Objects within objects become columns such as `obs.x`.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from oryx_marl import limits, reading
from oryx_marl.data.sources._columns import Columns, all_names
from oryx_marl.data.sources._csv import BLOCK_BYTES
from oryx_marl.data.sources.base import require
from oryx_marl.errors import OryxError

MOST_COLUMNS = 10_000
DEEPEST = 8
"""Objects within objects that are followed."""


class JsonLinesFile:
    """One object per line; may be compressed, by its name."""

    metadata = None
    seal = None

    def __init__(self, path: Path) -> None:
        self._path = path
        self._types = self._find_types()
        self.names: list[str] = list(self._types)

    def batches(self, layouts: Sequence[Columns]) -> Iterator[Any]:
        """The columns of all layouts, a few MiB at a time; numbers as float32, ids as int32."""
        pa = require("pyarrow")
        types = {name: self._types[name] for name in all_names(layouts)}
        for each in layouts:
            for meaning in ("reward", "observation", "state", "action"):
                for name in each.get(meaning, ()):
                    types[name] = _narrow(types[name], keep_ids=meaning == "action")
            types[each["step"][0]] = _time(types[each["step"][0]])
        for rows in _blocks(self._path):
            columns = {name: _to_array([row.get(name) for row in rows]) for name in types}
            yield pa.table({name: _cast(columns[name], types[name], name) for name in types})

    def _find_types(self) -> dict[str, Any]:
        """The type of each column, over all lines."""
        types: dict[str, Any] = {}
        for rows in _blocks(self._path):
            for name in dict.fromkeys(name for row in rows for name in row):
                here = _to_array([row.get(name) for row in rows]).type
                types[name] = _unify(types[name], here) if name in types else here
            if len(types) > MOST_COLUMNS:
                raise OryxError(
                    f"its objects have more than {MOST_COLUMNS:,} different names; each must have "
                    "the same, such as episode, step, agent, obs, action, reward"
                )
        return types


def begins_with_object(path: Path) -> bool:
    """Whether the first line is an object of its own."""
    try:
        _, line = next(_lines(path), (0, b""))
        return isinstance(reading.parse_json(line, is_strict=False), dict)
    except (OryxError, OSError, ValueError):
        return False


def _blocks(path: Path) -> Iterator[list[dict[str, Any]]]:
    """The objects of a few MiB of lines at a time."""
    rows: list[dict[str, Any]] = []
    size = 0
    for number, line in _lines(path):
        rows.append(_parse(line, number))
        size += len(line)
        if size >= BLOCK_BYTES:
            yield rows
            rows, size = [], 0
    if rows:
        yield rows


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines that are not empty, with their numbers."""
    pa = require("pyarrow")
    number, rest = 0, b""
    size, held = 0, path.stat().st_size
    with pa.input_stream(str(path), compression="detect") as stream:
        while block := stream.read(2**20):
            *lines, rest = (rest + block).split(b"\n")
            size += len(block)
            limits.require_held("unpacked it", size, held)
            # Beyond, the file is rather one document than one object per line.
            limits.require(f"line {number + len(lines) + 1}", len(rest), limits.LINE_BYTES)
            for line in lines:
                number += 1
                if line.strip():
                    yield number, line
    if rest.strip():
        yield number + 1, rest


def _parse(line: bytes, number: int) -> dict[str, Any]:
    """The flat object of a line."""
    try:
        found = reading.parse_json(line, is_strict=False)
    except ValueError as error:
        raise OryxError(f"line {number} is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise OryxError(
            f"line {number} is no object; each line must be one, such as "
            '{"episode": 0, "step": 0, "agent": "red", "obs": [0.5], "action": 1, "reward": 0}'
        )
    return dict(_flatten(found, ""))


def _flatten(values: Mapping[str, Any], prefix: str, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Names and values, objects within objects as `outer.inner`."""
    for name, value in values.items():
        if isinstance(value, dict) and depth < DEEPEST:
            yield from _flatten(value, f"{prefix}{name}.", depth + 1)
        else:
            yield f"{prefix}{name}", value


def _to_array(values: list[Any]) -> Any:
    """An Arrow array; texts where words and numbers stand side by side."""
    pa = require("pyarrow")
    for prepare in (lambda value: value, _with_numbers, _to_text):
        with suppress(pa.ArrowInvalid, pa.ArrowTypeError):
            return pa.array([None if value is None else prepare(value) for value in values])
    raise OryxError("it has values of several kinds in one place")


def _with_numbers(value: Any) -> Any:
    """1 and 0 in the place of true and false, for where both are used."""
    if isinstance(value, list):
        return [_with_numbers(each) for each in value]
    return int(value) if isinstance(value, bool) else value


def _to_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _unify(one: Any, other: Any) -> Any:
    """The type that holds both; texts where there is no other."""
    pa = require("pyarrow")
    for kinds in ((one, other), (_to_number(one), _to_number(other))):
        with suppress(pa.ArrowInvalid, pa.ArrowTypeError):
            schemas = [pa.schema([("column", kind)]) for kind in kinds]
            return pa.unify_schemas(schemas, promote_options="permissive").field(0).type
    return pa.string()


def _to_number(kind: Any) -> Any:
    """int8 in the place of bool."""
    pa = require("pyarrow")
    if pa.types.is_list(kind):
        return pa.list_(_to_number(kind.value_type))
    return pa.int8() if pa.types.is_boolean(kind) else kind


def _narrow(kind: Any, keep_ids: bool) -> Any:
    """float32 in the place of wider numbers, as tables in CSV have them; ids become int32."""
    pa = require("pyarrow")
    if pa.types.is_list(kind):
        return pa.list_(_narrow(kind.value_type, keep_ids))
    if pa.types.is_integer(kind):
        return pa.int32() if keep_ids else pa.float32()
    return pa.float32() if pa.types.is_floating(kind) else kind


def _time(kind: Any) -> Any:
    """Texts that order steps are times."""
    pa = require("pyarrow")
    return pa.timestamp("us") if pa.types.is_string(kind) else kind


def _cast(column: Any, kind: Any, name: str) -> Any:
    """A column as the type that all blocks share."""
    pa, compute = require("pyarrow"), require("pyarrow.compute")
    if pa.types.is_string(kind) and not pa.types.is_string(column.type):
        return pa.array([None if one is None else _to_text(one) for one in column.to_pylist()])
    try:
        if pa.types.is_timestamp(kind) and compute.any(compute.ends_with(column, "Z")).as_py():
            column = compute.cast(column, pa.timestamp("us", "UTC"))
        # Whole numbers beyond 2**24 lose digits as float32, as those of a CSV do.
        return compute.cast(column, kind, safe=pa.types.is_integer(kind))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise OryxError(f"{name} has a value that is not understood: {str(error)[:120]}") from error
