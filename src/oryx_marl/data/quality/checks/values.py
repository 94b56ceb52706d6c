"""Numbers that are not finite, padding, and actions that cannot be."""

from functools import partial

import numpy as np
from jaxtyping import Num

from oryx_marl.data.dataset import Dataset
from oryx_marl.data.quality import screen as check
from oryx_marl.data.quality.issues import Place, Places
from oryx_marl.data.view import Chunk, View, chunk_rows


class Values:
    """Looks at each number on its own."""

    def __init__(self, view: View) -> None:
        self.places = Places()
        self._view = view
        spec = view.spec
        width = np.arange(spec.observation_size)
        self._is_padding = width >= np.array(spec.observation_sizes)[:, None]
        self._is_infinite = np.ones((spec.num_agents, spec.observation_size), bool)
        """Columns that were -inf in every row so far."""
        self._num_seen = 0

    def see(self, chunk: Chunk) -> None:
        data = chunk.data
        self._see_observations(chunk)
        self._see_padding(chunk)
        masks = {
            "non-finite reward": ~check.is_finite(data.rewards),
            **check.find_action_masks(data),
        }
        for kind, mask in masks.items():
            self.places.add_mask(kind, chunk, mask, partial(_tell, data, kind))
        if data.spec.action.kind == "box":
            self._see_bounds(chunk)
        if data.state is not None:
            self._see_state(chunk, data.state)

    def end(self) -> None:
        spec = self._view.spec
        for agent, entry in np.argwhere(self._is_infinite).tolist():
            place = Place("it is -inf in every step", agent=spec.agents[agent], column=_name(entry))
            self.places.add("infinite padding", place)
        if "final_observations" in self._view.layout:
            self._see_final()

    def _see_final(self) -> None:
        """What was seen after the end of each episode."""
        spec, count = self._view.spec, len(self._view.episode_starts)
        size = chunk_rows(self._view)
        for first in range(0, count, size):
            values = self._view.read_final(first, min(first + size, count))
            assert values is not None
            wrong = ~check.is_finite(values) & ~self._is_infinite
            for episode, agent in np.argwhere(wrong.any(axis=-1)):
                entry = wrong[episode, agent].argmax()
                what = f"what was seen at last, entry {entry}, is {values[episode, agent, entry]}"
                column = f"final_observations[{entry}]"
                place = Place(what, first + int(episode), None, spec.agents[agent], column)
                self.places.add("non-finite final observation", place)

    def _see_observations(self, chunk: Chunk) -> None:
        """Finite numbers; columns that are -inf throughout are padding."""
        observations, agents = chunk.data.observations, chunk.data.spec.agents
        wrong = ~check.is_finite(observations)
        if wrong.any() or self._num_seen == 0:
            still = self._is_infinite & np.isneginf(observations).all(axis=0)
        else:
            still = np.zeros_like(self._is_infinite)
        if self._num_seen:  # columns that were -inf until now: single faults after all
            for agent, entry in np.argwhere(self._is_infinite & ~still).tolist():
                place = Place(f"{_name(entry)} is -inf", 0, 0, agents[agent], _name(entry))
                self.places.add("non-finite observation", place, self._num_seen)
        self._is_infinite = still
        self._num_seen += len(observations)
        wrong &= ~still

        def tell(row: int, agent: int) -> tuple[str, str]:
            entry = int(wrong[row, agent].argmax())
            return _name(entry), f"it is {observations[row, agent, entry]}"

        self.places.add_mask("non-finite observation", chunk, np.asarray(wrong.any(axis=-1)), tell)

    def _see_padding(self, chunk: Chunk) -> None:
        """Nothing but 0, or -inf throughout, behind an agent's last feature."""
        if not self._is_padding.any():
            return
        observations, sizes = chunk.data.observations, chunk.data.spec.observation_sizes
        filled = np.logical_and(observations != 0, self._is_padding & ~self._is_infinite)

        def tell(row: int, agent: int) -> tuple[str, str]:
            entry = int(filled[row, agent].argmax())
            value = observations[row, agent, entry]
            return _name(entry), f"it is {value}, but this agent has {sizes[agent]} features"

        mask = np.asarray(filled.any(axis=-1))
        self.places.add_mask("padding not empty", chunk, mask, tell)

    def _see_state(self, chunk: Chunk, state: Num[np.ndarray, "R _"]) -> None:
        """Finite numbers."""
        wrong = ~check.is_finite(state)

        def tell(row: int, _: int) -> tuple[str, str]:
            entry = int(wrong[row].argmax())
            return f"state[{entry}]", f"it is {state[row, entry]}"

        self.places.add_mask("non-finite state", chunk, np.asarray(wrong.any(axis=-1)), tell)

    def _see_bounds(self, chunk: Chunk) -> None:
        """Box actions stay inside, but for rounding."""
        action, values = chunk.data.spec.action, chunk.data.actions
        low, high = np.array(action.low), np.array(action.high)
        outside = check.find_outside(chunk.data)

        def tell(row: int, agent: int) -> tuple[str, str]:
            entry = int(outside[row, agent].argmax())
            value = values[row, agent, entry]
            return f"actions[{entry}]", f"it is {value}, outside {low[entry]:g} to {high[entry]:g}"

        mask = np.asarray(outside.any(axis=-1))
        self.places.add_mask("action outside its bounds", chunk, mask, tell)


make = Values


def _tell(data: Dataset, kind: str, row: int, agent: int) -> tuple[str, str]:
    column = {"non-finite reward": "rewards", "no legal action": "action_mask"}.get(kind, "actions")
    return column, check.tell(data, kind, row, agent)


def _name(entry: int) -> str:
    return f"observations[{entry}]"
