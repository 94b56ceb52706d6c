"""I-ICQ: implicit-constraint Q-learning, every agent by itself (offline, discrete actions)."""

from dataclasses import dataclass

import equinox as eqx
import jax
from jaxtyping import Array, Float

from oryx_marl.algorithms._icq import IcqSettings, icq_loss
from oryx_marl.algorithms._independent import IndependentConfig, IndependentLearner
from oryx_marl.algorithms._learner import require_discrete
from oryx_marl.algorithms.base import Metrics
from oryx_marl.networks.recurrent import RecurrentConfig, RecurrentNetwork
from oryx_marl.ops.distributions import categorical
from oryx_marl.ops.values import DiscreteValues
from oryx_marl.types import Spec, Window


@dataclass(frozen=True)
class Config(IndependentConfig):
    """Settings of I-ICQ, those of the Oryx paper."""

    discount: float = 0.99
    """γ: how much the next step's value counts."""
    td_lambda: float = 0.0
    """λ of TD(λ) targets: 0 is one step, 1 goes to the end of the window."""
    scale_values: bool = False
    """Scale rewards so that logged returns have a root mean square of 1."""
    target_period: int = 200
    """Updates between copies of the weights to the target network."""
    policy_temperature: float | None = 0.1
    """Low: imitate only the best logged actions. High: imitate all alike. None: it follows the
    spread of the advantages, as Oryx's does."""
    value_temperature: float = 1000.0
    """α of the critic's target; values inflate below 1000, where the weights are all 1."""


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

    def networks(self, network: ActorCritic, target: ActorCritic) -> tuple[RecurrentNetwork, ...]:
        return network.actor, network.critic, target.critic

    def outputs_loss(
        self,
        network: ActorCritic,
        target: ActorCritic,
        outputs: Float[Array, "3 B T N A"],
        window: Window,
    ) -> tuple[Float[Array, ""], Metrics]:
        """Every agent learns the values of its own actions from its own rewards."""
        config, seen = self.config, window.observation
        settings = IcqSettings(
            discount=config.discount,
            td_lambda=config.td_lambda,
            policy_temperature=config.policy_temperature,
            value_temperature=config.value_temperature,
        )
        logits, q, target_q = outputs
        return icq_loss(
            categorical(logits, seen.action_mask),
            [DiscreteValues(q)],
            [DiscreteValues(target_q)],
            window,
            settings,
        )

    def actor(self, weights: ActorCritic) -> RecurrentNetwork:
        return weights.actor


def make(config: Config, spec: Spec) -> IndependentICQ:
    """I-ICQ for data of this Spec."""
    require_discrete("I-ICQ", spec)
    return IndependentICQ(config, spec)
