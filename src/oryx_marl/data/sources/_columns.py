"""Which column of a table means what, and the numbers in its cells."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oryx_marl.data.sources.base import Options, require
from oryx_marl.errors import OryxError

USUAL = {
    "episode": ("episode", "episode_id", "ep"),
    "step": ("step", "timestep", "t", "time"),
    "agent": ("agent", "agent_id"),
    "observation": ("obs", "observation", "observations"),
    "action": ("action", "actions"),
    "reward": ("reward", "rewards"),
    "terminal": ("terminal", "terminated", "terminals", "done"),
    "truncated": ("truncated", "truncation", "truncations", "timeout"),
    "action_mask": ("action_mask", "legal", "legals", "legal_actions", "avail_actions"),
    "state": ("state",),
    "agent_mask": ("agent_mask", "present"),
}
"""What columns are called where nothing else is said."""
NEEDED = ("episode", "step", "agent", "observation", "action", "reward")
VECTORS = ("observation", "action", "action_mask", "state")
TRUE, FALSE = ("1", "true", "t", "yes", "y", "1.0"), ("0", "false", "f", "no", "n", "0.0", "")


@dataclass(frozen=True)
class Cells:
    """The cells of one meaning: [n] each, or [n, W] where there are several per row."""

    values: np.ndarray
    valid: np.ndarray
    """Which cells are filled."""
    is_list: bool = False
    """They stand in one column, so that a row has all or a wrong number of them."""


def resolve(columns: Sequence[str], options: Options) -> dict[str, tuple[str, ...]]:
    """The columns of each meaning that is there: those told, and others by their usual names."""
    found: dict[str, tuple[str, ...]] = {}
    for meaning in USUAL:
        told = getattr(options, meaning) or ()
        names = (told,) if isinstance(told, str) else told
        if names:
            found[meaning] = tuple(one for name in names for one in _told(name, columns, meaning))
    taken = {name for names in found.values() for name in names}
    rest = [name for name in columns if name not in taken]
    for meaning, usual in USUAL.items():
        known = [name for name in usual if _matches(name, rest, meaning)]
        if meaning in found or not known:
            continue
        if len(known) > 1:
            raise OryxError(
                f"the columns {' and '.join(known)} could both be the {meaning}; "
                f"say which: --{meaning} {known[0]}"
            )
        found[meaning] = _matches(known[0], rest, meaning)
    _require_columns(found, columns)
    return found


def _require_columns(found: dict[str, tuple[str, ...]], columns: Sequence[str]) -> None:
    """Raises unless all that is needed is there, and no column has two meanings."""
    for meaning in NEEDED:
        if meaning not in found:
            raise OryxError(
                f"no column is known as the {meaning}; say which: --{meaning} COLUMN. The columns "
                f"are: {', '.join(columns[:40])}{' ...' if len(columns) > 40 else ''}"
            )
    owners: dict[str, str] = {}
    for meaning, names in found.items():
        for name in names:
            if owners.setdefault(name, meaning) != meaning:
                raise OryxError(f"column {name} is taken for both {owners[name]} and {meaning}")


def _told(name: str, columns: Sequence[str], meaning: str) -> tuple[str, ...]:
    """The columns that a user means by a name."""
    if found := _matches(name, columns, meaning):
        return found
    raise OryxError(
        f"there is no column {name} for the {meaning}; the columns are: {', '.join(columns[:40])}"
    )


def _matches(name: str, columns: Sequence[str], meaning: str) -> tuple[str, ...]:
    """The column of a name, or those that begin with it and `_`; but action_mask is no action."""
    if name in columns:
        return (name,)
    if meaning not in VECTORS:
        return ()
    others = tuple(
        other for usual in USUAL.values() for other in usual if other.startswith(f"{name}_")
    )
    begins = [column for column in columns if column.startswith(f"{name}_")]
    return tuple(column for column in begins if not column.startswith(others))


def read_texts(column: Any) -> Any:
    """A column as an Arrow array of texts."""
    pa, compute = require("pyarrow"), require("pyarrow.compute")
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(column, pa.ChunkedArray):  # several chunks that cannot become one
        column = pa.concat_arrays(column.chunks)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column if pa.types.is_string(column.type) else compute.cast(column, pa.string())


def read_order(column: Any, name: str) -> np.ndarray:
    """Steps or times as numbers that can be compared."""
    pa, compute = require("pyarrow"), require("pyarrow.compute")
    if column.null_count:
        raise OryxError(f"column {name} has an empty cell")
    if pa.types.is_temporal(column.type):
        bits = column.type.bit_width
        column = compute.cast(column, pa.int64() if bits == 64 else pa.int32())
    elif not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        raise OryxError(f"column {name} has type {column.type}; steps must be numbers or times")
    return np.asarray(column.to_numpy())


def read_flags(column: Any, name: str) -> Cells:
    """Whether each cell says yes: true, 1, yes."""
    pa, compute = require("pyarrow"), require("pyarrow.compute")
    kind = column.type
    valid = _to_numpy(compute.is_valid(column))
    if pa.types.is_boolean(kind):
        return Cells(_to_numpy(compute.fill_null(column, False)), valid)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return Cells(_to_numpy(compute.fill_null(column, 0)) != 0, valid)
    words = compute.utf8_lower(compute.utf8_trim_whitespace(read_texts(column)))
    words = compute.fill_null(words, "")
    yes = compute.is_in(words, pa.array(TRUE))
    known = compute.or_(yes, compute.is_in(words, pa.array(FALSE)))
    if not compute.all(known).as_py():
        odd = words.filter(compute.invert(known))[0].as_py()
        raise OryxError(f"column {name} has '{odd}', which is neither yes nor no")
    return Cells(_to_numpy(yes), valid)


def read_scalars(column: Any, name: str) -> Cells:
    """A number in each cell."""
    pa, compute = require("pyarrow"), require("pyarrow.compute")
    kind = column.type
    if pa.types.is_boolean(kind):
        column, kind = compute.cast(column, pa.int8()), pa.int8()
    if pa.types.is_decimal(kind) or pa.types.is_null(kind):
        column, kind = compute.cast(column, pa.float64()), pa.float64()
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise OryxError(f"column {name} has type {kind}, but numbers are needed")
    valid = _to_numpy(compute.is_valid(column))
    if not column.null_count:
        return Cells(_to_numpy(column), valid)
    return Cells(_to_numpy(compute.fill_null(column, pa.scalar(0, kind))), valid)


def read_vectors(table: Any, names: tuple[str, ...]) -> Cells:
    """Numbers in each row: of several columns, or a list in one."""
    pa = require("pyarrow")
    if len(names) > 1 or not (
        pa.types.is_nested(table[names[0]].type) or pa.types.is_string(table[names[0]].type)
    ):
        columns = [read_scalars(table[name], name) for name in names]
        dtype = np.result_type(*(column.values.dtype for column in columns))
        values = np.stack([column.values for column in columns], axis=1, dtype=dtype)
        return Cells(values, np.stack([column.valid for column in columns], axis=1))
    return _read_lists(table[names[0]], names[0])


def _read_lists(column: Any, name: str) -> Cells:
    """The lists of a column, filled up to the longest."""
    pa, compute = require("pyarrow"), require("pyarrow.compute")
    if pa.types.is_string(column.type):
        column = parse_lists(column, name)
    kind = column.type
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    if not (is_list or pa.types.is_fixed_size_list(kind)):
        raise OryxError(f"column {name} has type {kind}, but lists of numbers are needed")
    lengths = _to_numpy(compute.fill_null(compute.list_value_length(column), 0)).astype(np.int64)
    # Only after null lists are gone does each of them have its entries in the flat values.
    filled = column.filter(compute.is_valid(column)) if column.null_count else column
    entries = read_scalars(compute.list_flatten(filled), name)
    if not entries.valid.all():
        raise OryxError(f"column {name} has a list with an empty entry")
    width = int(lengths.max(initial=0))
    if width * len(lengths) > 64 * len(entries.values) + 2**16:
        raise OryxError(f"column {name} has a list of {width:,} entries, but others are short")
    valid = np.arange(width) < lengths[:, None]
    values = np.zeros(valid.shape, entries.values.dtype)
    values[valid] = entries.values
    return Cells(values, valid, is_list=True)


def parse_lists(column: Any, name: str) -> Any:
    """Texts such as `[0.5, 1]` or `0.5 1` as lists of numbers."""
    pa, compute = require("pyarrow"), require("pyarrow.compute")
    words = compute.utf8_trim(column, " []()\t\r\n")
    words = compute.replace_substring_regex(words, r"[\s,;]+", " ")
    words = compute.if_else(compute.equal(words, ""), pa.scalar(None, pa.string()), words)
    lists = compute.split_pattern(words, " ")
    try:
        return compute.cast(lists, pa.list_(pa.float32()))
    except pa.ArrowInvalid as error:
        raise OryxError(
            f"column {name} has a cell that is no list of numbers: {str(error)[:120]}"
        ) from error


def _to_numpy(column: Any) -> np.ndarray:
    return np.asarray(column.to_numpy(zero_copy_only=False))
