"""A recurrent network that sees one agent at a time; all agents share its weights."""

from collections.abc import Sequence
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.nn.initializers import lecun_normal
from jaxtyping import Array, Float, Num

from oryx_marl.errors import OryxError
from oryx_marl.networks.layers import Dense
from oryx_marl.ops.gru import gru, step
from oryx_marl.types import Observation, Spec


@dataclass(frozen=True)
class RecurrentConfig:
    """Size of the recurrent network."""

    linear_width: int = 0
    """Features before the memory (0: 64 to 256, by the number of features and of logged steps)."""
    recurrent_width: int = 0
    """Features of the memory (0: as many)."""

    def __post_init__(self) -> None:
        for name in ("linear_width", "recurrent_width"):
            if getattr(self, name) < 0:
                raise OryxError(f"{name} must not be negative, got {getattr(self, name)}")


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

    def init_state(self) -> Float[Array, "N W"]:
        """Memory at the start of an episode."""
        return jnp.zeros((self.num_agents, self.cell.hidden_size))

    def __call__(self, observation: Observation) -> Float[Array, "B T N K"]:
        """Outputs for logged sequences; memory begins empty and is emptied at resets."""
        batch = len(observation.reset)
        start = jnp.zeros((batch, self.num_agents, self.cell.hidden_size))
        return self.resume(observation, start)[0]

    def resume(
        self, observation: Observation, hidden: Float[Array, "B N W"]
    ) -> tuple[Float[Array, "B T N K"], Float[Array, "B N W"]]:
        """The same from a memory on, and the memory after the last step."""
        features, reset = (jnp.moveaxis(x, 1, 0) for x in (observation.features, observation.reset))
        reset = jnp.broadcast_to(reset[..., None], features.shape[:-1])
        memories = gru(self._add(features), reset, hidden, *self._past())
        return jnp.moveaxis(self.out(jax.nn.relu(memories)), 0, 1), memories[-1]

    def step(
        self, hidden: Float[Array, "N W"], observation: Observation
    ) -> tuple[Float[Array, "N W"], Float[Array, "N K"]]:
        """Outputs for one step, and the memory after it."""
        hidden = jnp.where(observation.reset, 0, hidden)
        added = self._add(observation.features)
        hidden = step(added, hidden, *self._past())
        return hidden, self.out(jax.nn.relu(hidden))

    def _add(self, features: Num[Array, "*T N O"]) -> Float[Array, "*T N W3"]:
        """What the features add to the gates."""
        ids = jnp.broadcast_to(jnp.eye(self.num_agents), (*features.shape[:-1], self.num_agents))
        inputs = jnp.concatenate([ids, features.astype(ids.dtype)], axis=-1)
        assert self.cell.bias is not None
        return jax.nn.relu(self.encoder(inputs)) @ self.cell.weight_ih.T + self.cell.bias

    def _past(self) -> tuple[Float[Array, "W W3"], Float[Array, " W"]]:
        """Weight and bias of what the memory adds."""
        assert self.cell.bias_n is not None
        return self.cell.weight_hh.T, self.cell.bias_n


def run_together(
    networks: Sequence[RecurrentNetwork],
    observation: Observation,
    hidden: Float[Array, "M B N W"],
) -> tuple[Float[Array, "M B T N K"], Float[Array, "M B N W"]]:
    """Outputs of several networks of one shape: step by step once, not once for each.

    Each goes on from a memory of its own; the memories after the last step come back too.
    """
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *networks)
    return jax.vmap(lambda network, start: network.resume(observation, start))(stacked, hidden)
