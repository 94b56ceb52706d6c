"""The seam between learners and everything else: Algorithm and Policy."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax

from oryx_marl.types import Observation, Window

LearnerState = Any
"""A pytree of arrays: weights, target weights, optimiser."""
Weights = Any
"""The part of a LearnerState that a policy acts with."""
Carry = Any
"""A policy's memory, a pytree whose size does not grow with time."""
Metrics = dict[str, jax.Array]


class Policy(NamedTuple):
    """Acts for all agents of a batch of environments, with constant memory in time."""

    init: Callable[[int], Carry]
    """`init(batch) -> carry`."""
    step: Callable[[Carry, Observation, jax.Array], tuple[Carry, jax.Array, Any]]
    """`step(carry, observation [B, ...], key) -> (carry, actions [B, N], info)`."""


class Algorithm(Protocol):
    """A pair of pure functions and a policy; `Config` and `make(config, spec)` stand beside it.

    Hashable and equal if its settings are, so that compiled code is shared.
    """

    @property
    def batch_size(self) -> int:
        """Windows per update, or environments side by side."""
        ...

    @property
    def sequence_length(self) -> int:
        """Steps per window, or per roll-out."""
        ...

    def init(self, key: jax.Array) -> LearnerState:
        """Fresh weights."""
        ...

    def update(
        self, state: LearnerState, experience: Any, key: jax.Array
    ) -> tuple[LearnerState, Metrics]:
        """Learns from a batch; metrics are scalars.

        Offline one gradient step on a Window [B, T, ...]; online (`ONLINE = True` in the module)
        all that is to be learned from the Experience of one roll-out.
        """
        ...

    def weights(self, state: LearnerState) -> Weights:
        """What the learner acts with; also of states stacked over seeds."""
        ...

    def log_probs(self, weights: Weights, window: Window) -> jax.Array:
        """What the pass of training says of every action, [B, T, N, A], given those logged.

        Memory is empty before each window. The policy says the same when it acts.
        """
        ...

    def policy(self, weights: Weights, greedy: bool = False) -> Policy:
        """How weights act: sampled, or the likeliest action always."""
        ...
