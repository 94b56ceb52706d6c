"""The seam between learners and everything else: Algorithm and Policy."""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import jax

from oryx_marl.ops.distributions import Distribution
from oryx_marl.types import Observation, Window

LearnerState = Any
"""A pytree of arrays: weights, target weights, optimiser."""
Weights = Any
"""The part of a LearnerState that a policy acts with."""
Carry = Any
"""A policy's recurrent state, a pytree whose size does not grow with time."""
Metrics = dict[str, jax.Array]


class Policy(NamedTuple):
    """Acts for all agents of a batch of environments, with constant memory in time."""

    init: Callable[[int], Carry]
    """`init(batch) -> carry`."""
    act: Callable[[Carry, Observation, jax.Array], tuple[Carry, jax.Array, Any]]
    """`act(carry, observation [B, ...], noise [B, N, A]) -> (carry, actions, info)`: no randomness
    but the noise, so that an exported policy can take it as an input. Without noise (zeros) it
    takes the likeliest actions; `Distribution.sample` does."""
    draw_noise: Callable[[jax.Array, int], jax.Array]
    """`draw_noise(key, batch) -> noise [B, N, A]`."""

    def step(
        self, carry: Carry, observation: Observation, key: jax.Array
    ) -> tuple[Carry, jax.Array, Any]:
        """Carry, actions [B, N] or [B, N, A], and what the policy says of them."""
        noise = self.draw_noise(key, len(observation.reset))
        return self.act(carry, observation, noise)

    def at_temperature(self, temperature: float | jax.Array) -> "Policy":
        """The policy that acts with so much of the noise: 1 samples, 0 is greedy.

        Discrete actions are then drawn from softmax(logits / temperature), as the largest of
        logits / τ + noise is that of logits + τ · noise; a Normal's standard deviation is scaled.
        `info` still describes the policy at temperature 1.
        """

        def draw_noise(key: jax.Array, batch: int) -> jax.Array:
            return temperature * self.draw_noise(key, batch)

        return self._replace(draw_noise=draw_noise)


@runtime_checkable
class Acting(Protocol):
    """What has policies: every Algorithm, and what acts by hand-written rules."""

    def policy(self, weights: Weights) -> Policy:
        """How weights act."""
        ...


@runtime_checkable
class Config(Protocol):
    """Settings of an algorithm, a frozen dataclass beside it."""

    online: ClassVar[bool]
    """It learns in an environment, not from a dataset."""

    @property
    def acts_greedily(self) -> bool:
        """The method's own way of acting: the likeliest action always, or else sampled ones."""
        ...


@runtime_checkable
class Algorithm(Protocol):
    """A pair of pure functions and a policy; `Config` and `make(config, spec)` stand beside it.

    Hashable and equal if its settings are, so that compiled code is shared.
    """

    @property
    def config(self) -> Any:
        """Its Config."""
        ...

    @property
    def batch_size(self) -> int:
        """Windows per update, or environments side by side."""
        ...

    @property
    def sequence_length(self) -> int:
        """Steps per window, or per roll-out."""
        ...

    @property
    def consecutive_windows(self) -> bool:
        """Whether each window of a batch must go on where that of the last batch ended; otherwise
        windows are drawn independently."""
        return False

    @property
    def needs_returns_to_go(self) -> bool:
        """Whether windows must come with `returns_to_go`."""
        ...

    @property
    def value_discount(self) -> float | None:
        """Discount of the returns that rewards are to be scaled by, to a root mean square of 1;
        None: rewards as logged."""
        return None

    @property
    def batch_parts(self) -> int | None:
        """Parts in which the networks see a batch, 0: as few as fit; None if always as a whole."""
        ...

    def init(self, key: jax.Array) -> LearnerState:
        """Fresh weights."""
        ...

    def update(
        self, state: LearnerState, experience: Any, key: jax.Array
    ) -> tuple[LearnerState, Metrics]:
        """Learns from a batch; metrics are scalars.

        Offline one gradient step on a Window [B, T, ...]; online all that is to be learned from the
        Experience of one roll-out.
        """
        ...

    def weights(self, state: LearnerState) -> Weights:
        """What the learner acts with; also of states stacked over seeds."""
        ...

    def distribution(
        self, weights: Weights, window: Window, carry: Carry = None
    ) -> tuple[Distribution, Carry]:
        """What the pass of training says of every action [B, T, N], given those logged.

        The policy says the same when it acts. Without a carry (that of `policy(weights).init`) the
        recurrent state is empty before each window, and none is returned; with one, the state after
        the window is.
        """
        ...

    def policy(self, weights: Weights) -> Policy:
        """How weights act; `Policy.at_temperature` makes it greedier."""
        ...
