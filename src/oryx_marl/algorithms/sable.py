"""Sable: the same sequence model trained by proximal policy optimisation while it acts (online,
any kind of action). It makes the data that others learn from."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, Int

from oryx_marl.algorithms._autoregressive import autoregressive_policy
from oryx_marl.algorithms._learner import adam_on_one_vector
from oryx_marl.algorithms.base import Metrics, Policy
from oryx_marl.errors import OryxError
from oryx_marl.networks.heads import PolicyHead, family
from oryx_marl.networks.layers import Head
from oryx_marl.networks.sable import NetworkConfig, RecurrentState, Sable
from oryx_marl.ops import ppo
from oryx_marl.ops.distributions import Actions, Distribution, categorical
from oryx_marl.ops.masked import masked_mean
from oryx_marl.ops.returns import generalised_advantages, td_masks
from oryx_marl.types import Experience, Observation, Spec, Window


def network_config(**chosen: Any) -> NetworkConfig:
    """What was measured online, where roll-outs are collected with the state at hand."""
    measured = {
        "width": 64,
        "num_heads": 1,
        "decay_scale": 0.9,
        "shortest_memory": 32,
    }
    return NetworkConfig(**{**measured, **chosen})


@dataclass(frozen=True)
class Config:
    """Settings of Sable; the defaults were chosen on T-Maze."""

    online: ClassVar[bool] = True
    network: NetworkConfig = field(default_factory=network_config)
    num_envs: int = 512
    """Environments side by side."""
    rollout_length: int = 32
    """Steps in each environment between two updates."""
    epochs: int = 1
    """Times that each roll-out is learned from."""
    minibatches: int = 4
    """Gradient steps per epoch; each takes a share of the environments."""
    learning_rate: float = 1e-4
    max_gradient_norm: float = 0.5
    discount: float = 0.99
    """γ: how much the next step's value counts."""
    gae_lambda: float = 0.95
    """The λ of generalised advantage estimation."""
    clip: float = 0.2
    """How far the policy and the values may move away from those that acted."""
    entropy_weight: float = 0.01
    """Weight of the entropy bonus; of continuous actions it is that of the squashed Normal."""
    value_weight: float = 0.5
    advantage_floor: float = 0.01
    """Advantages that spread less than this are not blown up to a spread of 1: before the first
    reward they are the critic's noise, which would drive the policy anywhere (published: 1e-8)."""
    permute_agents: bool = False
    """Another random order of the agents in each epoch (published: yes), though they act in their
    own."""
    exact_ratios: bool = True
    """Then compare with what the acting weights say in the same order (off: in the acting order, as
    published, so that ratios are not 1 even before the first step). What was chosen in one order
    can be next to impossible in another: with ten agents such ratios grow without bound."""
    time_limit_ends: bool = False
    """Values of truncated episodes end at 0 (as published), instead of being left out."""

    @property
    def acts_greedily(self) -> bool:
        """See base.py; it learns on sampled actions."""
        return False

    def __post_init__(self) -> None:
        for name in ("num_envs", "rollout_length", "epochs", "minibatches"):
            if getattr(self, name) < 1:
                raise OryxError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.num_envs % self.minibatches:
            raise OryxError(
                f"num_envs ({self.num_envs}) must be a multiple of minibatches "
                f"({self.minibatches}): each environment belongs to one of them"
            )
        for name in ("learning_rate", "max_gradient_norm", "clip", "advantage_floor"):
            if not getattr(self, name) > 0:
                raise OryxError(f"{name} must be positive, got {getattr(self, name)}")
        for name in ("entropy_weight", "value_weight"):
            if getattr(self, name) < 0:
                raise OryxError(f"{name} must not be negative, got {getattr(self, name)}")
        for name in ("discount", "gae_lambda"):
            if not 0 <= getattr(self, name) <= 1:
                raise OryxError(f"{name} must be between 0 and 1, got {getattr(self, name)}")


class Network(eqx.Module):
    """Sable with a policy head on the decoder and a value head on the encoder."""

    trunk: Sable
    policy_head: PolicyHead
    value_head: Head

    def __init__(self, key: Array, spec: Spec, config: NetworkConfig) -> None:
        keys = jax.random.split(key, 3)
        self.trunk = Sable(keys[0], spec, config)
        self.policy_head = PolicyHead(keys[1], config.width, spec.action, explores=True)
        self.value_head = Head(keys[2], config.width, 1)

    def __call__(
        self,
        observation: Observation,
        actions: Actions,
        ids: Int[Array, " N"],
        recurrent_state: RecurrentState | None,
    ) -> tuple[Float[Array, "*B T N K"], Float[Array, "*B T N"]]:
        """The policy's outputs, given the actions of the agents before, and values."""
        encoded, decoded = self.trunk(observation, actions, ids, recurrent_state)
        return self.policy_head(decoded), self.value_head(encoded)[..., 0]


