"""Episodes of hand-written policies, which have no weights, as parts of a dataset."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from oryx_marl.algorithms.base import Policy
from oryx_marl.data.dataset import Dataset
from oryx_marl.envs.base import Env, HostEnv, is_host
from oryx_marl.recipes._any_policy import describe_env, record_parts
from oryx_marl.recipes.base import Request


class Scripted(NamedTuple):
    """A policy in the place of an algorithm."""

    script: Policy

    def policy(self, weights: Any) -> Policy:
        del weights  # there are none
        return self.script


def record(env: Env | HostEnv, script: Policy, request: Request) -> Iterator[Dataset]:
    """Whole episodes, cut after the first with which the rows are reached."""
    notes = describe_env(env) if is_host(env) else {}
    return record_parts(
        Scripted(script), None, env, request.rows, request.seed, request.tell, **notes
    )


def draw_available(
    action_mask: Bool[Array, "*shape A"], noise: Float[Array, "*shape A"]
) -> Int[Array, "*shape"]:
    """An available action, each with the same probability.

    The largest of equally distributed numbers is equally likely to be any of them.
    """
    return jnp.where(action_mask, noise, -1).argmax(axis=-1).astype(jnp.int32)


def draw_uniform(*shape: int) -> Any:
    """A `draw_noise` of numbers between 0 and 1, of this shape for each environment."""

    def draw_noise(key: jax.Array, batch: int) -> Float[Array, "B *shape"]:
        return jax.random.uniform(key, (batch, *shape))

    return draw_noise
