"""MADT: a decision transformer over each agent's own steps (Meng et al., 2021; offline, discrete
actions). It clones behaviour, by default that of the best return in the data."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from oryx_marl.algorithms._independent import draw_for_all
from oryx_marl.algorithms._learner import (
    LearnerState,
    OfflineConfig,
    OfflineLearner,
    require_discrete,
)
from oryx_marl.algorithms.base import Metrics, Policy
from oryx_marl.algorithms.bc import bc_loss
from oryx_marl.errors import OryxError
from oryx_marl.networks.gpt import GPT, GPTConfig, Trajectory
from oryx_marl.networks.heads import family
from oryx_marl.networks.layers import Dense
from oryx_marl.ops.distributions import Distribution
from oryx_marl.types import Observation, Spec, Window


@dataclass(frozen=True)
class Config(OfflineConfig):
    """Settings of MADT."""

    network: GPTConfig = field(default_factory=GPTConfig)
    batch_size: int = 128
    """Windows per update."""
    sequence_length: int = 20
    """Steps per window, and the most that are seen when acting (public default: 1)."""
    learning_rate: float = 5e-4
    weight_decay: float = 0.1
    """Of the matrices."""
    max_gradient_norm: float = 0.5


class Weights(NamedTuple):
    """What a policy acts with."""

    network: GPT
    asked: Float[Array, ""]
    """The return that is asked for: the highest of any episode that was met."""


class ContextState(NamedTuple):
    """The last steps of one environment's episode, oldest first."""

    steps: Trajectory
    filled: Int[Array, ""]
    """How many of them there are; what stands behind is older than the episode."""
    remaining: Float[Array, " N"]
    """What is left of the return that was asked for."""


@dataclass(frozen=True)
class MADT(OfflineLearner):
    """The learner; in place of a target network, or beside averaged weights, it keeps the highest
    return that it met."""

    @property
    def needs_returns_to_go(self) -> bool:
        return self.config.network.tokens != "observation"

    @property
    def optimiser(self) -> optax.GradientTransformation:
        return optax.chain(
            optax.clip_by_global_norm(self.config.max_gradient_norm),
            optax.adamw(
                self.config.learning_rate,
                b2=0.95,
                weight_decay=self.config.weight_decay,
                mask=_mark_matrices,
            ),
        )

    def make_network(self, key: Array) -> GPT:
        return GPT(key, self.spec, self.config.network, self.config.sequence_length)

    def init(self, key: Array) -> LearnerState:
        state, unknown = super().init(key), jnp.full((), -jnp.inf)
        ema = self.config.act_with_ema
        return state._replace(target=Weights(state.network, unknown) if ema else unknown)

    def loss(
        self, network: GPT, target: Any, window: Window, key: Array
    ) -> tuple[Float[Array, ""], Metrics]:
        observation, returns = window.observation, window.returns_to_go
        if returns is None:
            if self.needs_returns_to_go:
                raise OryxError("MADT learns from returns to go: put_on_device(..., True)")
            returns = jnp.zeros(window.rewards.shape)
        trajectory = Trajectory(
            observation.features,
            observation.agent_mask,
            observation.reset,
            observation.step_count,
            returns,
            window.actions,
        )
        outputs = jax.vmap(network)(trajectory)
        return bc_loss(
            family(self.spec.action).distribution(outputs, observation.action_mask), window
        )

    def move_target(self, network: GPT, target: Any, count: Int[Array, ""]) -> Any:
        if not self.config.act_with_ema:
            return target
        return Weights(super().move_target(network, target.network, count), target.asked)

    def update(
        self, state: LearnerState, experience: Window, key: Array
    ) -> tuple[LearnerState, Metrics]:
        state, metrics = super().update(state, experience, key)
        if experience.returns_to_go is None:
            return state, metrics
        begun = experience.observation.reset
        best = jnp.where(begun, experience.returns_to_go.mean(axis=-1), -jnp.inf).max()
        asked = jnp.maximum(self.weights(state).asked, best)
        ema = self.config.act_with_ema
        return state._replace(target=state.target._replace(asked=asked) if ema else asked), metrics

    def weights(self, state: LearnerState) -> Weights:
        return state.target if self.config.act_with_ema else Weights(state.network, state.target)

    def distribution(
        self, weights: Weights, window: Window, carry: ContextState | None = None
    ) -> tuple[Distribution, ContextState | None]:
        """As it acts: with the highest return asked for, and memory no longer than when acting."""
        rewards = jnp.roll(window.rewards, 1, axis=1).at[:, 0].set(0)
        observation = window.observation._replace(last_rewards=rewards)

        def one_step(
            context_state: ContextState, inputs: tuple[Observation, Array]
        ) -> tuple[ContextState, Array]:
            observation, actions = inputs
            context_state, outputs = _consider(weights, context_state, observation)
            return _note(context_state, actions), outputs

        def one_window(
            start: ContextState, observation: Observation, actions: Array
        ) -> tuple[ContextState, Array]:
            return jax.lax.scan(one_step, start, (observation, actions))

        start = self.policy(weights).init(len(rewards)) if carry is None else carry
        after, outputs = jax.vmap(one_window)(start, observation, window.actions)
        found = family(self.spec.action).distribution(outputs, observation.action_mask)
        # The next window does not know the reward of this one's last step.
        after = after._replace(remaining=after.remaining - window.rewards[:, -1])
        return found, None if carry is None else after

    def policy(self, weights: Weights) -> Policy:
        kind = family(self.spec.action)

        def init(batch: int) -> ContextState:
            context_state = _init_state(weights, self.spec)
            return jax.tree.map(lambda x: jnp.broadcast_to(x, (batch, *x.shape)), context_state)

        def act(carry: ContextState, observation: Observation, noise: Array) -> tuple:
            """Actions, and the distribution they come from."""
            carry, outputs = jax.vmap(lambda *args: _consider(weights, *args))(carry, observation)
            found = kind.distribution(outputs, observation.action_mask)
            actions = found.sample(noise)
            return jax.vmap(_note)(carry, actions), actions, found

        return Policy(init, act, draw_for_all(kind.draw_noise, self.spec.num_agents))


