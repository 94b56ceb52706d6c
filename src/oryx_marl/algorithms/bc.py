"""BC: behaviour cloning with a recurrent network, every agent by itself (offline, discrete
actions)."""

from dataclasses import dataclass

import jax.numpy as jnp
from jaxtyping import Array, Float

from oryx_marl.algorithms._independent import (
    IndependentConfig,
    independent_log_probs,
    independent_policy,
)
from oryx_marl.algorithms._learner import OfflineLearner, require_discrete
from oryx_marl.algorithms.base import Metrics, Policy
from oryx_marl.networks.recurrent import RecurrentNetwork
from oryx_marl.ops.distributions import entropy, masked_log_softmax, take_action
from oryx_marl.ops.masked import masked_mean
from oryx_marl.types import Spec, Window


@dataclass(frozen=True)
class Config(IndependentConfig):
    """Settings of behaviour cloning."""


def clone_loss(logits: Float[Array, "B T N A"], window: Window) -> tuple[Float[Array, ""], Metrics]:
    """-log π(a) over the rows with a legal logged action."""
    observation, actions = window.observation, window.actions
    log_probs = masked_log_softmax(logits, observation.legal)
    imitable = observation.present & take_action(observation.legal, actions)
    total = masked_mean(-take_action(log_probs, actions), imitable)
    return total, {
        "loss": total,
        "max_logit": jnp.abs(logits).max(),
        "entropy": masked_mean(entropy(log_probs), imitable),
        "imitated_share": imitable.mean(),
    }


@dataclass(frozen=True)
class BC(OfflineLearner):
    """The learner."""

    def make_network(self, key: Array) -> RecurrentNetwork:
        return RecurrentNetwork(key, self.spec, self.config.network, self.spec.action.size)

    def loss(
        self, network: RecurrentNetwork, target: RecurrentNetwork, window: Window, key: Array
    ) -> tuple[Float[Array, ""], Metrics]:
        return clone_loss(network(window.observation), window)

    def log_probs(self, weights: RecurrentNetwork, window: Window) -> Float[Array, "B T N A"]:
        return independent_log_probs(weights, window)

    def policy(self, weights: RecurrentNetwork, greedy: bool = False) -> Policy:
        return independent_policy(weights, greedy)


def make(config: Config, spec: Spec) -> BC:
    """Behaviour cloning for data of this Spec."""
    require_discrete("BC", spec)
    return BC(config, spec)
