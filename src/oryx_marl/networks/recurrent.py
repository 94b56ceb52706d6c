"""A recurrent network that sees one agent at a time; all agents share its weights."""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.nn.initializers import lecun_normal
from jaxtyping import Array, Bool, Float, Num

from oryx_marl.errors import OryxError
from oryx_marl.networks.layers import Dense
from oryx_marl.types import Observation, Spec


@dataclass(frozen=True)
class RecurrentConfig:
    """Size of the recurrent network."""

    linear_width: int = 64
    """Features before the memory."""
    recurrent_width: int = 64
    """Features of the memory."""

    def __post_init__(self) -> None:
        if min(self.linear_width, self.recurrent_width) < 1:
            raise OryxError("linear_width and recurrent_width must be at least 1")


class RecurrentNetwork(eqx.Module):
    """Dense, ReLU, GRU, ReLU, Dense over the features with the agent's one-hot id in front."""

    encoder: Dense
    cell: eqx.nn.GRUCell
    out: Dense
    num_agents: int = eqx.field(static=True)

    def __init__(self, key: Array, spec: Spec, config: RecurrentConfig, outputs: int) -> None:
        keys = jax.random.split(key, 3)
        init, width = lecun_normal(), config.recurrent_width
        self.num_agents = spec.num_agents
        inputs = spec.num_agents + spec.observation_size
        self.encoder = Dense(keys[0], inputs, config.linear_width, init, use_bias=True)
        self.cell = eqx.nn.GRUCell(config.linear_width, width, key=keys[1])
        self.out = Dense(keys[2], width, outputs, init, use_bias=True)

    def init_memory(self) -> Float[Array, "N W"]:
        """Memory at the start of an episode."""
        return jnp.zeros((self.num_agents, self.cell.hidden_size))

    def __call__(self, observation: Observation) -> Float[Array, "T N K"]:
        """Outputs for a logged sequence; memory begins empty and is emptied at resets."""
        _, memories = jax.lax.scan(
            lambda memory, inputs: self._remember(memory, inputs),  # a method cannot be hashed
            self.init_memory(),
            (self._encode(observation.features), observation.reset),
        )
        return self.out(jax.nn.relu(memories))

    def step(
        self, memory: Float[Array, "N W"], observation: Observation
    ) -> tuple[Float[Array, "N W"], Float[Array, "N K"]]:
        """Outputs for one step, and the memory after it."""
        memory, _ = self._remember(memory, (self._encode(observation.features), observation.reset))
        return memory, self.out(jax.nn.relu(memory))

    def _encode(self, features: Num[Array, "*T N O"]) -> Float[Array, "*T N H"]:
        ids = jnp.broadcast_to(jnp.eye(self.num_agents), (*features.shape[:-1], self.num_agents))
        inputs = jnp.concatenate([ids, features.astype(ids.dtype)], axis=-1)
        return jax.nn.relu(self.encoder(inputs))

    def _remember(
        self,
        memory: Float[Array, "N W"],
        inputs: tuple[Float[Array, "N H"], Bool[Array, ""]],
    ) -> tuple[Float[Array, "N W"], Float[Array, "N W"]]:
        encoded, reset = inputs
        memory = jax.vmap(self.cell)(encoded, jnp.where(reset, 0, memory))
        return memory, memory