def _mark_matrices(network: GPT) -> Any:
    """True for the weights that decay: those of matrices, but of no bias, norm or position."""
    is_dense = lambda part: isinstance(part, Dense)  # noqa: E731
    return jax.tree.map(
        lambda part: jax.tree.map(lambda x: x.ndim == 2, part) if is_dense(part) else False,
        network,
        is_leaf=is_dense,
    )


def _init_state(weights: Weights, spec: Spec) -> ContextState:
    count, agents = weights.network.context, spec.num_agents
    nothing = Trajectory(
        jnp.zeros((count, agents, spec.observation_size)),
        jnp.zeros((count, agents), bool),
        jnp.zeros(count, bool),
        jnp.zeros(count, jnp.int32),
        jnp.zeros((count, agents)),
        jnp.zeros((count, agents), jnp.int32),
    )
    return ContextState(nothing, jnp.zeros((), jnp.int32), _asked(weights, agents))


def _asked(weights: Weights, agents: int) -> Float[Array, " N"]:
    """The return to ask for; 0 as long as no episode's start was met."""
    return jnp.full(agents, jnp.where(jnp.isfinite(weights.asked), weights.asked, 0))


def _consider(
    weights: Weights, context_state: ContextState, observation: Observation
) -> tuple[ContextState, Float[Array, "N A"]]:
    """Memory with this step in it, its action not yet known, and what the network says."""
    context, agents = weights.network.context, len(context_state.remaining)
    told = observation.last_rewards
    remaining = context_state.remaining if told is None else context_state.remaining - told
    remaining = jnp.where(observation.reset, _asked(weights, agents), remaining)
    filled = jnp.where(observation.reset, 0, context_state.filled)
    place = jnp.minimum(filled, context - 1)
    now = Trajectory(
        observation.features.astype(jnp.float32),
        observation.agent_mask,
        observation.reset,
        observation.step_count,
        remaining,
        jnp.zeros(agents, jnp.int32),
    )
    shift = jnp.where(filled == context, 1, 0)
    steps = jax.tree.map(
        lambda old, new: jnp.roll(old, -shift, axis=0).at[place].set(new), context_state.steps, now
    )
    return ContextState(steps, place + 1, remaining), weights.network(steps)[place]


def _note(context_state: ContextState, actions: Int[Array, " N"]) -> ContextState:
    """Memory with the actions of the newest step."""
    steps = context_state.steps
    chosen = steps.actions.at[context_state.filled - 1].set(actions)
    return context_state._replace(steps=steps._replace(actions=chosen))


def make(config: Config, spec: Spec) -> MADT:
    """MADT for data of this Spec."""
    require_discrete("MADT", spec)
    return MADT(config, spec)
