"""Learners with a recurrent state, and what it is where a window begins.

Windows have T steps, but policies act for whole episodes. A network that only ever met states of at
most T steps is wrong beyond them, without a sign of it in training. So by default windows follow
one another through the logged episodes, and each begins with the state that the last one ended
with (truncated backpropagation through time).
"""

import abc
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from oryx_marl.algorithms._learner import LearnerState, OfflineConfig, OfflineLearner
from oryx_marl.algorithms.base import Metrics
from oryx_marl.config import added
from oryx_marl.errors import OryxError
from oryx_marl.types import Window

InitialState = Literal["carried", "burn_in", "shuffled", "zeros"]


@dataclass(frozen=True)
class RecurrentConfig(OfflineConfig):
    """Settings of every learner with a recurrent state."""

    initial_state: InitialState = added("carried", before="zeros")
    """Recurrent state at the start of a window: that of the window before it in the log (carried);
    of the steps before it, run without gradient (burn_in); of some other window's end (shuffled);
    or an empty one, as in the paper (zeros), which is wrong beyond sequence_length steps."""
    burn_in_length: int = 40
    """Steps before each window, for initial_state=burn_in."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.burn_in_length < 1:
            raise OryxError(f"burn_in_length must be at least 1, got {self.burn_in_length}")


@dataclass(frozen=True)
class RecurrentLearner(OfflineLearner):
    """An OfflineLearner whose networks go on from a recurrent state, the `carry` [B, ...]."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "loss" in vars(cls):
            raise OryxError(
                f"{cls.__name__} has a recurrent state, so what it learns is its `sequence_loss` "
                "(or, of independent agents, `outputs_loss`); its own `loss` would not be used"
            )

    @abc.abstractmethod
    def init_carry(self, network: Any, target: Any) -> Any:
        """Empty recurrent state of one sequence; a pytree without arrays if there are none."""

    @abc.abstractmethod
    def sequence_loss(
        self, network: Any, target: Any, window: Window, carry: Any, key: Array
    ) -> tuple[Float[Array, ""], tuple[Metrics, Any]]:
        """Loss of windows that begin with recurrent states; metrics, and the states after them.

        Without a carry the states are empty before, and none are returned.
        """

    @property
    def initial_state(self) -> InitialState:
        return self.config.initial_state

    @property
    def consecutive_windows(self) -> bool:
        return self.initial_state == "carried"

    @property
    def sequence_length(self) -> int:
        extra = self.config.burn_in_length if self.initial_state == "burn_in" else 0
        return self.config.sequence_length + extra

    def loss(
        self, network: Any, target: Any, window: Window, key: Array
    ) -> tuple[Float[Array, ""], Metrics]:
        """Loss of windows that begin with an empty state."""
        total, (metrics, _) = self.sequence_loss(network, target, window, None, key)
        return total, metrics

    def init(self, key: Array) -> LearnerState:
        state = super().init(key)
        if self.initial_state not in ("carried", "shuffled"):
            return state
        return state._replace(carry=self.empty_carry(state.network, state.target, self.batch_size))

    def update(
        self, state: LearnerState, experience: Window, key: Array
    ) -> tuple[LearnerState, Metrics]:
        self._require_shareable()
        window, carry = self._begin(state, experience, key)
        gradients, (metrics, carry) = jax.grad(self.sequence_loss, has_aux=True)(
            state.network, state.target, window, carry, key
        )
        state, metrics = self._descend(state, gradients, metrics)
        if self.initial_state in ("carried", "shuffled"):
            state = state._replace(carry=carry)
        return state, metrics

    def _begin(self, state: LearnerState, window: Window, key: Array) -> tuple[Window, Any]:
        """The steps that are learned from, and the recurrent states before them."""
        batch = len(window.rewards)
        if self.initial_state in ("carried", "shuffled") and batch != self.batch_size:
            raise OryxError(
                f"with initial_state={self.initial_state} a batch has batch_size "
                f"({self.batch_size}) windows, not {batch}"
            )
        if self.initial_state == "carried":
            return window, state.carry
        if self.initial_state == "shuffled":
            lanes = jax.random.permutation(jax.random.fold_in(key, 1), self.batch_size)
            return window, jax.tree.map(lambda x: x[lanes], state.carry)
        if self.initial_state == "zeros":
            return window, None
        empty = self.empty_carry(state.network, state.target, batch)
        before, window = _cut(window, self.config.burn_in_length)
        # Of this pass all but the states is left out when it is compiled.
        _, (_, carry) = self.sequence_loss(state.network, state.target, before, empty, key)
        return window, carry

    def empty_carry(self, network: Any, target: Any, batch: int) -> Any:
        """Empty recurrent states of a batch, [B, ...]."""
        one = self.init_carry(network, target)
        return jax.tree.map(lambda x: jnp.broadcast_to(x, (batch, *x.shape)), one)


def _cut(window: Window, at: int) -> tuple[Window, Window]:
    """The first `at` steps of windows [B, T, ...], and the others."""
    window = window._replace(feature_statistics=None)  # which have no axis of steps
    first = jax.tree.map(lambda x: x[:, :at], window)
    return first, jax.tree.map(lambda x: x[:, at:], window)
