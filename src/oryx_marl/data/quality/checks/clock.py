"""Time: where a feature counts steps, it must not stand still, jump or go back.

Datasets hold no time of their own, only the order of the rows. But many logs carry a clock among
the features or in the state: a column that grows by the same amount from each step to the next.
"""

import numpy as np
from jaxtyping import Float, Int

from oryx_marl.data.quality.issues import Places
from oryx_marl.data.view import Chunk, View

REGULAR = 0.98
"""Share of equal ticks from which on a column is a clock."""
LOST = 0.9
"""Share below which a column is given up before the end."""
FEWEST_PAIRS = 50
"""Steps with a step before that are needed to tell."""
TOLERANCE = 1e-3
"""Share of a tick that rounding may add or take away."""
MOST_CLOCKS = 4
"""Clocks that are looked at; others tell the same."""


class Clock:
    """One agent's features, or the state, beside those of the step before."""

    def __init__(self, view: View) -> None:
        self.places = Places()
        spec = view.spec
        self._names = [(agent, e) for agent in spec.agents for e in range(spec.observation_size)]
        self._names += [("", entry) for entry in range(spec.state_size)]
        count = len(self._names)
        self._before = np.zeros((1, count))
        self._tick = np.full(count, np.nan)
        self._is_open = np.ones(count, bool)
        """Columns that can still be clocks."""
        self._num_pairs = 0
        self._num_regular = np.zeros(count, np.int64)
        self._found = [Places() for _ in range(count)]

    def see(self, chunk: Chunk) -> None:
        columns = np.flatnonzero(self._is_open)
        if not columns.size:
            return
        data = chunk.data
        values = data.observations.reshape(data.num_rows, -1)
        if data.state is not None:
            values = np.concatenate([values, data.state], axis=1)
        now = values[:, columns].astype(np.float64)
        with np.errstate(invalid="ignore", over="ignore"):  # what is not finite is told elsewhere
            ticks = now - np.concatenate([self._before[:, columns], now[:-1]])
        self._before = values[-1:].astype(np.float64)
        ticks = ticks[~chunk.is_first]
        is_known = np.isfinite(ticks)
        ticks[~is_known] = 0.0
        if not len(ticks):
            return
        rows = np.flatnonzero(~chunk.is_first)
        tick = np.where(
            np.isnan(self._tick[columns]), np.median(ticks, axis=0), self._tick[columns]
        )
        self._tick[columns] = tick
        is_regular = (np.abs(ticks - tick) <= TOLERANCE * tick) | ~is_known
        self._num_pairs += len(ticks)
        self._num_regular[columns] += is_regular.sum(axis=0)
        is_clock = (tick > 0) & (self._num_regular[columns] >= LOST * self._num_pairs)
        # A few rows decide nothing: a fault may be among the first.
        self._is_open[columns] = is_clock | (self._num_pairs < FEWEST_PAIRS)
        for place in np.flatnonzero(self._is_open[columns] & (tick > 0)):
            irregular = ~is_regular[:, place]
            self._note(chunk, int(columns[place]), rows[irregular], ticks[irregular, place])

    def end(self) -> None:
        is_clock = self._is_open & (self._tick > 0) & (self._num_pairs >= FEWEST_PAIRS)
        is_clock &= self._num_regular >= REGULAR * self._num_pairs
        for column in np.flatnonzero(is_clock)[:MOST_CLOCKS]:
            if self._found[column].counts:
                self.places = self._found[column]
                return

    def _note(
        self,
        chunk: Chunk,
        column: int,
        rows: Int[np.ndarray, "irregular"],
        ticks: Float[np.ndarray, "irregular"],
    ) -> None:
        """Irregular ticks of one column."""
        agent, entry = self._names[column]
        name = f"observations[{entry}]" if agent else f"state[{entry}]"
        moved = np.zeros(chunk.data.num_rows)
        moved[rows] = ticks

        def tell(row: int, _: int) -> tuple[str, str]:
            usual = self._tick[column]
            return name, f"this clock moves by {moved[row]:g}, otherwise by {usual:g}"

        kinds = {
            "time goes backwards": ticks < 0,
            "time stands still": ticks == 0,
            "time jumps": ticks > 0,
        }
        for kind, is_kind in kinds.items():
            mask = np.zeros(chunk.data.num_rows, bool)
            mask[rows[is_kind]] = True
            self._found[column].add_mask(kind, chunk, mask, tell, agent or None)


make = Clock
