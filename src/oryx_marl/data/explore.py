"""What a dataset's behaviour covers: returns, lengths, actions and features in more detail.

Numbers that fit into JSON, like those of `stats.py`, but they take a pass over all rows.
"""

from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Num, UInt64

from oryx_marl.data import view as views
from oryx_marl.data.stats import describe, find_agent_mask, make_histogram
from oryx_marl.data.view import Chunk, View

MOST_HASHES = 2**22
"""Distinct state-action pairs that are counted exactly; of more, a sample this large is kept."""
MOST_NEW_HASHES = 2**20
"""Hashes that wait to be compared with those before."""
GRID = 64
"""Points of a density."""
MOST_RETURNS = 5_000
"""Returns that a density is made of at most, evenly chosen."""


@runtime_checkable
class Statistic(Protocol):
    """Something that is computed over all rows, chunk by chunk."""

    names: tuple[str, ...]
    """Arrays that it needs, where they exist."""

    def add(self, chunk: Chunk) -> None:
        """Takes in the next rows."""


def explore(view: View, fingerprint: str | None = None) -> dict[str, Any]:
    """All of `describe`, and coverage, entropy, densities and ranges."""
    returns, lengths = views.episode_returns(view), views.episode_lengths(view)
    coverage, entropy = Coverage(view), Entropy(view)
    features, actions = Ranges("observations"), Ranges("actions")
    is_box = view.spec.action.kind == "box"
    _see_all(view, coverage, entropy, features, *([actions] if is_box else []))
    return {
        **describe(view, fingerprint),
        "coverage": coverage.result(),
        "entropy": entropy.result(),
        "length_histogram": make_histogram(lengths.astype(np.float64)),
        "density": make_density(returns[np.isfinite(returns)]),
        "features": features.result(),
        "action_ranges": actions.result() if is_box else None,
    }


def find_coverage(view: View) -> dict[str, Any]:
    """SACo: distinct pairs of joint state and joint action, over all transitions."""
    coverage = Coverage(view)
    _see_all(view, coverage)
    return coverage.result()


def find_entropy(view: View) -> dict[str, Any] | None:
    """Bits of each agent's choice of action over the whole log; None if actions are no ids."""
    entropy = Entropy(view)
    _see_all(view, entropy)
    return entropy.result()


def find_ranges(values: Num[np.ndarray, "R O"]) -> dict[str, list[float | None]]:
    """Least, largest, mean and spread of each column, of its finite numbers."""
    ranges = Ranges("values")
    ranges.add_values(values)
    return ranges.result()


def _see_all(view: View, *statistics: Statistic) -> None:
    """Shows all rows to some statistics, in one pass."""
    names = {name for statistic in statistics for name in statistic.names}
    for chunk in views.chunks(view, names):
        for statistic in statistics:
            statistic.add(chunk)


class Coverage:
    """Counts distinct pairs of joint state and joint action by their hashes.

    The state is the global one where it was logged, otherwise what all agents see. Where there are
    more than MOST_HASHES, those with hashes below a threshold are kept, which is halved each time
    they are too many again (adaptive sampling: Flajolet, "On adaptive sampling", 1990).
    """

    def __init__(self, view: View) -> None:
        self._state = "state" if "state" in view.layout else "observations"
        self.names: tuple[str, ...] = (self._state, "actions")
        self._num_rows = view.num_rows
        self._kept = np.zeros(0, np.uint64)
        self._new: list[np.ndarray] = []
        self._num_new = 0
        self._halvings = 0

    def add(self, chunk: Chunk) -> None:
        rows = len(chunk.is_last)
        arrays = [chunk.arrays[name].reshape(rows, -1) for name in self.names]
        hashes = hash_rows(np.concatenate(arrays, axis=1, dtype=np.float64))
        self._new.append(hashes[hashes <= self._largest])
        self._num_new += len(self._new[-1])
        if self._num_new > MOST_NEW_HASHES:
            self._merge()

    def result(self) -> dict[str, Any]:
        """The count and its share of all transitions; `is_estimate` where it is not exact."""
        self._merge()
        distinct = min(self._kept.size << self._halvings, self._num_rows)
        found = {
            "joint_saco": distinct / self._num_rows,
            "distinct_pairs": distinct,
            "state": "global state" if self._state == "state" else "joint observation",
        }
        return {**found, "is_estimate": True} if self._halvings else found

    @property
    def _largest(self) -> np.uint64:
        """The largest hash that is kept."""
        return np.uint64(2 ** (64 - self._halvings) - 1)

    def _merge(self) -> None:
        kept = np.concatenate([self._kept, *self._new])
        self._new, self._num_new = [], 0
        kept.sort()  # np.unique may use a hash table, which takes several times the memory
        self._kept = kept[np.append(True, kept[1:] != kept[:-1])[: kept.size]]
        while self._kept.size > MOST_HASHES:
            self._halvings += 1
            self._kept = self._kept[self._kept <= self._largest]


