"""Agents that each act by themselves on a recurrent network with shared weights."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from oryx_marl.algorithms._learner import OfflineConfig, OfflineLearner
from oryx_marl.algorithms.base import Policy
from oryx_marl.networks.heads import family
from oryx_marl.networks.recurrent import RecurrentConfig, RecurrentNetwork
from oryx_marl.ops.distributions import Distribution
from oryx_marl.types import Observation, Window


@dataclass(frozen=True)
class IndependentConfig(OfflineConfig):
    """Settings that all learners on the recurrent network have."""

    network: RecurrentConfig = field(default_factory=RecurrentConfig)


@dataclass(frozen=True)
class IndependentLearner(OfflineLearner):
    """Its actor's outputs are those of a distribution; nobody knows what the others choose."""

    def actor(self, weights: Any) -> RecurrentNetwork:
        """The network that acts."""
        return weights

    def outputs(self, network: RecurrentNetwork, window: Window) -> Distribution:
        """What the network says of all agents and steps of a window."""
        seen = window.observation
        return family(self.spec.action).distribution(network(seen), seen.action_mask)

    def distribution(
        self, weights: Any, window: Window, carry: Any = None
    ) -> tuple[Distribution, Any]:
        network, seen = self.actor(weights), window.observation
        if carry is None:
            return self.outputs(network, window), None
        by_time = jax.tree.map(lambda x: jnp.moveaxis(x, 1, 0), seen)
        carry, outputs = jax.lax.scan(jax.vmap(network.step), carry, by_time)
        outputs = jnp.moveaxis(outputs, 0, 1)
        return family(self.spec.action).distribution(outputs, seen.action_mask), carry

    def policy(self, weights: Any) -> Policy:
        network, actions = self.actor(weights), family(self.spec.action)

        def init(batch: int) -> Array:
            hidden = network.init_state()
            return jnp.broadcast_to(hidden, (batch, *hidden.shape))

        def act(
            carry: Array, observation: Observation, noise: Float[Array, "B N A"]
        ) -> tuple[Array, Array, Distribution]:
            """Actions, and the distribution they come from."""
            carry, outputs = jax.vmap(network.step)(carry, observation)
            found = actions.distribution(outputs, observation.action_mask)
            return carry, found.sample(noise), found

        return Policy(init, act, draw_for_all(actions.draw_noise, self.spec.num_agents))


def draw_for_all(
    draw: Callable[[Array, tuple[int, ...]], Array], num_agents: int
) -> Callable[[Array, int], Array]:
    """Noise [B, N, A] of all environments and agents from one key."""
    return lambda key, batch: draw(key, (batch, num_agents))
