"""Rewards whose size or sharing looks like a slip."""

import numpy as np

from oryx_marl.data.quality.issues import MOST_PLACES, Place, Places
from oryx_marl.data.quality.screen import is_finite
from oryx_marl.data.view import Chunk, View

FAR_OUT = 100.0
"""Times the 99th percentile (of sizes that are not 0) beyond which a reward looks like a slip."""
SCALE = (1e-3, 1e3)
"""Sizes between which the 99th percentile is taken as usual."""
BINS_PER_DECADE = 20
LOWEST, HIGHEST = -45, 39
"""Powers of ten of the smallest and largest float32."""


class Rewards:
    """A histogram of sizes on a logarithmic scale, and the largest with their places."""

    def __init__(self, view: View) -> None:
        self.places = Places()
        self._spec = view.spec
        self._counts = np.zeros((HIGHEST - LOWEST) * BINS_PER_DECADE, np.int64)
        self._largest: list[tuple[float, Place]] = []

    def see(self, chunk: Chunk) -> None:
        data = chunk.data
        rewards = data.rewards.astype(np.float64)
        agent_mask = np.ones(rewards.shape, bool) if data.agent_mask is None else data.agent_mask
        sizes = np.where(agent_mask & is_finite(rewards), np.abs(rewards), 0.0)
        there = sizes[sizes > 0]
        if there.size:
            bins = np.floor((np.log10(there) - LOWEST) * BINS_PER_DECADE).astype(np.int64)
            np.add.at(self._counts, np.clip(bins, 0, len(self._counts) - 1), 1)
            self._keep_largest(chunk, sizes)
        if self._spec.shared_reward:
            one = np.take_along_axis(rewards, agent_mask.argmax(axis=1)[:, None], axis=1)
            differs = agent_mask & (rewards != one) & np.isfinite(rewards) & np.isfinite(one)
            self.places.add_mask(
                "rewards differ",
                chunk,
                differs,
                lambda row, agent: (
                    "rewards",
                    f"it gets {rewards[row, agent]:g}, another agent {one[row, 0]:g}",
                ),
            )

    def end(self) -> None:
        total = self._counts.sum()
        if not total:
            self.places.add("no reward", Place("every reward is 0", column="rewards"))
            return
        reached = np.searchsorted(np.cumsum(self._counts), 0.99 * total)
        usual = 10.0 ** (LOWEST + (reached + 1) / BINS_PER_DECADE)
        for size, place in self._largest:
            if size > FAR_OUT * usual:
                what = f"{place.what}, but 99% of rewards are below {usual:.3g}"
                self.places.add("reward far out", place._replace(what=what))
        if not SCALE[0] <= usual <= SCALE[1]:
            what = f"99% of rewards that are not 0 are below {usual:.3g}"
            self.places.add("reward scale", Place(what, column="rewards"))

    def _keep_largest(self, chunk: Chunk, sizes: np.ndarray) -> None:
        """The largest so far, largest first."""
        for index in np.argsort(sizes, axis=None)[-MOST_PLACES:]:
            row, agent = (int(part) for part in np.unravel_index(index, sizes.shape))
            if sizes[row, agent] > 0:
                what = f"reward {chunk.data.rewards[row, agent]:g}"
                name = self._spec.agents[agent]
                place = Place(what, *chunk.locate(row), name, "rewards")
                self._largest.append((float(sizes[row, agent]), place))
        self._largest = sorted(self._largest, key=lambda pair: -pair[0])[:MOST_PLACES]


make = Rewards