class LearnerState(NamedTuple):
    """Weights and optimiser."""

    network: Network
    optimiser: optax.OptState


class Decision(NamedTuple):
    """What the policy says of each of its steps, [..., N]."""

    log_probs: Array
    """Of the actions taken."""
    values: Array


class Batch(NamedTuple):
    """Roll-outs with all that does not change while they are learned from; [B, T, N] each."""

    window: Window
    recurrent_state: RecurrentState
    """Before the first step, [B, ...]: it stays with its environment, whatever the minibatch."""
    old: Decision
    advantages: Float[Array, "B T N"]
    targets: Float[Array, "B T N"]
    mask: Bool[Array, "B T N"]
    """Steps whose target is known."""

    def reorder(self, ids: Int[Array, " N"]) -> "Batch":
        """The same with the agents in the order of `ids`; memory belongs to all of them."""
        moved = jax.tree.map(lambda x: x[..., ids], (self.old, *self[3:]))
        return Batch(self.window.reorder(ids), self.recurrent_state, *moved)


def make_batch(experience: Experience, config: Config) -> Batch:
    """Advantages and value targets of roll-outs."""
    window, bootstrap_observation = experience.window, experience.bootstrap_observation
    terminal = window.terminal
    if config.time_limit_ends:
        terminal = terminal | experience.truncated

    def with_bootstrap(steps: Array, after: Array) -> Array:
        return jnp.concatenate([steps, after[:, None]], axis=1)

    agent_mask = with_bootstrap(window.observation.agent_mask, bootstrap_observation.agent_mask)
    reset = with_bootstrap(window.observation.reset, bootstrap_observation.reset)
    mask, bootstrap_mask = td_masks(
        agent_mask,
        with_bootstrap(terminal, jnp.zeros_like(bootstrap_observation.agent_mask)),
        reset,
    )
    old = experience.info
    values = with_bootstrap(old.values, experience.bootstrap_info.values)
    advantages = generalised_advantages(
        window.rewards, values, mask, bootstrap_mask, config.discount, config.gae_lambda
    )
    return Batch(window, experience.carry, old, advantages, advantages + old.values, mask)


Forward = Callable[[Observation, Array, Array, RecurrentState | None], tuple[Array, Array]]
"""`(observation [B, T, ...], actions, ids [N], memory [B, ...]) -> outputs and values [B, ...]`."""
Family = Callable[[Array, Array], Distribution]
"""`(outputs, action masks) -> the distribution that they stand for`."""


def loss(
    network: Forward,
    behaviour: Forward,
    batch: Batch,
    ids: Int[Array, " N"],
    config: Config,
    distribution: Family = categorical,
) -> tuple[Float[Array, ""], Metrics]:
    """Clipped policy and value loss with an entropy bonus; agents stand in the order of `ids`.

    `behaviour` are the weights that acted. An action at a bound of its box counts with the
    probability mass there, in both parts of the ratio (`distributions.SquashedNormal.log_prob`), as
    it does for offline learners.
    """
    window, mask = batch.window, batch.mask
    observation, actions = window.observation, window.actions
    outputs, values = network(observation, actions, ids, batch.recurrent_state)
    found = distribution(outputs, observation.action_mask)
    log_probs, old_log_probs = found.log_prob(actions), batch.old.log_probs
    if config.permute_agents and config.exact_ratios:
        old, _ = behaviour(observation, actions, ids, batch.recurrent_state)
        old_log_probs = distribution(old, observation.action_mask).log_prob(actions)

    advantages = ppo.normalise(batch.advantages, mask, config.advantage_floor)
    policy = ppo.policy_loss(log_probs, old_log_probs, advantages, mask, config.clip)
    value = ppo.value_loss(values, batch.old.values, batch.targets, mask, config.clip)
    spread = masked_mean(found.entropy(), mask)
    total = policy + config.value_weight * value - config.entropy_weight * spread
    return total, {
        "loss": total,
        "policy_loss": policy,
        "value_loss": value,
        "entropy": spread,
        **found.extremes(),
        "mean_value": masked_mean(values, mask),
        "ratio_drift": masked_mean(jnp.abs(jnp.exp(log_probs - old_log_probs) - 1), mask),
        "clipped_share": ppo.clipped_share(log_probs, old_log_probs, mask, config.clip),
    }


