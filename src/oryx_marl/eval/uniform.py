"""The random policy: what every score is measured against."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from oryx_marl.algorithms.base import Policy
from oryx_marl.envs.base import Env, HostEnv, is_host, require_jax
from oryx_marl.rollout import episodes as rollout
from oryx_marl.rollout import host
from oryx_marl.types import Observation, Spec


def uniform_policy(spec: Spec) -> Policy:
    """Every agent takes each of its legal actions, or each vector of its box, with the same
    probability. A temperature means nothing to it: its noise is the choice itself."""
    shape, space = (spec.num_agents, spec.action.size), spec.action

    def draw_noise(key: jax.Array, batch: int) -> Float[Array, "B N A"]:
        return jax.random.uniform(key, (batch, *shape))

    def act_in_box(carry: Any, observation: Observation, noise: Array) -> tuple[Any, Array, dict]:
        low, high = jnp.array(space.low), jnp.array(space.high)
        return carry, low + (high - low) * noise, {}

    act = _act if space.kind == "discrete" else act_in_box
    return Policy(lambda batch: (), act, draw_noise)


def play(
    env: Env | HostEnv, episodes: int, key: jax.Array
) -> tuple[Float[np.ndarray, " B"], Int[np.ndarray, " B"]]:
    """Returns and lengths of so many episodes of random agents."""
    if is_host(env):
        policy = uniform_policy(env.spec)
        played = host.play(
            env, host.CompiledPolicy(policy.init, jax.jit(policy.step)), key, episodes
        )
        return played.returns, played.lengths
    returns, lengths = _play(require_jax(env, "compiled play"), episodes, key)
    return np.asarray(returns), np.asarray(lengths)


@partial(jax.jit, static_argnames=("env", "episodes"))
def _play(env: Env, episodes: int, key: jax.Array) -> tuple[Float[Array, " B"], Int[Array, " B"]]:
    played = rollout.play(env, uniform_policy(env.spec), key, episodes)
    return played.returns, played.lengths


def _act(
    carry: Any, observation: Observation, noise: Float[Array, "B N A"]
) -> tuple[Any, Int[Array, "B N"], dict]:
    # The largest of equally distributed numbers is equally likely to be any of them.
    return carry, jnp.where(observation.action_mask, noise, -1).argmax(axis=-1), {}
