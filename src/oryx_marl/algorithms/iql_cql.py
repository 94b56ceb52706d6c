"""IQL-CQL: double Q-learning, every agent by itself, with a penalty on actions that were not logged
(offline, discrete actions)."""

from dataclasses import dataclass
from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from oryx_marl.algorithms._independent import IndependentConfig, IndependentLearner
from oryx_marl.algorithms._learner import require_discrete
from oryx_marl.algorithms.base import Metrics
from oryx_marl.networks.recurrent import RecurrentNetwork
from oryx_marl.ops.distributions import take_action
from oryx_marl.ops.masked import masked_mean
from oryx_marl.ops.returns import td_lambda_targets, td_masks
from oryx_marl.types import Spec, Window


@dataclass(frozen=True)
class Config(IndependentConfig):
    """Settings of IQL-CQL."""

    discount: float = 0.99
    """γ: how much the next step's value counts."""
    td_lambda: float = 0.0
    """λ of TD(λ) targets: 0 is one step, 1 goes to the end of the window."""
    scale_values: bool = False
    """Scale rewards so that logged returns have a root mean square of 1."""
    target_period: int = 200
    """Updates between copies of the weights to the target network."""
    cql_weight: float = 3.0
    """How much values of actions that were not logged are pressed down."""
    cql_over: Literal["available", "all"] = "available"
    """The actions that are pressed down (public code: all, illegal ones too)."""

    @property
    def acts_greedily(self) -> bool:
        """Q-learning takes the action of the highest value."""
        return True


def loss(
    q: Float[Array, "B T N A"],
    target_q: Float[Array, "B T N A"],
    window: Window,
    config: Config,
) -> tuple[Float[Array, ""], Metrics]:
    """½ (r + γ Q⁻(argmax Q) - Q(a))² + w (logsumexp Q - Q(a)), over the same rows."""
    observation, actions = window.observation, window.actions
    mask, bootstrap_mask = td_masks(observation.agent_mask, window.terminal, observation.reset)
    action_mask = observation.action_mask
    best = jnp.where(action_mask, q, -jnp.inf).argmax(axis=-1)
    targets = jax.lax.stop_gradient(
        td_lambda_targets(
            window.rewards[:, :-1],
            take_action(target_q, best)[:, 1:],
            mask,
            bootstrap_mask,
            config.discount,
            config.td_lambda,
        )
    )
    taken = take_action(q, actions)
    td = masked_mean(0.5 * (targets - taken[:, :-1]) ** 2, mask)

    counted = action_mask if config.cql_over == "available" else jnp.ones_like(action_mask)
    # Of an illegal logged action nothing is known that could be lifted.
    logged = observation.agent_mask & take_action(action_mask, actions)
    everything = jax.nn.logsumexp(q, axis=-1, where=counted | ~counted.any(-1, keepdims=True))
    penalty = masked_mean(everything - taken, logged)
    total = td + config.cql_weight * penalty
    return total, {
        "loss": total,
        "critic_loss": td,
        "cql_loss": penalty,
        "mean_q": masked_mean(taken, observation.agent_mask),
        "td_error": masked_mean(jnp.abs(targets - taken[:, :-1]), mask),
    }


@dataclass(frozen=True)
class ConservativeQ(IndependentLearner):
    """The learner. Acting greedily is the method's own way; sampling takes Q as logits, which is
    what the penalty fits to the logged actions."""

    def make_network(self, key: Array) -> RecurrentNetwork:
        return RecurrentNetwork(key, self.spec, self.config.network, self.spec.action.size)

    def networks(
        self, network: RecurrentNetwork, target: RecurrentNetwork
    ) -> tuple[RecurrentNetwork, ...]:
        return network, target

    def outputs_loss(
        self,
        network: RecurrentNetwork,
        target: RecurrentNetwork,
        outputs: Float[Array, "2 B T N A"],
        window: Window,
    ) -> tuple[Float[Array, ""], Metrics]:
        q, target_q = outputs
        return loss(q, target_q, window, self.config)


def make(config: Config, spec: Spec) -> ConservativeQ:
    """IQL-CQL for data of this Spec."""
    require_discrete("IQL-CQL", spec)
    return ConservativeQ(config, spec)
