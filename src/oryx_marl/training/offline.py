"""Learning from logged data that lies on the device."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from oryx_marl.algorithms.base import Algorithm
from oryx_marl.data.sampler import DeviceData, consecutive_windows, sample_windows
from oryx_marl.parallel.seeds import over_seeds, seeds_at_once
from oryx_marl.training.loop import Metrics
from oryx_marl.training.memory import fit
from oryx_marl.types import Window


@dataclass(frozen=True, eq=False)
class DatasetSource:
    """A Source of windows, drawn uniformly from the logged steps or following one another."""

    data: DeviceData

    def init(self, algorithm: Algorithm, learners: Any, keys: jax.Array) -> tuple[()]:
        return ()

    def advance(
        self,
        algorithm: Algorithm,
        num_updates: int,
        learners: Any,
        source_state: tuple[()],
        keys: jax.Array,
        first: int,
    ) -> tuple[Any, tuple[()], Metrics]:
        learners, metrics = run_updates(
            algorithm, num_updates, learners, keys, self.data, jnp.asarray(first)
        )
        return learners, source_state, metrics


IN_REWARDS = ("mean_q", "td_error")
"""Metrics that are measured in rewards."""
LANES = 2**32 - 2
"""What is folded into a seed's key for where consecutive windows begin: no number of an update."""
SIDE_BY_SIDE = {"xla_gpu_command_buffer_scheduling_mode": "CONCURRENT"}
"""Compiler option: on a GPU, small kernels that do not need each other run at the same time."""


@partial(
    jax.jit,
    static_argnames=("algorithm", "num_updates"),
    donate_argnames="learners",
    compiler_options=SIDE_BY_SIDE,
)
def run_updates(
    algorithm: Algorithm,
    num_updates: int,
    learners: Any,
    keys: jax.Array,
    data: DeviceData,
    first: jax.Array,
) -> tuple[Any, Metrics]:
    """Learners [S, ...] after `num_updates` more updates, and the mean metrics [S]."""

    def one_seed(
        data: DeviceData, first: jax.Array, learner: Any, key: jax.Array
    ) -> tuple[Any, Metrics]:
        def draw(number: jax.Array, sample_key: jax.Array) -> Window:
            size = algorithm.batch_size, algorithm.sequence_length
            if algorithm.consecutive_windows:
                return consecutive_windows(data, jax.random.fold_in(key, LANES), number, *size)
            return sample_windows(data, sample_key, *size)

        numbers = first + 1 + jnp.arange(num_updates)
        learner, metrics = scan_updates(algorithm, learner, key, numbers, draw, len(keys), data)
        means = jax.tree.map(lambda x: x.mean(axis=0), metrics)
        return learner, in_logged_units(means, data.value_scale)

    return over_seeds(one_seed, data, first)(learners, keys)


def scan_updates(
    algorithm: Algorithm,
    learner: Any,
    key: jax.Array,
    numbers: jax.Array,
    draw: Callable[[jax.Array, jax.Array], Window],
    num_seeds: int,
    data: DeviceData,
) -> tuple[Any, Metrics]:
    """A learner after the updates of these numbers, and the metrics of each [U].

    `draw(number, key)` gives the windows of an update; `data` lie beside them on the device.
    """

    def one_update(learner: Any, number: jax.Array) -> tuple[Any, Metrics]:
        sample_key, update_key = jax.random.split(jax.random.fold_in(key, number))
        window = draw(number, sample_key)
        fitted = fit(algorithm, learner, window, seeds_at_once(num_seeds), data)
        return fitted.update(learner, window, update_key)

    return jax.lax.scan(one_update, learner, numbers)


def in_logged_units(metrics: Metrics, value_scale: jax.Array | None) -> Metrics:
    """Values in the units of the logged rewards."""
    if value_scale is None:
        return metrics
    found = {name: metrics[name] * value_scale for name in IN_REWARDS if name in metrics}
    return {**metrics, **found}
