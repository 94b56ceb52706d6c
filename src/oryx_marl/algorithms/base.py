"""The seam between learners and everything else: Algorithm and Policy."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax

from oryx_marl.types import Observation, Window

Weights = Any
"""What a policy acts with: a pytree of arrays."""
Carry = Any
"""A policy's memory, a pytree whose size does not grow with time."""
Metrics = dict[str, jax.Array]


class Policy(NamedTuple):
    """Acts for all agents of a batch of environments, with constant memory in time."""

    init: Callable[[int], Carry]
    """`init(batch) -> carry`."""
    step: Callable[[Carry, Observation, jax.Array], tuple[Carry, jax.Array, Any]]
    """`step(carry, observation [B, ...], key) -> (carry, actions [B, N], info)`."""


class LearnerState(Protocol):
    """A pytree of arrays: the acting weights and whatever else learning needs."""

    @property
    def network(self) -> Weights: ...


class Algorithm(Protocol):
    """A pair of pure functions and a policy; `Config` and `make(config, spec)` stand beside it.

    Hashable and equal if its settings are, so that compiled code is shared.
    """

    @property
    def batch_size(self) -> int: ...

    @property
    def sequence_length(self) -> int: ...

    def init(self, key: jax.Array) -> Any:
        """A fresh LearnerState."""
        ...

    def update(self, state: Any, window: Window, key: jax.Array) -> tuple[Any, Metrics]:
        """One gradient step on a batch of windows [B, T, ...]; metrics are scalars."""
        ...

    def policy(self, network: Weights, greedy: bool = False) -> Policy:
        """How the weights of a LearnerState act: sampled, or the best action always."""
        ...