@dataclass(frozen=True)
class SablePPO:
    """The learner; see algorithms/base.py for what each method promises."""

    config: Config
    spec: Spec

    @property
    def consecutive_windows(self) -> bool:
        return True

    @property
    def needs_returns_to_go(self) -> bool:
        return False

    @property
    def value_discount(self) -> None:
        return None

    @property
    def batch_parts(self) -> None:
        return None

    @property
    def batch_size(self) -> int:
        return self.config.num_envs

    @property
    def sequence_length(self) -> int:
        return self.config.rollout_length

    @property
    def _optimiser(self) -> optax.GradientTransformation:
        config = self.config
        return adam_on_one_vector(config.learning_rate, config.max_gradient_norm, epsilon=1e-5)

    def init(self, key: Array) -> LearnerState:
        network = Network(key, self.spec, self.config.network)
        return LearnerState(network, self._optimiser.init(network))

    def update(
        self, state: LearnerState, experience: Experience, key: Array
    ) -> tuple[LearnerState, Metrics]:
        """Several epochs over the roll-outs, each in minibatches of environments.

        Every epoch takes its minibatches from the roll-outs as they were collected, memory and all,
        so that both always belong to the same environment.
        """
        batch, behaviour = make_batch(experience, self.config), state.network

        def one_epoch(state: LearnerState, key: Array) -> tuple[LearnerState, Metrics]:
            order_key, split_key = jax.random.split(key)
            ids = jnp.arange(self.spec.num_agents)
            if self.config.permute_agents:
                ids = jax.random.permutation(order_key, ids)
            envs = jax.random.permutation(split_key, self.config.num_envs)
            ordered = batch.reorder(ids)

            def one_minibatch(state: LearnerState, chosen: Array) -> tuple[LearnerState, Metrics]:
                part = jax.tree.map(lambda x: x[chosen], ordered)
                return self._step(state, behaviour, part, ids)

            return jax.lax.scan(one_minibatch, state, envs.reshape(self.config.minibatches, -1))

        keys = jax.random.split(key, self.config.epochs)
        state, metrics = jax.lax.scan(one_epoch, state, keys)
        return state, jax.tree.map(jnp.mean, metrics)

    def _step(
        self, state: LearnerState, behaviour: Network, part: Batch, ids: Int[Array, " N"]
    ) -> tuple[LearnerState, Metrics]:
        """One gradient step on one minibatch."""
        gradients, metrics = jax.grad(loss, has_aux=True)(
            state.network, behaviour, part, ids, self.config, family(self.spec.action).distribution
        )
        metrics["gradient_norm"] = jnp.linalg.norm(ravel_pytree(gradients)[0])
        updates, optimiser = self._optimiser.update(gradients, state.optimiser, state.network)
        return LearnerState(optax.apply_updates(state.network, updates), optimiser), metrics

    def weights(self, state: LearnerState) -> Network:
        return state.network

    def distribution(
        self, weights: Network, window: Window, carry: Any = None
    ) -> tuple[Distribution, Any]:
        observation, ids = window.observation, jnp.arange(self.spec.num_agents)
        if carry is None:
            _, features = weights.trunk(observation, window.actions, ids)
        else:
            _, features, carry = weights.trunk.resume(observation, window.actions, ids, carry)
        head = weights.policy_head
        return head.distribution(head(features), observation.action_mask), carry

    def policy(self, weights: Network) -> Policy:
        network = weights

        def choose(features: Array, mask: Array, noise: Array) -> tuple[Array, Array]:
            head = network.policy_head
            found = head.distribution(head(features), mask)
            action = found.sample(noise)
            return action, found.log_prob(action)

        def act(
            carry: RecurrentState, observation: Observation, noise: Float[Array, "B N A"]
        ) -> tuple[RecurrentState, Array, Decision]:
            acted = jax.vmap(lambda c, o, n: network.trunk.act(c, o, choose, n))(
                carry, observation, noise
            )
            values = network.value_head(acted.encoded)[..., 0]
            return acted.recurrent_state, acted.actions, Decision(acted.info, values)

        return autoregressive_policy(network.trunk, act, self.spec)


def make(config: Config, spec: Spec) -> SablePPO:
    """Sable for an environment of this Spec."""
    return SablePPO(config, spec)
