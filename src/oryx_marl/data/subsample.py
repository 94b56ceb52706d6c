"""Smaller datasets of whole episodes."""

from dataclasses import replace

import numpy as np
from jaxtyping import Int

from oryx_marl.data.dataset import Dataset
from oryx_marl.errors import OryxError


def whole_episodes(dataset: Dataset, rows: int, seed: int) -> Dataset:
    """Episodes drawn at random without replacement until `rows` steps are reached, in their order.

    All of them where the dataset is not larger.
    """
    if rows < 1:
        raise OryxError(f"a dataset needs at least 1 row, not {rows}")
    shuffled = np.random.default_rng(seed).permutation(dataset.num_episodes)
    reached = np.cumsum(dataset.episode_lengths[shuffled])
    count = int(np.searchsorted(reached, rows)) + 1
    return take_episodes(dataset, np.sort(shuffled[:count]))


def take_episodes(dataset: Dataset, episodes: Int[np.ndarray, " chosen"]) -> Dataset:
    """The given episodes, in the given order."""
    starts, lengths = dataset.episode_starts[episodes], dataset.episode_lengths[episodes]
    new_starts = np.append(0, np.cumsum(lengths)[:-1])
    rows = np.repeat(starts - new_starts, lengths) + np.arange(lengths.sum())
    arrays = {}
    for name, array in dataset.arrays().items():
        is_per_episode = name in ("episode_starts", "final_observations")
        arrays[name] = array[episodes] if is_per_episode else array[rows]
    arrays["episode_starts"] = new_starts.astype(dataset.episode_starts.dtype)
    return replace(dataset, **arrays)
