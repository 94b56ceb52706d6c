"""Whole episodes in environments outside JAX: one compiled policy call per step for all of them."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Float, Int, Num

from oryx_marl.algorithms.base import Acting, Policy
from oryx_marl.envs.base import HostEnv
from oryx_marl.errors import OryxError
from oryx_marl.types import Observation, Step

MOST_STEPS = 1_000_000
"""Steps after which an episode is taken for one that never ends."""
IDLE = -1
"""Number of the episode of an environment that plays none."""


class HostEpisodes(NamedTuple):
    """Complete episodes by number."""

    returns: Float[np.ndarray, " B"]
    """Sum of the rewards, mean over agents."""
    lengths: Int[np.ndarray, " B"]
    metrics: dict[str, Float[np.ndarray, " B"]]
    """What the environment reports, by name: the value at each episode's last step."""


class Happened(NamedTuple):
    """One step of all environments, [E, ...] each; numpy arrays that nobody changes later."""

    episodes: Int[np.ndarray, " E"]
    """The number of the episode that each environment plays, or IDLE."""
    before: Step
    """What was seen."""
    actions: Num[np.ndarray, "E N"] | Num[np.ndarray, "E N A"]
    after: Step
    """What came of it."""
    ended: Bool[np.ndarray, " E"]
    """Episodes of which this was the last step."""


class CompiledPolicy(NamedTuple):
    """A Policy whose step, noise included, is one compiled call."""

    init: Callable[[int], Any]
    step: Callable[[Any, Observation, jax.Array], tuple[Any, jax.Array, Any]]


def compile_policy(algorithm: Acting, weights: Any, temperature: float = 1.0) -> CompiledPolicy:
    """How weights act, compiled once for all weights of an algorithm and all temperatures."""
    policy = algorithm.policy(weights)
    return CompiledPolicy(policy.init, partial(_act, algorithm, weights, temperature))


@partial(jax.jit, static_argnames="algorithm")
def _act(
    algorithm: Acting,
    weights: Any,
    temperature: float | jax.Array,
    carry: Any,
    observation: Observation,
    key: jax.Array,
) -> tuple[Any, jax.Array, Any]:
    policy = algorithm.policy(weights).at_temperature(temperature)
    return policy.step(carry, observation, key)


def play(
    env: HostEnv, policy: Policy | CompiledPolicy, key: jax.Array, num_episodes: int
) -> HostEpisodes:
    """Plays so many whole episodes, each with an environment seed of its own.

    `policy.step` should be compiled (`compile_policy`). Equal keys give equal episodes.
    """
    returns = np.zeros(num_episodes)
    lengths = np.zeros(num_episodes, np.int32)
    metrics: dict[str, np.ndarray] = {}
    for step in walk(env, policy, key, num_episodes):
        live = step.episodes != IDLE
        played = step.episodes[live]
        rewards = np.asarray(step.after.rewards)[live]
        returns[played] += rewards.mean(axis=1, dtype=np.float64)
        lengths[played] += 1
        for name, values in step.after.metrics.items():
            unknown = np.full(num_episodes, np.nan, np.float32)
            metrics.setdefault(name, unknown)[step.episodes[step.ended]] = values[step.ended]
    return HostEpisodes(returns.astype(np.float32), lengths, metrics)


def walk(
    env: HostEnv, policy: Policy | CompiledPolicy, key: jax.Array, num_episodes: int
) -> Iterator[Happened]:
    """Numbered episodes, `env.num_envs` at a time, each played to its end, step by step.

    An environment that ends takes the next number, so that all numbers are played and short
    episodes are not favoured. The policy always acts for all environments, idle ones included: the
    size of its batch never changes, so nothing is compiled twice.
    """
    seed_key, play_key = jax.random.split(key)
    seeds = _draw_seeds(seed_key, num_episodes)
    episodes = np.full(env.num_envs, IDLE)
    num_begun = count = 0
    carry, now = policy.init(env.num_envs), None
    while True:
        free = np.flatnonzero(episodes == IDLE)[: num_episodes - num_begun]
        if len(free):
            episodes[free] = num_begun + np.arange(len(free))
            num_begun += len(free)
            now = put(now, free, env.reset(free, seeds[episodes[free]]), env.num_envs)
        live = episodes != IDLE
        if not live.any():
            return
        assert now is not None
        carry, chosen, _ = policy.step(carry, now.seen, jax.random.fold_in(play_key, count))
        actions = np.asarray(chosen)
        after = env.step(actions)
        ended = live & np.asarray((after.terminal | after.truncated).all(axis=1))
        yield Happened(episodes.copy(), now, actions, after, ended)
        _require_end(env, after, live & ~ended)
        episodes[ended] = IDLE
        now, count = after, count + 1


def _draw_seeds(key: jax.Array, count: int) -> Int[np.ndarray, " B"]:
    """A seed for each episode, no two alike, from 0 to 2³¹ - 1 as most simulators take them."""
    first = int(jax.random.randint(key, (), 0, 2**31 - 1))
    return (first + np.arange(count)) % 2**31


def put(all_steps: Step | None, which: Int[np.ndarray, " K"], fresh: Step, count: int) -> Step:
    """`fresh` [K, ...] in the places `which` of what all environments [E, ...] saw last."""
    if all_steps is None:
        # Environments that never begin show a first step of nobody.
        all_steps = jax.tree.map(lambda x: np.zeros((count, *x.shape[1:]), x.dtype), fresh)
        blank = all_steps.observation
        all_steps = all_steps._replace(
            observation=blank._replace(reset=~blank.reset, action_mask=~blank.action_mask)
        )

    def put(old: np.ndarray, new: np.ndarray) -> np.ndarray:
        joined = old.copy()
        joined[which] = new
        return joined

    # Metrics come and go, and what was reported before an episode is not of it.
    metrics: dict[str, Any] = {}
    all_steps, fresh = all_steps._replace(metrics=metrics), fresh._replace(metrics=metrics)
    return jax.tree.map(put, all_steps, fresh)


def _require_end(env: HostEnv, after: Step, goes_on: Bool[np.ndarray, " E"]) -> None:
    longest = int((after.observation.step_count * goes_on).max())
    if longest >= MOST_STEPS:
        raise OryxError(
            f"an episode of environment '{env.name}' has {longest:,} steps and no end; give it an "
            "episode limit"
        )
