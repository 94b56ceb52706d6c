"""What offline learners share: gradient steps on windows, with a target network beside."""

import abc
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int

from oryx_marl.algorithms._size import fill_size
from oryx_marl.algorithms._split import num_shares
from oryx_marl.algorithms.base import Metrics, Policy
from oryx_marl.config import added
from oryx_marl.errors import OryxError
from oryx_marl.ops.distributions import Distribution
from oryx_marl.types import Spec, Window


@dataclass(frozen=True)
class OfflineConfig:
    """Settings of every learner from logged data."""

    online: ClassVar[bool] = False
    batch_size: int = 64
    """Windows per update."""
    sequence_length: int = 20
    """Steps per window."""
    learning_rate: float = 3e-4
    """Of Adam."""
    max_gradient_norm: float = 10.0
    """Gradients with a larger norm are scaled down to it."""
    tau: float = 0.005
    """Share by which an averaged target network moves to the trained weights at each update."""
    act_with_ema: bool = False
    """Average the weights in the target network (EMA), and act with it, not with the newest."""
    standardise: bool = added(True, before=False)
    """See features with mean 0 and standard deviation 1 over the dataset; the policy keeps both."""

    def __post_init__(self) -> None:
        require_sane(self)

    @property
    def acts_greedily(self) -> bool:
        """See base.py; a learned distribution is sampled."""
        return False


class LearnerState(NamedTuple):
    """Online weights, target weights, optimiser, updates so far."""

    network: Any
    target: Any
    optimiser: optax.OptState
    updates: Int[Array, ""]
    carry: Any = ()
    """Recurrent states [B, ...] at the end of the last batch of windows, where any are carried."""


@dataclass(frozen=True)
class OfflineLearner(abc.ABC):
    """An Algorithm (see base.py) that only has to say what its network, loss and policy are."""

    config: Any
    spec: Spec

    def __post_init__(self) -> None:
        object.__setattr__(self, "config", fill_size(self.config, self.spec))

    @property
    def needs_returns_to_go(self) -> bool:
        """Whether windows come with `returns_to_go`."""
        return False

    @property
    def consecutive_windows(self) -> bool:
        """Whether each window of a batch goes on where that of the last batch ended."""
        return False

    @property
    def value_discount(self) -> float | None:
        """Discount of the returns that rewards are scaled by; None: rewards as logged."""
        return self.config.discount if getattr(self.config, "scale_values", False) else None

    @property
    def batch_parts(self) -> int | None:
        """See base.py; a loss whose networks run through `over_batch` (_split.py) can be cut."""
        return None

    @abc.abstractmethod
    def make_network(self, key: Array) -> Any:
        """Fresh weights."""

    @abc.abstractmethod
    def loss(
        self, network: Any, target: Any, window: Window, key: Array
    ) -> tuple[Float[Array, ""], Metrics]:
        """Loss of a batch of windows [B, T, ...] and metrics."""

    @abc.abstractmethod
    def distribution(
        self, weights: Any, window: Window, carry: Any = None
    ) -> tuple[Distribution, Any]:
        """What the pass of training says of every action."""

    @abc.abstractmethod
    def policy(self, weights: Any) -> Policy:
        """How weights act."""

    def move_target(self, network: Any, target: Any, count: Int[Array, ""]) -> Any:
        """The target network after update number `count`: an average of the weights, or a copy of
        them now and then."""
        if self.config.act_with_ema:
            return optax.incremental_update(network, target, self.config.tau)
        period = getattr(self.config, "target_period", 1)
        return optax.periodic_update(network, target, count, period)

    @property
    def optimiser(self) -> optax.GradientTransformation:
        return adam_on_one_vector(self.config.learning_rate, self.config.max_gradient_norm)

    @property
    def batch_size(self) -> int:
        return self.config.batch_size

    @property
    def sequence_length(self) -> int:
        return self.config.sequence_length

    def init(self, key: Array) -> LearnerState:
        network = self.make_network(key)
        return LearnerState(
            network, network, self.optimiser.init(network), jnp.zeros((), jnp.int32)
        )

    def update(
        self, state: LearnerState, experience: Window, key: Array
    ) -> tuple[LearnerState, Metrics]:
        self._require_shareable()
        gradients, metrics = jax.grad(self.loss, has_aux=True)(
            state.network, state.target, experience, key
        )
        return self._descend(state, gradients, metrics)

    def _require_shareable(self) -> None:
        if self.batch_parts is None and num_shares() > 1:
            name = type(self).__name__
            raise OryxError(f"{name} cannot share its batches among devices; share its seeds")

    def _descend(
        self, state: LearnerState, gradients: Any, metrics: Metrics
    ) -> tuple[LearnerState, Metrics]:
        """The state after one step of the optimiser and of the target network."""
        metrics["gradient_norm"] = jnp.linalg.norm(ravel_pytree(gradients)[0])
        updates, optimiser = self.optimiser.update(gradients, state.optimiser, state.network)
        network = optax.apply_updates(state.network, updates)
        count = state.updates + 1
        target = self.move_target(network, state.target, count)
        return LearnerState(network, target, optimiser, count, state.carry), metrics

    def weights(self, state: LearnerState) -> Any:
        return state.target if self.config.act_with_ema else state.network


def adam_on_one_vector(
    learning_rate: float, max_gradient_norm: float, epsilon: float = 1e-8
) -> optax.GradientTransformation:
    """Adam with clipped gradients, on all weights as one vector: dozens of kernels fewer."""
    return optax.flatten(
        optax.chain(
            optax.clip_by_global_norm(max_gradient_norm), optax.adam(learning_rate, eps=epsilon)
        )
    )


def require_sane(config: Any) -> None:
    """Raises unless the settings that learners share make sense; those it lacks are passed over."""
    least = {"batch_size": 1, "sequence_length": 1, "target_period": 1}
    for name, smallest in least.items():
        if getattr(config, name, smallest) < smallest:
            raise OryxError(f"{name} must be at least {smallest}, got {getattr(config, name)}")
    for name in ("learning_rate", "max_gradient_norm", "policy_temperature", "value_temperature"):
        value = getattr(config, name, 1)
        if value is not None and not value > 0:
            raise OryxError(f"{name} must be positive, got {getattr(config, name)}")
    for name in ("critic_weight", "cql_weight", "weight_decay"):
        if getattr(config, name, 0) < 0:
            raise OryxError(f"{name} must not be negative, got {getattr(config, name)}")
    for name in ("discount", "td_lambda", "tau"):
        if not 0 <= getattr(config, name, 0) <= 1:
            raise OryxError(f"{name} must be between 0 and 1, got {getattr(config, name)}")


LEAST_VALUE_TEMPERATURE = 1000.0


def require_trainable(config: Any) -> None:
    """Raises where training would go wrong whatever the data, though policies of older runs with
    such settings can be opened."""
    if getattr(config, "value_temperature", LEAST_VALUE_TEMPERATURE) < LEAST_VALUE_TEMPERATURE:
        raise OryxError(
            f"value_temperature must be at least {LEAST_VALUE_TEMPERATURE:.0f}, got "
            f"{config.value_temperature}: the weights of the critic's target (Eq. 3 of the paper) "
            "normalise over the states of a batch, not over actions, so lower values inflate Q "
            "(the mean target is 1.19 times the mean Q at 1, and 2.6 times at 0.1) until it "
            "diverges; policy_temperature is what tells good actions from bad ones"
        )


def require_discrete(name: str, spec: Spec) -> None:
    """Raises unless actions are discrete."""
    if spec.action.kind != "discrete":
        raise OryxError(f"{name} learns discrete actions, but this data has continuous ones")
