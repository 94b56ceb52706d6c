"""What clones and critics see: beside all observations the global state, where one was logged.

The policy never sees it. But who acted in the logs may have known it, and what follows from a step
depends on it: without it both would have to find out from the history.
"""

from dataclasses import replace

import numpy as np
from jaxtyping import Num

from oryx_marl.data.dataset import Dataset


def add_state(dataset: Dataset) -> Dataset:
    """The dataset with the global state among the features of every agent.

    Final observations come with the last logged state: none was logged after it.
    """
    state = dataset.state
    if state is None:
        return dataset
    final, last = dataset.final_observations, dataset.episode_starts + dataset.episode_lengths - 1
    spec = dataset.spec
    size = spec.observation_size + spec.state_size
    return replace(
        dataset,
        spec=replace(spec, observation_sizes=(size,) * spec.num_agents),
        observations=_join(dataset.observations, state),
        final_observations=None if final is None else _join(final, state[last]),
    )


def _join(
    features: Num[np.ndarray, "R N O"], state: Num[np.ndarray, "R S"]
) -> Num[np.ndarray, "R N P"]:
    shape = (*features.shape[:2], state.shape[-1])
    return np.concatenate([features, np.broadcast_to(state[:, None], shape)], axis=-1)
