"""Agents that each act by themselves on a recurrent network with shared weights."""

import abc
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from oryx_marl.algorithms._recurrent import RecurrentConfig, RecurrentLearner
from oryx_marl.algorithms.base import Metrics, Policy
from oryx_marl.networks import recurrent
from oryx_marl.networks.heads import family
from oryx_marl.networks.recurrent import RecurrentNetwork, run_together
from oryx_marl.ops.distributions import Distribution
from oryx_marl.types import Observation, Window


@dataclass(frozen=True)
class IndependentConfig(RecurrentConfig):
    """Settings that all learners on the recurrent network have."""

    network: recurrent.RecurrentConfig = field(default_factory=recurrent.RecurrentConfig)


@dataclass(frozen=True)
class IndependentLearner(RecurrentLearner):
    """Its actor's outputs are those of a distribution; nobody knows what the others choose."""

    @abc.abstractmethod
    def networks(self, network: Any, target: Any) -> tuple[RecurrentNetwork, ...]:
        """The recurrent networks that the loss needs, all of one shape."""

    @abc.abstractmethod
    def outputs_loss(
        self, network: Any, target: Any, outputs: Float[Array, "M B T N K"], window: Window
    ) -> tuple[Float[Array, ""], Metrics]:
        """The loss, given what each of `networks` says of all agents and steps."""

    def actor(self, weights: Any) -> RecurrentNetwork:
        """The network that acts."""
        return weights

    def init_carry(self, network: Any, target: Any) -> Float[Array, "M N W"]:
        return jnp.stack([each.init_state() for each in self.networks(network, target)])

    def sequence_loss(
        self, network: Any, target: Any, window: Window, carry: Any, key: Array
    ) -> tuple[Float[Array, ""], tuple[Metrics, Any]]:
        networks, seen = self.networks(network, target), window.observation
        hidden = jnp.moveaxis(self.empty_carry(network, target, len(seen.reset)), 1, 0)
        if carry is not None:
            hidden = jnp.moveaxis(carry, 1, 0)
        outputs, hidden = run_together(networks, seen, hidden)
        total, metrics = self.outputs_loss(network, target, outputs, window)
        return total, (metrics, None if carry is None else jnp.moveaxis(hidden, 0, 1))

    def distribution(
        self, weights: Any, window: Window, carry: Any = None
    ) -> tuple[Distribution, Any]:
        network, seen = self.actor(weights), window.observation
        if carry is None:
            outputs = network(seen)
        else:
            outputs, carry = network.resume(seen, carry)
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
