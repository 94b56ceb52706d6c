"""Roll-outs of fixed length outside JAX, for online learners: one compiled policy call per step."""

from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float, Int

from oryx_marl.algorithms.base import Algorithm
from oryx_marl.envs.base import HostEnv
from oryx_marl.rollout.collect import Steps
from oryx_marl.rollout.host import put
from oryx_marl.types import Experience, Observation, Step, Window


class HostActors(NamedTuple):
    """E environments in mid-flight, and the recurrent state of the policy that acts in them.

    Never part of a checkpoint: the state of a simulator cannot be saved in general.
    """

    now: Step
    """What was answered last, [E, ...]; first steps where an episode has just begun."""
    recurrent_state: Any
    returns: Float[np.ndarray, " E"]
    """Rewards so far in the running episodes, mean over agents."""


class Ended(NamedTuple):
    """Episodes that ended in a roll-out."""

    number: int
    total_return: float


def begin(algorithm: Algorithm, env: HostEnv, weights: Any, key: jax.Array) -> HostActors:
    """All environments before their first step."""
    every = np.arange(env.num_envs)
    first = put(None, every, env.reset(every, _draw_seeds(_generator(key), every)), env.num_envs)
    recurrent_state = algorithm.policy(weights).init(env.num_envs)
    return HostActors(first, recurrent_state, np.zeros(env.num_envs))


def collect(
    algorithm: Algorithm, env: HostEnv, weights: Any, actors: HostActors, key: jax.Array
) -> tuple[HostActors, Experience, Steps, Ended]:
    """A roll-out of the algorithm's length in every environment; one that ends begins again at
    once. Seeds of the new episodes follow from the key, as all else does."""
    play_key, seed_key = jax.random.split(key)
    generator = _generator(seed_key)
    now, carry, returns = actors.now, actors.recurrent_state, actors.returns.copy()
    shown: list[tuple[Observation, Any, Steps]] = []
    count, total = 0, 0.0
    for number in range(algorithm.sequence_length):
        carry, *chosen = _act(algorithm, weights, carry, now.seen, play_key, np.int32(number))
        actions, info = jax.device_get(chosen)
        after = env.step(actions)
        shown.append((now.seen, info, _write_down(now, actions, after)))
        returns += np.asarray(after.rewards).mean(axis=1)
        ended = np.flatnonzero(np.asarray(after.terminal | after.truncated).all(axis=1))
        now = after
        if len(ended):
            count, total = count + len(ended), total + float(returns[ended].sum())
            returns[ended] = 0
            fresh = env.reset(ended, _draw_seeds(generator, ended))
            now = put(now, ended, fresh, env.num_envs)
    last = np.int32(algorithm.sequence_length)
    _, _, bootstrap_info = _act(algorithm, weights, carry, now.seen, play_key, last)
    observation, info, steps = jax.tree.map(lambda *parts: np.stack(parts), *shown)
    by_sequence = jax.tree.map(lambda x: np.moveaxis(x, 0, 1), (observation, info, steps))
    observation, info, rows = by_sequence
    window = Window(observation, rows.actions, rows.rewards, rows.terminals, rows.state)
    experience = Experience(
        window, rows.truncations, info, actors.recurrent_state, now.seen, bootstrap_info
    )
    return HostActors(now, carry, returns), experience, steps, Ended(count, total)


@partial(jax.jit, static_argnames="algorithm")
def _act(
    algorithm: Algorithm,
    weights: Any,
    carry: Any,
    observation: Observation,
    key: jax.Array,
    number: Int[Array, ""],
) -> tuple[Any, Array, Any]:
    policy = algorithm.policy(weights)
    return policy.step(carry, observation, jax.random.fold_in(key, number))


def _write_down(before: Step, actions: Any, after: Step) -> Steps:
    """What is recorded of a step; see `collect.Steps`."""
    seen = before.observation
    return Steps(
        seen.features,
        actions,
        after.rewards,
        after.terminal,
        after.truncated,
        seen.action_mask,
        seen.agent_mask,
        before.state,
        after.observation.features,
    )


def _generator(key: jax.Array) -> np.random.Generator:
    return np.random.default_rng(np.asarray(jax.random.key_data(key)))


def _draw_seeds(
    generator: np.random.Generator, which: Int[np.ndarray, " K"]
) -> Int[np.ndarray, " K"]:
    """Seeds of new episodes, from 0 to 2³¹ - 1 as most simulators take them."""
    return generator.integers(0, 2**31, len(which))
