"""Whole episodes in JAX environments: all of them in one compiled call."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray

from oryx_marl.algorithms.base import Policy
from oryx_marl.envs.base import Env
from oryx_marl.errors import OryxError
from oryx_marl.ops.masked import pick
from oryx_marl.rollout.step import advance, is_over, reset
from oryx_marl.types import Observation, Step

RESERVED = ("return", "length")
"""Names of scores that every environment has, so that none may report a metric called so."""


class Episodes(NamedTuple):
    """One complete episode per environment, so short ones are not favoured."""

    returns: Float[Array, " B"]
    """Sum of the rewards, mean over agents."""
    lengths: Int[Array, " B"]
    metrics: dict[str, Float[Array, " B"]]
    """What the environment reports, by name: the value at each episode's last step."""


class Trajectories(NamedTuple):
    """What happened step by step; steps after the end of an episode are not `live`."""

    states: Any
    """States before each step, [T, B, ...]."""
    actions: Int[Array, "T B N"] | Float[Array, "T B N A"]
    rewards: Float[Array, "T B"]
    live: Bool[Array, "T B"]
    last: Any
    """States after each episode's last step, [B, ...]."""
    noise: Any
    """[T, B, N, A]: what the policy's actions were drawn with."""


class _Moment(NamedTuple):
    """All episodes between two steps."""

    states: Any
    observation: Observation
    recurrent_state: Any
    live: Bool[Array, " B"]
    metrics: dict[str, Float[Array, " B"]]


def play(env: Env, policy: Policy, key: PRNGKeyArray, num_episodes: int) -> Episodes:
    """Plays so many whole episodes side by side, until the last of them has ended."""
    first, keys = _begin(env, policy, key, num_episodes)
    nothing = jnp.zeros(num_episodes), jnp.zeros(num_episodes, jnp.int32)
    Carry = tuple[Array, _Moment, tuple[Array, Array]]

    def goes_on(carry: Carry) -> Array:
        number, now, _ = carry
        return now.live.any() & (number < len(keys))

    def one_step(carry: Carry) -> Carry:
        number, now, (returns, lengths) = carry
        after, _, rewards = _step(env, policy, now, keys[number])
        return number + 1, after, (returns + rewards, lengths + now.live)

    start = jnp.zeros((), jnp.int32), first, nothing
    _, last, (returns, lengths) = jax.lax.while_loop(goes_on, one_step, start)
    return Episodes(returns, lengths, last.metrics)


def record_trajectories(
    env: Env, policy: Policy, key: PRNGKeyArray, num_episodes: int
) -> Trajectories:
    """The same episodes step by step; what is not used of it is not computed."""
    first, keys = _begin(env, policy, key, num_episodes)

    def one_step(now: _Moment, key: Array) -> tuple[_Moment, tuple]:
        after, actions, rewards = _step(env, policy, now, key)
        policy_key, _ = jax.random.split(key)
        noise = policy.draw_noise(policy_key, num_episodes)  # as `Policy.step` draws it
        return after, (now.states, actions, rewards, now.live, noise)

    last, (states, actions, rewards, live, noise) = jax.lax.scan(one_step, first, keys)
    return Trajectories(states, actions, rewards, live, last.states, noise)


def _begin(
    env: Env, policy: Policy, key: PRNGKeyArray, num_episodes: int
) -> tuple[_Moment, Key[Array, " T"]]:
    """Everyone before the first step, and a key for every step that may follow."""
    limit = env.spec.episode_limit
    if limit is None:
        raise OryxError(f"environment '{env.spec.environment}' has no episode limit to roll out to")
    reset_key, play_key = jax.random.split(key)
    states, first = reset(env, reset_key, num_episodes)
    if taken := sorted({*first.metrics} & {*RESERVED}):
        raise OryxError(
            f"environment '{env.spec.environment}' reports a metric '{taken[0]}'; that is the name "
            "of a score that is computed from the rewards: give it another"
        )
    live = jnp.ones(num_episodes, bool)
    moment = _Moment(states, first.seen, policy.init(num_episodes), live, _as_floats(first))
    return moment, jax.random.split(play_key, limit)


def _step(env: Env, policy: Policy, now: _Moment, key: Array) -> tuple[_Moment, Array, Array]:
    """The next moment, the actions [B, N], and the rewards [B] of those that are live."""
    policy_key, env_key = jax.random.split(key)
    done = advance(
        env, policy, now.states, now.observation, now.recurrent_state, policy_key, env_key
    )
    rewards = jnp.where(now.live, done.step.rewards.mean(axis=1), 0)
    still_live = now.live & ~is_over(done.step)
    states, metrics = pick(
        now.live, (done.states, _as_floats(done.step)), (now.states, now.metrics)
    )
    after = _Moment(states, done.step.seen, done.carry, still_live, metrics)
    return after, done.actions, rewards


def _as_floats(step: Step) -> dict[str, Array]:
    return {name: jnp.asarray(value, jnp.float32) for name, value in step.metrics.items()}