def hash_rows(values: Float[np.ndarray, "R O"]) -> UInt64[np.ndarray, "R"]:
    """64 bits per row: equal for equal rows, and as good as never for others.

    Each number is mixed with its column (the finaliser of splitmix64) before all are added.
    """
    bits: np.ndarray = (values + 0.0).view(np.uint64)  # + 0.0, since -0.0 is the same number
    bits = bits + np.arange(1, values.shape[1] + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
    return (bits ^ (bits >> np.uint64(31))).sum(axis=1, dtype=np.uint64)


class Entropy:
    """Bits of each agent's choice of action over the whole log.

    `choice` is what choosing evenly among the legal actions of each step would have.
    """

    names: tuple[str, ...] = ("actions", "action_mask", "agent_mask")

    def __init__(self, view: View) -> None:
        self._spec = view.spec
        self._has_masks = "action_mask" in view.layout
        is_box, size = view.spec.action.kind == "box", view.spec.action.size
        self._counts = np.zeros((view.spec.num_agents, 0 if is_box else size), np.int64)
        self._num_available = np.zeros(size + 1, np.int64)
        """Steps of present agents by the number of their legal actions."""

    def add(self, chunk: Chunk) -> None:
        action = self._spec.action
        if action.kind == "box":
            return
        actions, agent_mask = chunk.arrays["actions"], find_agent_mask(chunk.arrays)
        is_known = (actions >= 0) & (actions < action.size) & agent_mask
        for agent, counts in enumerate(self._counts):
            taken = actions[is_known[:, agent], agent].astype(np.int64)
            counts += np.bincount(taken, minlength=action.size)
        if self._has_masks:
            numbers = np.maximum(chunk.arrays["action_mask"].sum(axis=-1), 1)
            self._num_available += np.bincount(numbers[agent_mask], minlength=action.size + 1)

    def result(self) -> dict[str, Any] | None:
        """None if actions are no ids."""
        if self._spec.action.kind == "box":
            return None
        bits = {}
        for name, counts in zip(self._spec.agents, self._counts, strict=True):
            shares = counts[counts > 0] / max(1, counts.sum())
            bits[name] = float(-(shares * np.log2(shares)).sum()) + 0.0
        most = float(np.log2(self._spec.action.size))
        choice = most
        if self._has_masks:
            logs = np.log2(np.maximum(np.arange(len(self._num_available)), 1))
            choice = float((logs * self._num_available).sum() / max(1, self._num_available.sum()))
        return {"bits": bits, "choice": choice, "most": most}


def make_density(values: Float[np.ndarray, "E"]) -> dict[str, list[float]]:
    """A smooth density of values between the least and the largest, its peak being 1."""
    if values.size == 0:
        return {"values": [], "density": []}
    values = np.sort(values)[:: -(-values.size // MOST_RETURNS)]
    low, high = values[0], values[-1]
    if low == high:
        return {"values": [float(low)], "density": [1.0]}
    quarter, three = np.quantile(values, (0.25, 0.75))
    spread = min(values.std(), (three - quarter) / 1.34) or values.std()
    width = max(0.9 * spread * values.size**-0.2, (high - low) / 100)  # Silverman's rule
    grid = np.linspace(low, high, GRID)
    density = np.exp(-0.5 * ((grid[:, None] - values) / width) ** 2).sum(axis=1)
    return {"values": grid.tolist(), "density": (density / density.max()).tolist()}


class Ranges:
    """Least, largest, mean and spread of each entry of the present agents, of finite numbers."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.names: tuple[str, ...] = (name, "agent_mask")
        self._count: np.ndarray = np.zeros(0)

    def add(self, chunk: Chunk) -> None:
        values = chunk.arrays[self._name]
        if "agent_mask" in chunk.arrays:
            self.add_values(values[chunk.arrays["agent_mask"]])
        else:
            self.add_values(values.reshape(-1, values.shape[-1]))

    def add_values(self, values: Num[np.ndarray, "R O"]) -> None:
        """Takes in rows; means and spreads of parts are joined as by Chan et al. (1979)."""
        numbers = values.astype(np.float64)
        is_finite = np.isfinite(numbers)
        count = is_finite.sum(axis=0)
        low = numbers.min(axis=0, where=is_finite, initial=np.inf)
        high = numbers.max(axis=0, where=is_finite, initial=-np.inf)
        with np.errstate(over="ignore", invalid="ignore"):  # numbers near the largest float64
            mean = numbers.sum(axis=0, where=is_finite) / np.maximum(count, 1)
            numbers -= mean
            squares = np.square(numbers, out=numbers).sum(axis=0, where=is_finite)
            if not self._count.size:
                self._count, self._low, self._high = count, low, high
                self._mean, self._squares = mean, squares
                return
            total = np.maximum(self._count + count, 1)
            gap = mean - self._mean
            self._squares += squares + gap**2 * (self._count * (count / total))
            self._mean += gap * (count / total)
        self._count = self._count + count
        self._low, self._high = np.minimum(self._low, low), np.maximum(self._high, high)

    def result(self) -> dict[str, list[float | None]]:
        """By column; None where there is no finite number."""
        with np.errstate(invalid="ignore"):
            std = np.sqrt(self._squares / np.maximum(self._count, 1))
        found = {"low": self._low, "high": self._high, "mean": self._mean, "std": std}
        return {
            name: [
                float(value) if count and np.isfinite(value) else None
                for value, count in zip(values, self._count, strict=True)
            ]
            for name, values in found.items()
        }
