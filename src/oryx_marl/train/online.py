"""Learning in environments: roll-outs and updates in turn, in one compiled call."""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from oryx_marl.algorithms.base import Algorithm, Policy
from oryx_marl.data.record.segments import Recorder
from oryx_marl.envs.base import Env
from oryx_marl.errors import OryxError
from oryx_marl.ops.masked import pick
from oryx_marl.parallel.seeds import over_seeds
from oryx_marl.train.loop import Metrics, TrainSettings
from oryx_marl.types import Experience, Observation, Step, Window

WORLD_STREAM = 2**32 - 2
"""Stream of the first resets, beyond every update's number."""


@dataclass(frozen=True)
class OnlineSettings:
    """How long and how often; one update learns from one roll-out of all environments."""

    steps: int = 20_000_000
    """Environment steps per seed, rounded up to whole updates."""
    seeds: int = 1
    """Independent repetitions."""
    first_seed: int = 0
    """Number of the first seed."""
    log_every: int = 10
    """Updates in one compiled call, between two lines of the log."""
    evaluate_every: int = 50
    """Updates between evaluations (0: only at the end)."""
    checkpoint_every: int = 50
    """Updates between checkpoints."""

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise OryxError(f"steps must be at least 1, got {self.steps}")
        self.in_updates(1)

    def in_updates(self, steps_per_update: int) -> TrainSettings:
        """The same in the terms of the training loop."""
        values = dataclasses.asdict(self)
        updates = -(-values.pop("steps") // steps_per_update)
        return TrainSettings(updates=updates, **values)


class Actors(NamedTuple):
    """B environments in mid-flight, and the memory of the policy that acts in them."""

    states: Any
    observation: Observation
    """What the agents see now."""
    global_state: Array | None
    memory: Any
    returns: Float[Array, " B"]
    """Rewards so far in the running episodes, mean over agents."""
    latest_return: Float[Array, ""]
    """Mean return of the episodes that ended last; what is logged until the next end."""
    latest_ended: Float[Array, ""]
    """Episodes that ended in the last roll-out."""


class Steps(NamedTuple):
    """What is recorded of each step, [T, B, ...]; named as the arrays of a Dataset."""

    observations: Array
    actions: Array
    rewards: Array
    terminals: Array
    truncations: Array
    legal: Array
    present: Array
    state: Array | None
    """Global state before the step, None where the environment has none."""
    final_observations: Array
    """What is seen after the step, before any reset."""


@dataclass(frozen=True)
class Live:
    """A Source of roll-outs in environments of one kind; every step of one seed may be recorded."""

    env: Env
    recorder: Recorder | None = None
    keep: Callable[[int, Any], None] = lambda update, weights: None
    """`keep(update, weights)` is shown the recorded seed's weights after each call."""
    num_recorded: int | None = None
    """Environments that are recorded, if not all: they are as good a sample as any."""

    def init(self, algorithm: Algorithm, learners: Any, keys: jax.Array) -> Actors:
        if self.recorder is not None and len(keys) != 1:
            raise OryxError(f"one seed is recorded at a time, not {len(keys)}")
        return _init_actors(algorithm, self.env, learners, keys)

    def advance(
        self,
        algorithm: Algorithm,
        num_updates: int,
        learners: Any,
        world: Actors,
        keys: jax.Array,
        first: int,
    ) -> tuple[Any, Actors, Metrics]:
        recorded = 0
        if self.recorder is not None:
            recorded = self.num_recorded or algorithm.batch_size
        learners, world, metrics, steps = run_rollouts(
            algorithm, self.env, num_updates, recorded, learners, world, keys, jnp.asarray(first)
        )
        if self.recorder is not None:
            self.recorder.append(first + num_updates, _by_env(steps))
            weights = jax.tree.map(lambda x: x[0], algorithm.weights(learners))
            self.keep(first + num_updates, weights)
        return learners, world, metrics


def _by_env(steps: Steps) -> dict[str, np.ndarray]:
    """[1, U, T, B, ...] as [B, U T, ...] on the host: each environment's steps in a row."""
    return {
        name: array[0].reshape(-1, *array.shape[3:]).swapaxes(0, 1)
        for name, array in jax.device_get(steps)._asdict().items()
        if array is not None
    }


@partial(jax.jit, static_argnames=("algorithm", "env"))
def _init_actors(algorithm: Algorithm, env: Env, learners: Any, keys: jax.Array) -> Actors:
    def one_seed(learner: Any, key: jax.Array) -> Actors:
        policy = algorithm.policy(algorithm.weights(learner))
        return begin(env, policy, jax.random.fold_in(key, WORLD_STREAM), algorithm.batch_size)

    return over_seeds(one_seed)(learners, keys)


@partial(
    jax.jit,
    static_argnames=("algorithm", "env", "num_updates", "recorded"),
    donate_argnames=("learners", "actors"),
)
def run_rollouts(
    algorithm: Algorithm,
    env: Env,
    num_updates: int,
    recorded: int,
    learners: Any,
    actors: Actors,
    keys: jax.Array,
    first: jax.Array,
) -> tuple[Any, Actors, Metrics, Steps | None]:
    """`num_updates` times a roll-out and an update on it, for all seeds.

    Every step of the first `recorded` environments comes back too, [S, U, T, B, ...].
    """

    def one_seed(learner: Any, actors: Actors, key: jax.Array) -> tuple:
        def one_update(
            carry: tuple[Any, Actors], number: jax.Array
        ) -> tuple[tuple[Any, Actors], tuple[Metrics, Steps | None]]:
            learner, actors = carry
            act_key, update_key = jax.random.split(jax.random.fold_in(key, number))
            policy = algorithm.policy(algorithm.weights(learner))
            actors, experience, steps = collect(
                env, policy, actors, act_key, algorithm.sequence_length
            )
            learner, metrics = algorithm.update(learner, experience, update_key)
            metrics["return"] = actors.latest_return
            metrics["episodes"] = actors.latest_ended
            kept = jax.tree.map(lambda x: x[:, :recorded], steps) if recorded else None
            return (learner, actors), (metrics, kept)

        numbers = first + 1 + jnp.arange(num_updates)
        (learner, actors), (metrics, steps) = jax.lax.scan(one_update, (learner, actors), numbers)
        return learner, actors, jax.tree.map(lambda x: x.mean(axis=0), metrics), steps

    return over_seeds(one_seed)(learners, actors, keys)


def begin(env: Env, policy: Policy, key: jax.Array, count: int) -> Actors:
    """So many environments before their first step."""
    states, first = _reset(env, key, count)
    nothing = jnp.zeros(())
    return Actors(
        states, first.seen, first.state, policy.init(count), jnp.zeros(count), nothing, nothing
    )


def _reset(env: Env, key: jax.Array, count: int) -> tuple[Any, Step]:
    """So many beginnings."""
    return jax.vmap(env.reset)(jax.random.split(key, count))


def _take(
    starts: tuple[Any, Step], num_taken: Int[Array, ""], ended: Bool[Array, " B"]
) -> tuple[Any, Step]:
    """The next beginnings for those that have ended, from the first again where all were taken."""
    places = num_taken + jnp.cumsum(ended) - 1
    return jax.tree.map(lambda x: x[places % len(x)], starts)


def collect(
    env: Env, policy: Policy, actors: Actors, key: jax.Array, length: int
) -> tuple[Actors, Experience, Steps]:
    """`length` steps in every environment; one that ends begins again at once.

    Where a reset is slow, starts are drawn in advance, and whoever ends takes the next one.
    """
    count = len(actors.returns)
    keys = jax.random.split(key, length + 1)
    last_key, starts = keys[0], None
    if env.starts_per_step:
        last_key, starts_key = jax.random.split(last_key)
        starts = _reset(env, starts_key, math.ceil(count * length * env.starts_per_step))

    def one_step(
        carry: tuple[Actors, Array, Array], key: jax.Array
    ) -> tuple[tuple[Actors, Array, Array], tuple[Observation, Any, Steps]]:
        actors, total, num_ended = carry
        policy_key, env_key, reset_key = jax.random.split(key, 3)
        observation = actors.observation
        memory, actions, info = policy.step(actors.memory, observation, policy_key)
        states, step = jax.vmap(env.step)(actors.states, actions, jax.random.split(env_key, count))
        ended = (step.terminal | step.truncated).all(axis=1)
        if starts is None:
            fresh_states, fresh = _reset(env, reset_key, count)
        else:
            fresh_states, fresh = _take(starts, num_ended.astype(jnp.int32), ended)
        states = pick(ended, fresh_states, states)
        returns = actors.returns + step.rewards.mean(axis=1)
        steps = _write_down(actors, actions, step)
        actors = Actors(
            states,
            pick(ended, fresh.seen, step.seen),
            pick(ended, fresh.state, step.state),
            memory,
            jnp.where(ended, 0, returns),
            actors.latest_return,
            actors.latest_ended,
        )
        total = total + jnp.where(ended, returns, 0).sum()
        return (actors, total, num_ended + ended.sum(dtype=jnp.float32)), (observation, info, steps)

    start = (actors, jnp.zeros(()), jnp.zeros(()))
    (after, total, num_ended), (observation, info, steps) = jax.lax.scan(one_step, start, keys[1:])
    mean_return = jnp.where(num_ended > 0, total / jnp.maximum(num_ended, 1), actors.latest_return)
    after = after._replace(latest_return=mean_return, latest_ended=num_ended)
    _, _, following_info = policy.step(after.memory, after.observation, last_key)
    window, truncated, info = _by_sequence(observation, info, steps)
    experience = Experience(
        window, truncated, info, actors.memory, after.observation, following_info
    )
    return after, experience, steps


def _write_down(before: Actors, actions: Int[Array, "B N"], step: Step) -> Steps:
    """What is recorded of a step."""
    seen = before.observation
    return Steps(
        seen.features,
        actions,
        step.rewards,
        step.terminal,
        step.truncated,
        seen.legal,
        seen.present,
        before.global_state,
        step.observation.features,
    )


def _by_sequence(
    observation: Observation, info: Any, steps: Steps
) -> tuple[Window, Bool[Array, "B T N"], Any]:
    """What was collected step by step, [T, B, ...], as one sequence per environment."""
    observation, info, steps = jax.tree.map(
        lambda x: jnp.moveaxis(x, 0, 1), (observation, info, steps)
    )
    window = Window(observation, steps.actions, steps.rewards, steps.terminals, steps.state)
    return window, steps.truncations, info
