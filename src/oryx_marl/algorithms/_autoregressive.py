"""Agents that choose one after the other on a sequence model over agents."""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from oryx_marl.algorithms.base import Policy
from oryx_marl.networks.heads import family
from oryx_marl.networks.sable import Acted
from oryx_marl.types import Observation, Spec


@runtime_checkable
class Trunk(Protocol):
    """A sequence model over agents: Sable, or another with its two ways to run."""

    def __call__(self, observation: Observation, actions: Array, ids: Array) -> tuple[Array, Array]:
        """Encoder's and decoder's features [B, T, N, D] of logged sequences."""
        ...

    def resume(
        self, observation: Observation, actions: Array, ids: Array, recurrent_state: Any
    ) -> tuple[Array, Array, Any]:
        """The same from a recurrent state on, and the state after it."""
        ...

    def init_state(self) -> Any: ...

    def remember_last(self, recurrent_state: Any, actions: Array, agent_mask: Array) -> Any:
        """The state, for agents that now stand in another order; `actions` [B, N] are those of the
        step before."""
        ...

    def act(
        self, recurrent_state: Any, observation: Observation, choose: Any, noise: Array
    ) -> Acted:
        """One step of all agents, one after the other."""
        ...


def autoregressive_policy(trunk: Trunk, act: Callable[..., Any], spec: Spec) -> Policy:
    """The policy that `act` describes; every environment and agent has a key of its own."""
    draw = family(spec.action).draw_noise

    def init(batch: int) -> Any:
        recurrent_state = trunk.init_state()
        return jax.tree.map(lambda x: jnp.broadcast_to(x, (batch, *x.shape)), recurrent_state)

    def draw_for_agents(key: Array) -> Float[Array, "N A"]:
        return jax.vmap(lambda each: draw(each, ()))(jax.random.split(key, spec.num_agents))

    def draw_noise(key: Array, batch: int) -> Float[Array, "B N A"]:
        return jax.vmap(draw_for_agents)(jax.random.split(key, batch))

    return Policy(init, act, draw_noise)
