"""What a dataset's behaviour covers: returns, lengths, actions and features in more detail.

Numbers that fit into JSON, like those of `stats.py`, but they take a pass over all rows.
"""

from typing import Any

import numpy as np
from jaxtyping import Float, Num, UInt64

from oryx_marl.data.dataset import Dataset
from oryx_marl.data.stats import describe, make_histogram

VALUES_AT_ONCE = 2**20
GRID = 64
"""Points of a density."""
MOST_RETURNS = 5_000
"""Returns that a density is made of at most, evenly chosen."""


def explore(dataset: Dataset) -> dict[str, Any]:
    """All of `describe`, and coverage, entropy, densities and ranges."""
    returns = dataset.episode_returns
    return {
        **describe(dataset),
        "coverage": find_coverage(dataset),
        "entropy": find_entropy(dataset),
        "length_histogram": make_histogram(dataset.episode_lengths.astype(np.float64)),
        "density": make_density(returns[np.isfinite(returns)]),
        "features": find_ranges(_of_present(dataset, dataset.observations)),
        "action_ranges": _find_action_ranges(dataset),
    }


def find_coverage(dataset: Dataset) -> dict[str, Any]:
    """SACo: distinct pairs of joint state and joint action, over all transitions.

    The state is the global one where it was logged, otherwise what all agents see.
    """
    state = dataset.observations if dataset.state is None else dataset.state
    arrays = [array.reshape(dataset.num_rows, -1) for array in (state, dataset.actions)]
    rows = max(1, VALUES_AT_ONCE // sum(array.shape[1] for array in arrays))
    parts = []
    for start in range(0, dataset.num_rows, rows):
        pieces = [array[start : start + rows].astype(np.float64) for array in arrays]
        parts.append(hash_rows(np.concatenate(pieces, axis=1)))
    distinct = int(np.unique(np.concatenate(parts)).size)
    return {
        "joint_saco": distinct / dataset.num_rows,
        "distinct_pairs": distinct,
        "state": "joint observation" if dataset.state is None else "global state",
    }


def hash_rows(values: Float[np.ndarray, "R O"]) -> UInt64[np.ndarray, "R"]:
    """64 bits per row: equal for equal rows, and as good as never for others.

    Each number is mixed with its column (the finaliser of splitmix64) before all are added.
    """
    bits: np.ndarray = (values + 0.0).view(np.uint64)  # + 0.0, since -0.0 is the same number
    bits = bits + np.arange(1, values.shape[1] + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
    return (bits ^ (bits >> np.uint64(31))).sum(axis=1, dtype=np.uint64)


def find_entropy(dataset: Dataset) -> dict[str, Any] | None:
    """Bits of each agent's choice of action over the whole log; None if actions are no ids.

    `choice` is what choosing evenly among the legal actions of each step would have.
    """
    action = dataset.spec.action
    if action.kind == "box":
        return None
    bits = {}
    for agent, name in enumerate(dataset.spec.agents):
        taken = dataset.actions[:, agent]
        is_known = (taken >= 0) & (taken < action.size)
        if dataset.present is not None:
            is_known &= dataset.present[:, agent]
        counts = np.bincount(taken[is_known].astype(np.int64), minlength=action.size)
        shares = counts[counts > 0] / max(1, counts.sum())
        bits[name] = float(-(shares * np.log2(shares)).sum()) + 0.0
    choice = np.log2(action.size)
    if dataset.legal is not None:
        numbers = np.maximum(dataset.legal.sum(axis=-1), 1)
        here = numbers if dataset.present is None else numbers[dataset.present]
        choice = np.log2(here).mean() if here.size else 0.0
    return {"bits": bits, "choice": float(choice), "most": float(np.log2(action.size))}


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


def find_ranges(values: Num[np.ndarray, "R O"]) -> dict[str, list[float | None]]:
    """Least, largest, mean and spread of each column, of its finite numbers."""
    found: dict[str, list[float | None]] = {"low": [], "high": [], "mean": [], "std": []}
    for column in values.T:
        numbers = column.astype(np.float64)
        numbers = numbers[np.isfinite(numbers)]
        some = numbers.size > 0
        found["low"].append(float(numbers.min()) if some else None)
        found["high"].append(float(numbers.max()) if some else None)
        found["mean"].append(float(numbers.mean()) if some else None)
        found["std"].append(float(numbers.std()) if some else None)
    return found


def _find_action_ranges(dataset: Dataset) -> dict[str, list[float | None]] | None:
    """Of each dimension of a box."""
    if dataset.spec.action.kind == "discrete":
        return None
    return find_ranges(_of_present(dataset, dataset.actions))


def _of_present(dataset: Dataset, values: Num[np.ndarray, "R N _"]) -> Num[np.ndarray, "rows _"]:
    """Those of agents that take part, one below another."""
    if dataset.present is None:
        return values.reshape(-1, values.shape[-1])
    return values[dataset.present]
