"""Roll-outs in JAX environments: all episodes in one compiled call."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from oryx_marl.algorithms.base import Policy
from oryx_marl.envs.base import Env
from oryx_marl.errors import OryxError
from oryx_marl.ops.masked import pick
from oryx_marl.types import Observation


class Episodes(NamedTuple):
    """One complete episode per environment, so short ones are not favoured."""

    returns: Float[Array, " B"]
    """Sum of the rewards, mean over agents."""
    lengths: Int[Array, " B"]


class Trace(NamedTuple):
    """What happened step by step; steps after the end of an episode are not `live`."""

    states: Any
    """States before each step, [T, B, ...]."""
    actions: Int[Array, "T B N"]
    rewards: Float[Array, "T B"]
    live: Bool[Array, "T B"]
    last: Any
    """States after each episode's last step, [B, ...]."""


class _Moment(NamedTuple):
    """All episodes between two steps."""

    states: Any
    observation: Observation
    memory: Any
    live: Bool[Array, " B"]


def play(env: Env, policy: Policy, key: PRNGKeyArray, num_episodes: int) -> Episodes:
    """Plays so many whole episodes side by side, until the last of them has ended."""
    first, keys = _begin(env, policy, key, num_episodes)
    nothing = Episodes(jnp.zeros(num_episodes), jnp.zeros(num_episodes, jnp.int32))

    def goes_on(carry: tuple[Array, _Moment, Episodes]) -> Array:
        number, now, _ = carry
        return now.live.any() & (number < len(keys))

    def one_step(carry: tuple[Array, _Moment, Episodes]) -> tuple[Array, _Moment, Episodes]:
        number, now, (returns, lengths) = carry
        after, _, rewards = _step(env, policy, now, keys[number])
        return number + 1, after, Episodes(returns + rewards, lengths + now.live)

    return jax.lax.while_loop(goes_on, one_step, (jnp.zeros((), jnp.int32), first, nothing))[2]


def trace(env: Env, policy: Policy, key: PRNGKeyArray, num_episodes: int) -> Trace:
    """The same episodes step by step; what is not used of it is not computed."""
    first, keys = _begin(env, policy, key, num_episodes)

    def one_step(now: _Moment, key: Array) -> tuple[_Moment, tuple]:
        after, actions, rewards = _step(env, policy, now, key)
        return after, (now.states, actions, rewards, now.live)

    last, (states, actions, rewards, live) = jax.lax.scan(one_step, first, keys)
    return Trace(states, actions, rewards, live, last.states)


def _begin(
    env: Env, policy: Policy, key: PRNGKeyArray, num_episodes: int
) -> tuple[_Moment, PRNGKeyArray]:
    """Everyone before the first step, and a key for every step that may follow."""
    limit = env.spec.episode_limit
    if limit is None:
        raise OryxError(f"environment '{env.spec.environment}' has no episode limit to roll out to")
    reset_key, play_key = jax.random.split(key)
    states, first = jax.vmap(env.reset)(jax.random.split(reset_key, num_episodes))
    live = jnp.ones(num_episodes, bool)
    moment = _Moment(states, first.seen, policy.init(num_episodes), live)
    return moment, jax.random.split(play_key, limit)


def _step(env: Env, policy: Policy, now: _Moment, key: Array) -> tuple[_Moment, Array, Array]:
    """The next moment, the actions [B, N], and the rewards [B] of those that are live."""
    policy_key, env_key = jax.random.split(key)
    memory, actions, _ = policy.step(now.memory, now.observation, policy_key)
    keys = jax.random.split(env_key, len(now.live))
    states, step = jax.vmap(env.step)(now.states, actions, keys)
    rewards = jnp.where(now.live, step.rewards.mean(axis=1), 0)
    still_live = now.live & ~(step.terminal | step.truncated).all(axis=1)
    kept = pick(now.live, states, now.states)
    return _Moment(kept, step.seen, memory, still_live), actions, rewards
