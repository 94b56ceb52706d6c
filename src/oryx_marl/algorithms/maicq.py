"""MAICQ: implicit-constraint Q-learning of a team value that mixes the agents' values by the
global state (offline, discrete actions)."""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from oryx_marl.algorithms import iicq
from oryx_marl.algorithms._independent import IndependentLearner
from oryx_marl.algorithms._learner import require_discrete
from oryx_marl.algorithms.base import Metrics
from oryx_marl.errors import OryxError
from oryx_marl.networks.mixer import QMixer
from oryx_marl.networks.recurrent import RecurrentNetwork
from oryx_marl.ops import icq
from oryx_marl.ops.distributions import Categorical, categorical
from oryx_marl.ops.masked import masked_mean
from oryx_marl.ops.returns import Number, td_masks
from oryx_marl.ops.values import DiscreteValues
from oryx_marl.types import Spec, Window


@dataclass(frozen=True)
class Config(iicq.Config):
    """Settings of MAICQ, those of the Oryx paper."""

    mixer_width: int = 32
    """Features inside the mixing network."""
    hyper_width: int = 64
    """Features of the networks that draw its weights from the global state."""
    normalise_state: bool = False
    """Give every global state mean 0 and variance 1 over its features, for states with raw
    quantities: with coordinates of SMAX, up to 50, the values diverge otherwise."""


class MixedActorCritic(eqx.Module):
    """A policy and a Q for each agent, and what mixes the Qs."""

    agents: iicq.ActorCritic
    mixer: QMixer


class TeamValues(eqx.Module):
    """What the critic says of the logged actions, [B, T]."""

    online: Float[Array, "B T"]
    target: Float[Array, "B T"]


def team_loss(
    values: TeamValues, window: Window, config: Config
) -> tuple[Float[Array, ""], Float[Array, "B Tm1"], Bool[Array, "B Tm1"]]:
    """½ (y - Q_tot)² with y = r + γ w(Q⁻_tot) Q⁻_tot; also the targets and the rows that count.

    The team is there while an agent is, and has ended when all agents have; its reward is the mean
    over the agents that are there.
    """
    agent_mask = window.observation.agent_mask
    anyone = agent_mask.any(axis=-1, keepdims=True)
    ended = (window.terminal | ~agent_mask).all(axis=-1, keepdims=True) & anyone
    rewards = jnp.where(agent_mask, window.rewards, 0).sum(axis=-1, keepdims=True) / jnp.maximum(
        agent_mask.sum(axis=-1, keepdims=True), 1
    )
    mask, bootstrap_mask = td_masks(anyone, ended, window.observation.reset)
    targets = icq.td_targets(
        rewards[:, :-1],
        values.target[:, 1:, None],
        mask,
        bootstrap_mask,
        config.discount,
        config.value_temperature,
        config.td_lambda,
    )
    loss = icq.critic_loss(values.online[:, :-1, None], targets, mask)
    return loss, targets[..., 0], mask[..., 0]


def policy_loss(
    policy: Categorical,
    q: DiscreteValues,
    shares: Float[Array, "B T N"],
    window: Window,
    config: Config,
    critic: tuple[Float[Array, "B Tm1"], Float[Array, "B Tm1"]],
    mask: Bool[Array, "B Tm1"],
) -> tuple[Float[Array, ""], Metrics]:
    """-share · w · log π(a), shares and weights under stop-gradient.

    Else the policy loss would train the mixer to look away from unlikely actions. `critic` has
    its targets and errors, for a temperature that is not given.
    """
    actions = window.actions
    valid = window.observation.agent_mask & policy.supports(actions)
    labels = valid & window.choice
    advantage = icq.own_advantage(q, policy, actions)
    temperature: Number | None = config.policy_temperature
    if temperature is None:
        targets, errors = (x[..., None] for x in critic)
        temperature = icq.adaptive_temperature(
            advantage, labels, targets, errors, mask[..., None], config.discount
        )
    weights = icq.batch_weights(advantage, labels, temperature)
    shared = jax.lax.stop_gradient(shares) * weights
    total = icq.policy_loss(policy.log_prob(actions), shared, labels)
    return total, {
        "policy_loss": total,
        "effective_sample_size": icq.effective_sample_size(weights, labels),
        **policy.extremes(),
        "entropy": masked_mean(policy.entropy(), labels),
        "valid_label_share": valid.mean(),
    }


@dataclass(frozen=True)
class MAICQ(IndependentLearner):
    """The learner: it acts as I-ICQ does, and learns values of the team."""

    def make_network(self, key: Array) -> MixedActorCritic:
        agents_key, mixer_key = jax.random.split(key)
        config, spec = self.config, self.spec
        return MixedActorCritic(
            iicq.ActorCritic(agents_key, spec, config.network),
            QMixer(
                mixer_key, spec.num_agents, spec.state_size, config.mixer_width, config.hyper_width
            ),
        )

    def networks(
        self, network: MixedActorCritic, target: MixedActorCritic
    ) -> tuple[RecurrentNetwork, ...]:
        return network.agents.actor, network.agents.critic, target.agents.critic

    def outputs_loss(
        self,
        network: MixedActorCritic,
        target: MixedActorCritic,
        outputs: Float[Array, "3 B T N A"],
        window: Window,
    ) -> tuple[Float[Array, ""], Metrics]:
        seen, state = window.observation, window.state
        if state is None:
            raise OryxError(NO_STATE)
        if self.config.normalise_state:
            state = jax.nn.standardize(state)
        logits, *of_critics = outputs
        q, target_q = (DiscreteValues(values) for values in of_critics)
        taken, target_taken = (
            jnp.where(seen.agent_mask, values.at(window.actions), 0) for values in (q, target_q)
        )
        values = TeamValues(network.mixer(taken, state), target.mixer(target_taken, state))
        critic, targets, mask = team_loss(values, window, self.config)
        shares = network.mixer.shares(state)
        found = categorical(logits, seen.action_mask)
        errors = targets - values.online[:, :-1]
        policy, metrics = policy_loss(
            found, q, shares, window, self.config, (targets, errors), mask
        )
        return critic + policy, {
            "loss": critic + policy,
            "critic_loss": critic,
            "mean_q": masked_mean(values.online[:, :-1], mask),
            "td_error": masked_mean(jnp.abs(errors), mask),
            **metrics,
        }

    def actor(self, weights: MixedActorCritic) -> RecurrentNetwork:
        return weights.agents.actor


NO_STATE = (
    "MAICQ mixes the agents' values by the global state, but this data has none; use data that "
    "logs `state`, or I-ICQ (`iicq`), which needs none"
)


def make(config: Config, spec: Spec) -> MAICQ:
    """MAICQ for data of this Spec."""
    require_discrete("MAICQ", spec)
    if not spec.state_size:
        raise OryxError(NO_STATE)
    return MAICQ(config, spec)
