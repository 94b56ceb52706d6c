"""Features that carry nothing: constant, or a copy of another; and actions that nobody takes."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Num

from oryx_marl.data.dataset import Dataset
from oryx_marl.data.quality.issues import Place, Places
from oryx_marl.data.quality.screen import is_finite
from oryx_marl.data.view import Chunk, View

Groups = list[list[int]]


class Table:
    """The columns of one agent, or of the state."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._first: np.ndarray | None = None
        self.is_constant = np.ones(width, bool)
        self.groups: Groups = [list(range(width))]
        """Columns that were equal in every row so far, together."""

    @property
    def first(self) -> np.ndarray:
        """The values of the first row."""
        assert self._first is not None
        return self._first

    @property
    def is_empty(self) -> bool:
        """Whether no row was seen."""
        return self._first is None

    def see(self, values: Num[np.ndarray, "R O"]) -> None:
        if len(values) == 0:
            return
        if self._first is None:
            self._first = values[0].copy()
        varies = self.is_constant.nonzero()[0]
        self.is_constant[varies] = (values[:, varies] == self._first[varies]).all(axis=0)
        refined: Groups = []
        for group in self.groups:
            columns = np.ascontiguousarray(values[:, group].T)
            equal: dict[bytes, list[int]] = {}
            for column, entries in zip(group, columns, strict=True):
                equal.setdefault(entries.tobytes(), []).append(column)
            refined += [columns for columns in equal.values() if len(columns) > 1]
        self.groups = refined


class Features:
    """Compares columns with their first value, with each other, and between agents."""

    def __init__(self, view: View) -> None:
        self.places = Places()
        spec = self._spec = view.spec
        self._tables = [Table(size) for size in spec.observation_sizes]
        self._state = Table(spec.state_size)
        width = 1 if spec.action.kind == "discrete" else spec.action.size
        self._actions = [Table(width) for _ in spec.agents]
        self._taken = np.zeros(spec.action.size, bool)
        self._can_take_first = False
        agents = range(spec.num_agents)
        self._twins = {(i, j) for j in agents for i in range(j)} if spec.num_agents > 1 else set()

    def see(self, chunk: Chunk) -> None:
        data = chunk.data
        for agent, table in enumerate(self._tables):
            here = slice(None) if data.agent_mask is None else data.agent_mask[:, agent]
            table.see(data.observations[here, agent, : table.width])
            actions = data.actions[here, agent]
            self._actions[agent].see(actions.reshape(len(actions), self._actions[agent].width))
            if data.spec.action.kind == "discrete":
                self._taken |= np.isin(np.arange(len(self._taken)), actions)
                action_mask = data.action_mask
                self._can_take_first |= action_mask is None or bool(
                    action_mask[here, agent, 0].any()
                )
        if data.state is not None:
            self._state.see(data.state)
        self._twins = {pair for pair in self._twins if _are_equal(data, *pair)}

    def end(self) -> None:
        for agent, name in enumerate(self._spec.agents):
            self._tell(self._tables[agent], "observations", name)
            self._tell_actions(self._actions[agent], name)
        self._tell(self._state, "state", None)
        if (
            self._can_take_first
            and not self._taken[0]
            and self._taken[-1]
            and self._taken.sum() > 1
        ):
            what = f"no agent ever takes 0, but {len(self._taken) - 1} is taken"
            self.places.add("first action never taken", Place(what, column="actions"))
        names = self._spec.agents
        for two in sorted({two for _, two in self._twins}):  # each once, beside the first like it
            one = min(first for first, second in self._twins if second == two)
            what = f"it always sees what {names[one]} sees"
            self.places.add("agents see the same", Place(what, agent=names[two]))

    def _tell_actions(self, actions: Table, agent: str) -> None:
        """An agent that always does the same, or dimensions of its actions that never change."""
        if actions.is_empty:
            return
        if self._spec.action.kind == "box":
            for entry in np.flatnonzero(actions.is_constant & is_finite(actions.first)):
                what = f"it is {actions.first[entry]:g} in every step"
                place = Place(what, agent=agent, column=f"actions[{entry}]")
                self.places.add("constant action", place)
        elif actions.is_constant[0] and self._spec.action.size > 1:
            what = f"its action is {actions.first[0]} in every step"
            place = Place(what, agent=agent, column="actions")
            self.places.add("agent has one action", place)

    def _tell(self, table: Table, array: str, agent: str | None) -> None:
        """Constant columns and copies of one table."""
        if table.is_empty:
            return
        for entry in np.flatnonzero(table.is_constant & is_finite(table.first)):
            what = f"it is {table.first[entry]} in every step"
            self.places.add(
                "constant feature", Place(what, agent=agent, column=f"{array}[{entry}]")
            )
        for first, copy in _pairs(table):
            what = f"it always equals {array}[{first}]"
            self.places.add(
                "duplicated feature", Place(what, agent=agent, column=f"{array}[{copy}]")
            )


make = Features


def _pairs(table: Table) -> Iterator[tuple[int, int]]:
    """Each copy with the first of its group; constant columns are told as such."""
    for group in table.groups:
        for copy in group[1:]:
            if not table.is_constant[copy]:
                yield group[0], copy


def _are_equal(data: Dataset, one: int, two: int) -> bool:
    return bool(np.array_equal(data.observations[:, one], data.observations[:, two]))
