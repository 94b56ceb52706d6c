"""Learning in environments: roll-outs and updates in turn, in one compiled call."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from oryx_marl.algorithms.base import Algorithm
from oryx_marl.data.record.segments import Recorder
from oryx_marl.envs.base import Env
from oryx_marl.errors import OryxError
from oryx_marl.parallel.seeds import over_seeds
from oryx_marl.rollout.collect import Actors, Steps, begin, collect
from oryx_marl.training.loop import Metrics, TrainSettings
from oryx_marl.types import Spec

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


@dataclass(frozen=True)
class EnvSource:
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
        source_state: Actors,
        keys: jax.Array,
        first: int,
    ) -> tuple[Any, Actors, Metrics]:
        recorded = 0
        if self.recorder is not None:
            recorded = self.num_recorded or algorithm.batch_size
        learners, source_state, metrics, steps = run_rollouts(
            algorithm,
            self.env,
            num_updates,
            recorded,
            learners,
            source_state,
            keys,
            jnp.asarray(first),
        )
        if self.recorder is not None:
            self.recorder.append(first + num_updates, _by_env(steps, self.env.spec))
            weights = jax.tree.map(lambda x: x[0], algorithm.weights(learners))
            self.keep(first + num_updates, weights)
        return learners, source_state, metrics


def _by_env(steps: Steps, spec: Spec) -> dict[str, np.ndarray]:
    """[1, U, T, B, ...] as [B, U T, ...] on the host: each environment's steps in a row."""
    return {
        name: array[0].reshape(-1, *array.shape[3:]).swapaxes(0, 1)
        for name, array in as_recorded(jax.device_get(steps), spec).items()
    }


def as_recorded(steps: Steps, spec: Spec) -> dict[str, np.ndarray]:
    """Steps by name, without what the environment does not have: a box has no action masks."""
    absent = {"action_mask"} if spec.action.kind == "box" else set()
    found = {name: array for name, array in steps._asdict().items() if array is not None}
    return {name: array for name, array in found.items() if name not in absent}


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

    def one_seed(first: jax.Array, learner: Any, actors: Actors, key: jax.Array) -> tuple:
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

    return over_seeds(one_seed, first)(learners, actors, keys)
