"""Roll-outs in JAX environments: all episodes in one compiled call."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from oryx_marl.algorithms.base import Policy
from oryx_marl.envs.base import Env
from oryx_marl.errors import OryxError
from oryx_marl.ops.masked import pick


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


def rollout(
    env: Env, policy: Policy, key: PRNGKeyArray, num_episodes: int
) -> tuple[Episodes, Trace]:
    """Plays `num_episodes` whole episodes side by side; what is not used is not computed."""
    limit = env.spec.episode_limit
    if limit is None:
        raise OryxError(f"environment '{env.spec.environment}' has no episode limit to roll out to")
    reset_key, play_key = jax.random.split(key)
    states, first = jax.vmap(env.reset)(jax.random.split(reset_key, num_episodes))

    def one_step(carry: tuple, key: Array) -> tuple[tuple, tuple]:
        states, observation, memory, live = carry
        policy_key, env_key = jax.random.split(key)
        memory, actions, _ = policy.step(memory, observation, policy_key)
        keys = jax.random.split(env_key, num_episodes)
        new_states, step = jax.vmap(env.step)(states, actions, keys)
        rewards = jnp.where(live, step.rewards.mean(axis=1), 0)
        kept = pick(live, new_states, states)
        still_live = live & ~(step.terminal | step.truncated).all(axis=1)
        return (kept, step.seen, memory, still_live), (states, actions, rewards, live)

    start = (states, first.seen, policy.init(num_episodes), jnp.ones(num_episodes, bool))
    (last, *_), (states, actions, rewards, live) = jax.lax.scan(
        one_step, start, jax.random.split(play_key, limit)
    )
    episodes = Episodes(rewards.sum(axis=0), live.sum(axis=0, dtype=jnp.int32))
    return episodes, Trace(states, actions, rewards, live, last)
