"""Spread of logged features and size of logged returns: the units in which learners see them."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.signal import lfilter

from oryx_marl.data.dataset import Dataset
from oryx_marl.types import FeatureStatistics

MOST_ROWS = 100_000
"""Statistics are taken over about as many logged steps, of evenly spaced episodes."""
SMALLEST_SPREAD = 1e-6
"""Relative to the size of the numbers: what is smaller is rounding."""


def value_scale(dataset: Dataset, discount: float) -> Float[Array, ""]:
    """Root mean square of the discounted returns from every logged step on; 1 if all are 0."""
    squares, count = 0.0, 0
    for rows in _episodes(dataset):
        rewards = dataset.rewards[rows].astype(np.float64)
        returns = lfilter([1.0], [1.0, -discount], rewards[::-1], axis=0)[::-1]
        if dataset.agent_mask is not None:
            returns = returns[dataset.agent_mask[rows]]
        squares, count = squares + (returns**2).sum(), count + returns.size
    scale = np.sqrt(squares / max(count, 1))
    return jnp.asarray(scale if scale > 0 else 1.0, jnp.float32)


def feature_statistics(dataset: Dataset) -> FeatureStatistics:
    """Mean and standard deviation of each feature over the steps of present agents."""
    size = dataset.spec.observation_size
    total, squares, count = np.zeros(size), np.zeros(size), 0
    for rows in _episodes(dataset):
        seen, here = dataset.observations[rows].astype(np.float64), dataset.agent_mask
        seen = seen.reshape(-1, size) if here is None else seen[here[rows]]
        total, squares, count = total + seen.sum(0), squares + (seen**2).sum(0), count + len(seen)
    mean = total / max(count, 1)
    std = np.sqrt(np.maximum(squares / max(count, 1) - mean**2, 0))
    is_constant = std <= SMALLEST_SPREAD * np.maximum(np.abs(mean), 1)
    std = np.where(is_constant, 1, std)
    return FeatureStatistics(*(jnp.asarray(x, jnp.float32) for x in (mean, std)))


def _episodes(dataset: Dataset) -> list[slice]:
    """Rows of each of the episodes that statistics are taken over."""
    every = max(dataset.num_rows // MOST_ROWS, 1)
    starts, lengths = dataset.episode_starts[::every], dataset.episode_lengths[::every]
    return [slice(at, at + size) for at, size in zip(starts, lengths, strict=True)]
