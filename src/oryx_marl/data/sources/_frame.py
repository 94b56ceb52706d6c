"""Rows of a long table that are whole episodes, with what their cells say."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from oryx_marl.data._derive import ActionKind
from oryx_marl.data.sources._columns import (
    Cells,
    Columns,
    read_flags,
    read_order,
    read_scalars,
    read_texts,
    read_vectors,
    refuse_words,
)
from oryx_marl.data.sources._mask_columns import EXPECTED
from oryx_marl.data.sources.base import require
from oryx_marl.errors import OryxError

ALONE = "agent_0"
"""The agent of a table that has no column of agents."""
FILE_ROW = "row in the file"
"""Column that says where a row stands, where rows of the file and of the table are not the same."""


@dataclass(frozen=True)
class Frame:
    """The n rows of some whole episodes, with what their cells say."""

    first_row: int
    """Number of the first row in the file, counted from 1 without the header."""
    agent: Any
    """[n] names."""
    row: np.ndarray
    """[n] the step that a row belongs to, counted over all episodes of the frame."""
    starts: np.ndarray
    """[E] the first step of each episode."""
    episode_names: list[str]
    is_final: np.ndarray
    """[n] the row only says what was seen after the last action."""
    has_final: np.ndarray
    """[E] whether the last step of an episode is such a one."""
    cells: dict[str, Cells]
    words: Any = None
    """[n] actions that are words, not numbers."""
    has_agents: bool = True
    """There is a column of agents."""
    file_rows: np.ndarray | None = None
    """[n] numbers of the rows in the file, where they are not counted from the first."""

    @property
    def num_steps(self) -> int:
        return int(self.row.max()) + 1

    def number(self, row: int) -> int:
        """Which row of the file it is."""
        return self.first_row + row if self.file_rows is None else int(self.file_rows[row])

    def place(self, row: int) -> str:
        """Where a row stands, in words."""
        step = self.row[row]
        number = self.number(row)
        episode = int(np.searchsorted(self.starts, step, side="right")) - 1
        return (
            f"row {number:,} (episode {self.episode_names[episode]}, step "
            f"{int(step - self.starts[episode])} of it, agent {self.agent[row].as_py()})"
        )


class _Steps(NamedTuple):
    """Which step of which episode each row belongs to."""

    row: np.ndarray
    """[n] numbers of steps, counted over all episodes."""
    starts: np.ndarray
    """[E] the first step of each episode."""
    names: list[str]
    """[E] what episodes are called."""


def make_frame(table: Any, columns: Columns, first_row: int, kind: ActionKind) -> Frame:
    """Reads the cells of whole episodes."""
    for meaning in ("episode", "agent"):
        for name in columns.get(meaning, ()):
            if table[name].null_count:
                raise OryxError(f"column {name} has an empty cell; every row needs an {meaning}")
    row, starts, names = _number_steps(table, columns)
    cells, words = _read_cells(table, columns, kind)
    if words is None:
        has_action = np.asarray(cells["action"].valid.reshape(len(row), -1).any(axis=1))
    else:
        has_action = np.asarray(words.is_valid().to_numpy(zero_copy_only=False))
    is_acted = np.bincount(row, has_action) > 0
    last = np.append(starts[1:], len(is_acted)) - 1
    is_after_end = np.zeros(len(is_acted), bool)
    is_after_end[last] = ~is_acted[last]
    frame = Frame(
        first_row=first_row,
        agent=_read_agents(table, columns),
        row=row,
        starts=starts,
        episode_names=names,
        is_final=is_after_end[row],
        has_final=is_after_end[last],
        cells=cells,
        words=words,
        has_agents="agent" in columns,
        file_rows=np.asarray(table[FILE_ROW]) if FILE_ROW in table.column_names else None,
    )
    _require_sound(frame, has_action)
    return frame


def _read_agents(table: Any, columns: Columns) -> Any:
    """[n] names."""
    if "agent" in columns:
        return read_texts(table[columns["agent"][0]])
    pa = require("pyarrow")
    return pa.repeat(pa.scalar(ALONE), table.num_rows)


def _number_steps(table: Any, columns: Columns) -> _Steps:
    """Steps in their order, episodes in that of the table."""
    episodes = read_texts(table[columns["episode"][0]]).dictionary_encode()
    codes = np.asarray(episodes.indices)  # in order of appearance
    steps = read_order(table[columns["step"][0]], columns["step"][0])
    order = np.lexsort((steps, codes))
    is_new_episode = np.append(True, np.diff(codes[order]) != 0)
    is_new_step = is_new_episode | np.append(True, steps[order][1:] != steps[order][:-1])
    row = np.empty(len(codes), np.int64)
    row[order] = np.cumsum(is_new_step) - 1
    return _Steps(row, row[order][is_new_episode], episodes.dictionary.to_pylist())


def _read_cells(
    table: Any, columns: Columns, kind: ActionKind
) -> tuple[dict[str, Cells], Any | None]:
    """The numbers of all columns that are there; the actions apart if they are words."""
    reward = columns["reward"][0]
    cells = {"reward": read_scalars(table[reward], reward)}
    for meaning in ("observation", "state"):
        if meaning in columns:
            cells[meaning] = read_vectors(table, columns[meaning])
    if "action_mask" in columns:
        cells["action_mask"] = _read_mask(table, columns["action_mask"])
    for meaning in ("terminal", "truncated", "agent_mask"):
        if meaning in columns:
            cells[meaning] = read_flags(table[columns[meaning][0]], columns[meaning][0])
    words, acted = _read_actions(table, columns["action"], kind)
    if acted is not None:
        cells["action"] = acted
    return cells, words


def _read_actions(
    table: Any, names: tuple[str, ...], kind: ActionKind
) -> tuple[Any | None, Cells | None]:
    """Actions as words, or as numbers [n] or [n, A]."""
    pa = require("pyarrow")
    column = table[names[0]]
    if len(names) == 1 and not pa.types.is_nested(column.type):
        if pa.types.is_string(column.type) or pa.types.is_dictionary(column.type):
            return read_texts(column), None
        cells = read_scalars(column, names[0])
        if kind == "box":
            return None, Cells(cells.values[:, None], cells.valid[:, None])
        return None, cells
    if len(names) > 1 and any(pa.types.is_string(table[name].type) for name in names):
        raise refuse_words(names, is_wide=FILE_ROW in table.column_names)
    cells = read_vectors(table, names)
    width = cells.values.shape[1]
    partly = cells.valid.any(axis=1) & ~cells.valid.all(axis=1)
    if partly.any():
        raise OryxError(f"the actions in {', '.join(names)} do not all have {width} numbers")
    if width == 1 and cells.values.dtype.kind in "iu" and kind != "box":
        return None, Cells(cells.values[:, 0], cells.valid[:, 0])
    return None, cells


def _read_mask(table: Any, names: tuple[str, ...]) -> Cells:
    """Which actions were available, [n, A]."""
    pa = require("pyarrow")
    if len(names) == 1 and (
        pa.types.is_nested(table[names[0]].type) or pa.types.is_string(table[names[0]].type)
    ):
        try:
            cells = read_vectors(table, names)
        except OryxError as error:
            raise OryxError(f"{error}; {EXPECTED}") from error
        return replace(cells, values=cells.values != 0)
    columns = [read_flags(table[name], name) for name in names]
    values = np.stack([column.values for column in columns], axis=1)
    return Cells(values, np.stack([column.valid for column in columns], axis=1))


def _require_sound(frame: Frame, has_action: np.ndarray) -> None:
    """Raises if a row is there twice, has no action or no reward, or an episode has no step."""
    agents = np.asarray(frame.agent.dictionary_encode().indices)
    order = np.lexsort((agents, frame.row))
    twice = (np.diff(frame.row[order]) == 0) & (np.diff(agents[order]) == 0)
    if twice.any():
        odd = int(np.flatnonzero(twice)[0])
        first, second = sorted(int(order[place]) for place in (odd, odd + 1))
        hint = (
            "each agent has one row per step"
            if frame.has_agents
            else "no column is known as the agent, so there is one row per step. Are there several "
            "agents? Say which column names them: --agent COLUMN"
        )
        raise OryxError(
            f"{frame.place(second)} is there twice, first in row {frame.number(first):,}; {hint}"
        )
    lengths = np.diff(np.append(frame.starts, frame.num_steps)) - frame.has_final
    if (lengths == 0).any():
        name = frame.episode_names[int(lengths.argmin())]
        raise OryxError(f"episode {name} has no step with an action")
    mask = frame.cells.get("agent_mask")
    needed = ~frame.is_final if mask is None else ~frame.is_final & mask.values
    for what, valid in (("action", has_action), ("reward", frame.cells["reward"].valid)):
        lacking = needed & ~valid
        if lacking.any():
            odd = int(np.flatnonzero(lacking)[0])
            raise OryxError(
                f"{frame.place(odd)} has no {what}; only the last step of an episode may go without"
            )
