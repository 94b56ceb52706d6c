"""How finely a batch must be cut to fit into the memory of a device."""

import math
from dataclasses import replace
from typing import Any

import jax

from oryx_marl.algorithms._learner import OfflineLearner
from oryx_marl.algorithms._split import num_shares
from oryx_marl.algorithms._standardise import Standardised
from oryx_marl.algorithms.base import Algorithm
from oryx_marl.types import Window

SHARE = 0.8
"""Of the memory beside the data, for what automatic differentiation keeps. The compiler finds ways
to keep about half of that: on an H200 1.9 of 4.3 GB for 50 agents, 12.3 of 20.9 GB for 250."""


def fit(algorithm: Algorithm, learner: Any, window: Window, seeds: int, data: Any) -> Algorithm:
    """The algorithm with its batch in the fewest parts that fit, where the choice is ours.

    `seeds` learners run at once on a device that holds `data` too.
    """
    if isinstance(algorithm, Standardised):
        inner = fit(algorithm.inner, learner.inner, window, seeds, data)
        return replace(algorithm, inner=inner)
    limit = memory_limit()
    if not isinstance(algorithm, OfflineLearner) or algorithm.batch_parts != 0 or limit is None:
        return algorithm
    needed = seeds * bytes_kept(algorithm, learner, window) / num_shares()
    room = SHARE * (limit - count_bytes(data))
    parts = fewest_parts(algorithm.batch_size // num_shares(), needed, room)
    return replace(algorithm, config=replace(algorithm.config, batch_parts=parts))


def memory_limit() -> int | None:
    """Bytes that a device may hold, None where it does not say (CPU)."""
    return (jax.local_devices()[0].memory_stats() or {}).get("bytes_limit")


def fewest_parts(batch_size: int, needed: float, room: float) -> int:
    """The smallest divisor of `batch_size` that cuts `needed` bytes to `room`, else the largest."""
    divisors = [parts for parts in range(1, batch_size + 1) if batch_size % parts == 0]
    return next((parts for parts in divisors if needed / parts <= room), batch_size)


def bytes_kept(algorithm: OfflineLearner, learner: Any, window: Window) -> int:
    """What automatic differentiation keeps of a loss until its backward pass, for a whole batch."""

    def pull(network: Any, target: Any, window: Window, key: jax.Array) -> Any:
        return jax.vjp(lambda each: algorithm.loss(each, target, window, key)[0], network)[1]

    key = jax.eval_shape(lambda: jax.random.key(0))
    return count_bytes(jax.eval_shape(pull, learner.network, learner.target, window, key))


def count_bytes(tree: Any) -> int:
    """Bytes of all arrays of a pytree."""
    return sum(math.prod(x.shape) * x.dtype.itemsize for x in jax.tree.leaves(tree))
