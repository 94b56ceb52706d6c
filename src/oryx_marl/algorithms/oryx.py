"""Oryx: an autoregressive sequence model over agents and time, trained by implicit-constraint
Q-learning (offline, discrete actions)."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from oryx_marl.algorithms.base import Metrics, Policy
from oryx_marl.errors import OryxError
from oryx_marl.networks.layers import Head
from oryx_marl.networks.sable import Memory, NetworkConfig, Sable
from oryx_marl.ops import icq
from oryx_marl.ops.distributions import entropy, masked_log_softmax, take_action
from oryx_marl.ops.masked import masked_mean
from oryx_marl.ops.returns import td_rows
from oryx_marl.types import Observation, Spec, Window


@dataclass(frozen=True)
class Config:
    """Settings of Oryx; the defaults were chosen on T-Maze."""

    network: NetworkConfig = field(default_factory=NetworkConfig)
    batch_size: int = 64
    """Windows per update."""
    sequence_length: int = 20
    """Steps per window; 2 is the paper's ablation of memory."""
    learning_rate: float = 3e-4
    max_gradient_norm: float = 10.0
    discount: float = 0.99
    trace: float = 0.9
    """How far rewards reach back in a target: 0 one step (paper), 1 to the end of the window."""
    target_rate: float = 0.005
    """Share of the weights that the target network takes over at each update."""
    act_on_average: bool = True
    """Act with the target network, a running average, not with the newest weights."""
    critic_weight: float = 1.0
    policy_temperature: float = 0.1
    """Low: imitate only the best logged actions. High: imitate all alike."""
    value_temperature: float = 1000.0
    """Low: values of the better logged actions count more in the target. 1000: all alike."""
    advantage: Literal["cumulative", "own"] = "cumulative"
    """Weigh an action by the advantage of all agents up to it (paper) or its own (public code)."""
    objective: Literal["icq", "clone", "q_learning"] = "icq"
    """Imitate weighed by advantage, imitate everything alike, or act on Q alone (no ICQ)."""
    memory: bool = True
    """Off: every step is seen as if it were the first, in training and acting."""

    def __post_init__(self) -> None:
        if self.batch_size < 1 or self.sequence_length < 2:
            raise OryxError(
                "batch_size must be at least 1 and sequence_length at least 2, got "
                f"{self.batch_size} and {self.sequence_length}"
            )
        for name in (
            "policy_temperature",
            "value_temperature",
            "learning_rate",
            "max_gradient_norm",
        ):
            if not getattr(self, name) > 0:
                raise OryxError(f"{name} must be positive, got {getattr(self, name)}")
        if self.critic_weight < 0:
            raise OryxError(f"critic_weight must not be negative, got {self.critic_weight}")
        for name in ("discount", "trace", "target_rate"):
            if not 0 <= getattr(self, name) <= 1:
                raise OryxError(f"{name} must be between 0 and 1, got {getattr(self, name)}")


class Network(eqx.Module):
    """Sable with a policy head and a Q head on the decoder."""

    trunk: Sable
    policy_head: Head
    q_head: Head

    def __init__(self, key: Array, spec: Spec, config: NetworkConfig) -> None:
        keys = jax.random.split(key, 3)
        self.trunk = Sable(keys[0], spec, config)
        self.policy_head, self.q_head = (Head(k, config.width, spec.action.size) for k in keys[1:])

    def __call__(
        self, observation: Observation, actions: Int[Array, "T N"], ids: Int[Array, " N"]
    ) -> tuple[Float[Array, "T N A"], Float[Array, "T N A"]]:
        """Logits and one Q per action, given the logged actions of the agents before."""
        _, features = self.trunk(observation, actions, ids)
        return self.policy_head(features), self.q_head(features)


class LearnerState(NamedTuple):
    """Online weights, target weights, optimiser."""

    network: Network
    target: Network
    optimiser: optax.OptState


Forward = Callable[[Observation, Array, Array], tuple[Array, Array]]
"""`(observation [T, ...], actions [T, N], ids [N]) -> logits and Q, [T, N, A] each`."""


