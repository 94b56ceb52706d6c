"""Numbers that are not finite, padding, and actions that cannot be."""

from functools import partial

import numpy as np
from jaxtyping import Num

from oryx_marl.data.dataset import Dataset
from oryx_marl.data.quality import screen as check
from oryx_marl.data.quality.issues import Place, Places
from oryx_marl.data.view import Rows, Stretch

BOUND_TOLERANCE = 1e-3
"""Share of a box's width that rounding may take an action outside."""


class Values:
    """Looks at each number on its own."""

    def __init__(self, rows: Rows) -> None:
        self.places = Places()
        self._rows = rows
        spec = rows.spec
        width = np.arange(spec.observation_size)
        self._is_padding = width >= np.array(spec.observation_sizes)[:, None]
        self._is_infinite = np.ones((spec.num_agents, spec.observation_size), bool)
        """Columns that were -inf in every row so far."""
        self._num_seen = 0

    def see(self, stretch: Stretch) -> None:
        data = stretch.data
        self._see_observations(stretch)
        self._see_padding(stretch)
        masks = {
            "non-finite reward": ~check.is_finite(data.rewards),
            **check.find_action_masks(data),
        }
        for kind, mask in masks.items():
            self.places.add_mask(kind, stretch, mask, partial(_tell, data, kind))
        if data.spec.action.kind == "box":
            self._see_bounds(stretch)
        if data.state is not None:
            self._see_state(stretch, data.state)

    def end(self) -> None:
        spec, size = self._rows.spec, 1024
        for agent, entry in np.argwhere(self._is_infinite):
            place = Place("it is -inf in every step", agent=spec.agents[agent], column=_name(entry))
            self.places.add("infinite padding", place)
        read = self._rows.read_final
        for first in range(0, len(self._rows.episode_starts) if read else 0, size):
            assert read is not None
            values = read(first, min(first + size, len(self._rows.episode_starts)))
            wrong = ~check.is_finite(values) & ~self._is_infinite
            for episode, agent in np.argwhere(wrong.any(axis=-1)):
                entry = wrong[episode, agent].argmax()
                what = f"what was seen at last, entry {entry}, is {values[episode, agent, entry]}"
                column = f"final_observations[{entry}]"
                place = Place(what, first + int(episode), None, spec.agents[agent], column)
                self.places.add("non-finite final observation", place)

    def _see_observations(self, stretch: Stretch) -> None:
        """Finite numbers; columns that are -inf throughout are padding."""
        observations, agents = stretch.data.observations, stretch.data.spec.agents
        wrong = ~check.is_finite(observations)
        if wrong.any() or self._num_seen == 0:
            still = self._is_infinite & np.isneginf(observations).all(axis=0)
        else:
            still = np.zeros_like(self._is_infinite)
        if self._num_seen:  # columns that were -inf until now: single faults after all
            for agent, entry in np.argwhere(self._is_infinite & ~still):
                place = Place(f"{_name(entry)} is -inf", 0, 0, agents[agent], _name(entry))
                self.places.add("non-finite observation", place, self._num_seen)
        self._is_infinite = still
        self._num_seen += len(observations)
        wrong &= ~still

        def tell(row: int, agent: int) -> tuple[str, str]:
            entry = int(wrong[row, agent].argmax())
            return _name(entry), f"it is {observations[row, agent, entry]}"

        self.places.add_mask(
            "non-finite observation", stretch, np.asarray(wrong.any(axis=-1)), tell
        )

    def _see_padding(self, stretch: Stretch) -> None:
        """Nothing but 0, or -inf throughout, behind an agent's last feature."""
        if not self._is_padding.any():
            return
        observations, sizes = stretch.data.observations, stretch.data.spec.observation_sizes
        filled = np.logical_and(observations != 0, self._is_padding & ~self._is_infinite)

        def tell(row: int, agent: int) -> tuple[str, str]:
            entry = int(filled[row, agent].argmax())
            value = observations[row, agent, entry]
            return _name(entry), f"it is {value}, but this agent has {sizes[agent]} features"

        mask = np.asarray(filled.any(axis=-1))
        self.places.add_mask("padding not empty", stretch, mask, tell)

    def _see_state(self, stretch: Stretch, state: Num[np.ndarray, "R _"]) -> None:
        """Finite numbers."""
        wrong = ~check.is_finite(state)

        def tell(row: int, _: int) -> tuple[str, str]:
            entry = int(wrong[row].argmax())
            return f"state[{entry}]", f"it is {state[row, entry]}"

        self.places.add_mask("non-finite state", stretch, np.asarray(wrong.any(axis=-1)), tell)

    def _see_bounds(self, stretch: Stretch) -> None:
        """Box actions stay inside, but for rounding."""
        action, values = stretch.data.spec.action, stretch.data.actions
        low, high = np.array(action.low), np.array(action.high)
        if not (low.size and high.size):
            return
        slack = BOUND_TOLERANCE * (high - low)
        outside = (values < low - slack) | (values > high + slack)

        def tell(row: int, agent: int) -> tuple[str, str]:
            entry = int(outside[row, agent].argmax())
            value = values[row, agent, entry]
            return f"actions[{entry}]", f"it is {value}, outside {low[entry]:g} to {high[entry]:g}"

        mask = outside.any(axis=-1)
        if stretch.data.present is not None:
            mask &= stretch.data.present
        self.places.add_mask("action outside its bounds", stretch, mask, tell)


make = Values


def _tell(data: Dataset, kind: str, row: int, agent: int) -> tuple[str, str]:
    column = {"non-finite reward": "rewards", "no legal action": "legal"}.get(kind, "actions")
    return column, check.tell(data, kind, row, agent)


def _name(entry: int) -> str:
    return f"observations[{entry}]"
