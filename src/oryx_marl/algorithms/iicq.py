"""I-ICQ: implicit-constraint Q-learning, every agent by itself (offline, discrete actions)."""

from dataclasses import dataclass

import equinox as eqx
import jax
from jaxtyping import Array, Float, Int

from oryx_marl.algorithms._icq import IcqSettings, icq_loss
from oryx_marl.algorithms._independent import IndependentConfig, IndependentLearner
from oryx_marl.algorithms._learner import copy_every, require_discrete
from oryx_marl.algorithms.base import Metrics
from oryx_marl.networks.recurrent import RecurrentConfig, RecurrentNetwork, run_together
from oryx_marl.ops.distributions import categorical
from oryx_marl.ops.values import DiscreteValues
from oryx_marl.types import Spec, Window


@dataclass(frozen=True)
class Config(IndependentConfig):
    """Settings of I-ICQ, those of the Oryx paper."""

    discount: float = 0.99
    td_lambda: float = 0.0
    """How far rewards reach back in a target: 0 one step, 1 to the end of the window."""
    target_period: int = 200
    """Updates between copies of the weights to the target network."""
    policy_temperature: float = 0.1
    """Low: imitate only the best logged actions. High: imitate all alike."""
    value_temperature: float = 1000.0
    """Low: values of the better logged actions count more in the target. 1000: all alike."""


class ActorCritic(eqx.Module):
    """A network for the policy and one for Q, apart."""

    actor: RecurrentNetwork
    critic: RecurrentNetwork

    def __init__(self, key: Array, spec: Spec, config: RecurrentConfig) -> None:
        self.actor, self.critic = (
            RecurrentNetwork(k, spec, config, spec.action.size) for k in jax.random.split(key)
        )


@dataclass(frozen=True)
class IndependentICQ(IndependentLearner):
    """The learner."""

    def make_network(self, key: Array) -> ActorCritic:
        return ActorCritic(key, self.spec, self.config.network)

    def loss(
        self, network: ActorCritic, target: ActorCritic, window: Window, key: Array
    ) -> tuple[Float[Array, ""], Metrics]:
        """Every agent learns the values of its own actions from its own rewards."""
        config, seen = self.config, window.observation
        settings = IcqSettings(
            discount=config.discount,
            td_lambda=config.td_lambda,
            policy_temperature=config.policy_temperature,
            value_temperature=config.value_temperature,
        )
        logits, q, target_q = run_together((network.actor, network.critic, target.critic), seen)
        return icq_loss(
            categorical(logits, seen.action_mask),
            DiscreteValues(q),
            DiscreteValues(target_q),
            window,
            settings,
        )

    def move_target(
        self, network: ActorCritic, target: ActorCritic, count: Int[Array, ""]
    ) -> ActorCritic:
        return copy_every(self.config.target_period, network, target, count)

    def actor(self, weights: ActorCritic) -> RecurrentNetwork:
        return weights.actor


def make(config: Config, spec: Spec) -> IndependentICQ:
    """I-ICQ for data of this Spec."""
    require_discrete("I-ICQ", spec)
    return IndependentICQ(config, spec)