def loss(
    network: Forward, target: Forward, window: Window, ids: Int[Array, " N"], config: Config
) -> tuple[Float[Array, ""], Metrics]:
    """Critic and policy loss of a batch [B, T, N]; agents stand in the order of `ids`."""
    observation, actions = window.observation, window.actions
    seen = observation if config.memory else _forget(observation)
    logits, q = jax.vmap(network, in_axes=(0, 0, None))(seen, actions, ids)
    _, target_q = jax.vmap(target, in_axes=(0, 0, None))(seen, actions, ids)
    log_probs = masked_log_softmax(logits, observation.legal)
    q_taken = take_action(q, actions)

    rows, uses_next = td_rows(observation.present, window.terminal, observation.reset)
    rewards = window.rewards[:, :-1]
    if config.objective == "q_learning":
        best = jnp.where(observation.legal, target_q, -jnp.inf).max(axis=-1)[:, 1:]
        targets = rewards + config.discount * jnp.where(uses_next, best, 0)
    else:
        targets = icq.td_targets(
            rewards,
            take_action(target_q, actions)[:, 1:],
            rows,
            uses_next,
            config.discount,
            config.value_temperature,
            config.trace,
        )
    critic = icq.critic_loss(q_taken[:, :-1], targets, rows)

    # Rows whose logged action is illegal would drive the logits away without bound.
    imitable = observation.present & take_action(observation.legal, actions)
    advantage = icq.own_advantage(q, log_probs, actions)
    if config.advantage == "cumulative":
        advantage = icq.cumulative_advantage(advantage, observation.present)
    weights = icq.batch_weights(advantage, imitable, config.policy_temperature)
    if config.objective == "clone":
        weights = imitable.astype(weights.dtype)
    policy = icq.policy_loss(take_action(log_probs, actions), weights, imitable)

    total = config.critic_weight * critic
    if config.objective != "q_learning":
        total = total + policy
    return total, {
        "loss": total,
        "critic_loss": critic,
        "policy_loss": policy,
        "effective_sample_size": icq.effective_sample_size(weights, imitable),
        "max_logit": jnp.abs(logits).max(),
        "entropy": masked_mean(entropy(log_probs), imitable),
        "mean_q": masked_mean(q_taken, observation.present),
        "td_error": masked_mean(jnp.abs(targets - q_taken[:, :-1]), rows),
        "imitated_share": imitable.mean(),
    }


def _forget(observation: Observation) -> Observation:
    return observation._replace(reset=jnp.ones_like(observation.reset))


@dataclass(frozen=True)
class Oryx:
    """The learner; see algorithms/base.py for what each method promises."""

    config: Config
    spec: Spec

    @property
    def batch_size(self) -> int:
        return self.config.batch_size

    @property
    def sequence_length(self) -> int:
        return self.config.sequence_length

    @property
    def _optimiser(self) -> optax.GradientTransformation:
        return optax.chain(
            optax.clip_by_global_norm(self.config.max_gradient_norm),
            optax.adam(self.config.learning_rate),
        )

    def init(self, key: Array) -> LearnerState:
        network = Network(key, self.spec, self.config.network)
        return LearnerState(network, network, self._optimiser.init(network))

    def update(
        self, state: LearnerState, experience: Window, key: Array
    ) -> tuple[LearnerState, Metrics]:
        """One joint gradient step for all agents, in a random order of the agents."""
        ids = jax.random.permutation(key, self.spec.num_agents)
        window = experience.reorder(ids)
        gradients, metrics = jax.grad(loss, has_aux=True)(
            state.network, state.target, window, ids, self.config
        )
        metrics["gradient_norm"] = optax.tree.norm(gradients)
        updates, optimiser = self._optimiser.update(gradients, state.optimiser, state.network)
        network = optax.apply_updates(state.network, updates)
        target = optax.incremental_update(network, state.target, self.config.target_rate)
        return LearnerState(network, target, optimiser), metrics

    def weights(self, state: LearnerState) -> Network:
        return state.target if self.config.act_on_average else state.network

    def policy(self, weights: Network, greedy: bool = False) -> Policy:
        network = weights

        def choose(features: Array, legal: Array, key: Array) -> tuple[Array, Array]:
            if self.config.objective == "q_learning":
                logits = network.q_head(features) / self.config.policy_temperature
            else:
                logits = network.policy_head(features)
            log_probs = masked_log_softmax(logits, legal)
            action = log_probs.argmax() if greedy else jax.random.categorical(key, log_probs)
            return action.astype(jnp.int32), log_probs

        def init(batch: int) -> Memory:
            memory = network.trunk.init_memory()
            return jax.tree.map(lambda x: jnp.broadcast_to(x, (batch, *x.shape)), memory)

        def step(
            carry: Memory, observation: Observation, key: Array
        ) -> tuple[Memory, Array, Array]:
            """Actions [B, N] and log-probabilities [B, N, A]."""
            seen = observation if self.config.memory else _forget(observation)
            keys = jax.random.split(key, len(observation.reset))
            acted = jax.vmap(lambda c, o, k: network.trunk.act(c, o, choose, k))(carry, seen, keys)
            return acted.memory, acted.actions, acted.info

        return Policy(init, step)


def make(config: Config, spec: Spec) -> Oryx:
    """Oryx for data of this Spec."""
    if spec.action.kind != "discrete":
        raise OryxError("Oryx learns discrete actions for now, but this data has continuous ones")
    return Oryx(config, spec)
