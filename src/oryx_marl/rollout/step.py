"""One step of a policy in a batch of JAX environments: what every compiled loop is made of."""

from typing import Any, NamedTuple

import jax
from jaxtyping import Array, Bool

from oryx_marl.algorithms.base import Policy
from oryx_marl.envs.base import Env
from oryx_marl.types import Observation, Step


class Stepped(NamedTuple):
    """What came of one step in B environments, [B, ...] each."""

    states: Any
    """States of the environments after it."""
    step: Step
    """What the environments answered."""
    carry: Any
    """The policy's recurrent state after it."""
    actions: Array
    """[B, N] int32, or [B, N, A] float32."""
    info: Any
    """What the policy said about its choice."""


def reset(env: Env, key: jax.Array, count: int) -> tuple[Any, Step]:
    """The first steps of `count` episodes, each with a key of its own."""
    return jax.vmap(env.reset)(jax.random.split(key, count))


def advance(
    env: Env,
    policy: Policy,
    states: Any,
    observation: Observation,
    carry: Any,
    policy_key: jax.Array,
    env_key: jax.Array,
) -> Stepped:
    """The policy acts in all environments at once, each of which steps with a key of its own."""
    carry, actions, info = policy.step(carry, observation, policy_key)
    keys = jax.random.split(env_key, len(observation.reset))
    states, step = jax.vmap(env.step)(states, actions, keys)
    return Stepped(states, step, carry, actions, info)


def is_over(step: Step) -> Bool[Array, " B"]:
    """Which episodes have ended: those of which all agents have."""
    return (step.terminal | step.truncated).all(axis=1)
