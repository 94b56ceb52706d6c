"""Which column of a table means what, and the numbers in its cells."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oryx_marl.data.sources._mask_columns import in_order
from oryx_marl.data.sources.base import ActionOptions, require
from oryx_marl.errors import OryxError

Columns = dict[str, tuple[str, ...]]
"""The columns of each meaning."""
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
NEEDED = ("episode", "step", "observation", "action", "reward")
VECTORS = ("observation", "action", "action_mask", "state")
WITHIN = ("_", ".")
"""What stands between the name of several columns and that of each: obs_x, or obs.x of JSON."""
TRUE, FALSE = ("1", "true", "t", "yes", "y", "1.0"), ("0", "false", "f", "no", "n", "0.0", "")


@dataclass(frozen=True)
class ColumnOptions(ActionOptions):
    """What can be told about tables of any kind; what is not told is inferred.

    Each of the first fields names a column, or several; the name `obs` also stands for all columns
    that begin with `obs_`.
    """

    episode: str | None = None
    """Column that tells episodes apart."""
    step: str | None = None
    """Column that orders the steps of an episode: a number or a time."""
    observation: tuple[str, ...] = ()
    """What the agent saw: columns, or one column with a list in each cell."""
    action: tuple[str, ...] = ()
    """What it did: a number or a word, or several numbers."""
    reward: str | None = None
    """What it got for it."""
    terminal: str | None = None
    """Whether the task ended after this step."""
    truncated: str | None = None
    """Whether the recording ended after this step, although the task would have gone on."""
    action_mask: tuple[str, ...] = ()
    """Which actions were available: 0 or 1 for each, in the order of their ids; columns that end in
    the words of the actions are matched by word."""
    state: tuple[str, ...] = ()
    """Global state, if there is one."""
    agent_mask: str | None = None
    """Whether the agent took part in this step."""
    agents: tuple[str, ...] = ()
    """The agents in their order, if it is not that of their names."""
    action_names: tuple[str, ...] = ()
    """Words for the actions in the order of their ids, if it is not that of the alphabet."""
    sort: bool = False
    """Bring the rows of each episode together first, in memory."""


@dataclass(frozen=True)
class Cells:
    """The cells of one meaning: [n] each, or [n, W] where there are several per row."""

    values: np.ndarray
    valid: np.ndarray
    """Which cells are filled."""
    is_list: bool = False
    """They stand in one column, so that a row has all or a wrong number of them."""


def names_told(options: ColumnOptions, meaning: str) -> tuple[str, ...]:
    """The names that a user gave for a meaning."""
    told: str | tuple[str, ...] = getattr(options, meaning, None) or ()
    return (told,) if isinstance(told, str) else told


def resolve(columns: Sequence[str], options: ColumnOptions) -> Columns:
    """The columns of each meaning that is there: those told, and others by their usual names."""
    found: Columns = {}
    for meaning in USUAL:
        names = names_told(options, meaning)
        if pattern := next((name for name in names if "{agent}" in name), None):
            raise OryxError(
                f"{pattern} names a column for each agent; say that it is a wide table: --kind wide"
            )
        if names:
            found[meaning] = tuple(one for name in names for one in _told(name, columns, meaning))
    taken = {name for names in found.values() for name in names}
    rest = [name for name in columns if name not in taken]
    for meaning, usual in USUAL.items():
        known = [name for name in usual if matches(name, rest, meaning)]
        if meaning in found or not known:
            continue
        if len(known) > 1:
            raise OryxError(
                f"the columns {' and '.join(known)} could both be the {meaning}; "
                f"say which: {to_flag(meaning)} {known[0]}"
            )
        found[meaning] = matches(known[0], rest, meaning)
    require_columns(found, columns)
    return found


def all_names(layouts: Sequence[Columns]) -> list[str]:
    """The columns of several layouts, each once."""
    names = (name for layout in layouts for found in layout.values() for name in found)
    return list(dict.fromkeys(names))


def to_flag(meaning: str) -> str:
    """The flag that names the columns of a meaning."""
    return f"--{meaning.replace('_', '-')}"


def listed(columns: Sequence[str]) -> str:
    """The names of columns, as far as one wants to read them."""
    return f"{', '.join(columns[:40])}{' ...' if len(columns) > 40 else ''}"


def require_columns(found: Columns, columns: Sequence[str], is_wide: bool = False) -> None:
    """Raises unless all that is needed is there, and no column has two meanings."""
    for meaning in NEEDED:
        if meaning not in found:
            raise OryxError(
                f"no column is known as the {meaning}; say which: {to_flag(meaning)} "
                f"{_what_to_do(meaning, found, is_wide)} The columns are: {listed(columns)}"
            )
    owners: dict[str, str] = {}
    for meaning, names in found.items():
        for name in names:
            if owners.setdefault(name, meaning) != meaning:
                raise OryxError(f"column {name} is taken for both {owners[name]} and {meaning}")


def _what_to_do(meaning: str, found: Columns, is_wide: bool) -> str:
    """Where no column is known for what is needed."""
    if meaning == "episode":
        return "COLUMN. If there is none, add one; for a single episode: df['episode'] = 0."
    if meaning == "step":
        apart = [found["episode"][0], *(() if is_wide else found.get("agent", ()))]
        return (
            "COLUMN. If there is none, add one; where rows stand in their order: df['step'] = "
            f"df.groupby({apart}).cumcount()."
        )
    if is_wide:
        shared = ", or COLUMN if all share it" if meaning == "reward" else ""
        return f"'{{agent}}_COLUMN', in which {{agent}} is the name of each{shared}."
    return "COLUMN. (Has each agent columns of its own? --kind wide.)"


def refuse_words(names: Sequence[str], is_wide: bool) -> OryxError:
    """The error of an action of several columns, of which some are words."""
    hint = "" if is_wide else ". Has each agent a column of its own? --kind wide"
    return OryxError(
        f"the actions in {', '.join(names)} are words, but an action of several columns is made of "
        f"numbers{hint}"
    )


def _told(name: str, columns: Sequence[str], meaning: str) -> tuple[str, ...]:
    """The columns that a user means by a name."""
    if found := matches(name, columns, meaning):
        return found
    raise OryxError(
        f"there is no column {name} for the {meaning}; the columns are: {listed(columns)}"
    )


def matches(
    name: str, columns: Sequence[str], meaning: str, others: Sequence[str] = ()
) -> tuple[str, ...]:
    """The column of a name, or those that begin with it and `_`; but action_mask is no action.

    `others` are names that begin so and mean something else, beside the usual ones.
    """
    if name in columns:
        return (name,)
    if meaning not in VECTORS:
        return ()
    begin = tuple(f"{name}{mark}" for mark in WITHIN)
    usual = (other for names in USUAL.values() for other in names)
    apart = tuple(other for other in (*usual, *others) if other.startswith(begin))
    begins = [column for column in columns if column.startswith(begin)]
    own = tuple(column for column in begins if not column.startswith(apart))
    return in_order(own) if meaning == "action_mask" else own


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
