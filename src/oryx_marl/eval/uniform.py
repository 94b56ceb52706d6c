"""The random policy: what every score is measured against."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from oryx_marl.algorithms.base import Policy
from oryx_marl.envs.base import Env
from oryx_marl.errors import OryxError
from oryx_marl.rollout import episodes as rollout
from oryx_marl.types import Observation, Spec


def uniform_policy(spec: Spec) -> Policy:
    """Every agent takes each of its legal actions with the same probability."""
    if spec.action.kind != "discrete":
        raise OryxError("random scores are for discrete actions alone so far")
    return Policy(init=lambda batch: (), step=_step)


@partial(jax.jit, static_argnames=("env", "episodes"))
def play(env: Env, episodes: int, key: jax.Array) -> tuple[Float[Array, " B"], Int[Array, " B"]]:
    """Returns and lengths of so many episodes of random agents."""
    played = rollout.play(env, uniform_policy(env.spec), key, episodes)
    return played.returns, played.lengths


def _step(
    carry: Any, observation: Observation, key: jax.Array
) -> tuple[Any, Int[Array, "B N"], dict]:
    # The largest of equally distributed numbers is equally likely to be any of them.
    draws = jax.random.uniform(key, observation.legal.shape)
    return carry, jnp.where(observation.legal, draws, -1).argmax(axis=-1), {}
