"""From what an agent sees, and who it is, to features."""

from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.nn.initializers import normal, orthogonal
from jaxtyping import Array, Float, Int, Num

from oryx_marl.networks.layers import Dense
from oryx_marl.types import Spec

AgentId = Literal["onehot", "embedding", "none"]


class ObservationEncoder(eqx.Module):
    """Norm, Dense, GELU over the features with the agent's one-hot id in front.

    The one-hot id is never built: its part of the product is a row of the weights.
    """

    scale: Float[Array, " O"]
    dense: Dense
    id_scale: Float[Array, " N"] | None
    id_rows: Float[Array, "N D"] | None
    one_hot: bool = eqx.field(static=True)

    def __init__(self, key: Array, spec: Spec, width: int, agent_id: AgentId) -> None:
        num_agents, num_features = spec.num_agents, spec.observation_size
        weight_key, id_key = jax.random.split(key)
        self.one_hot = agent_id == "onehot"
        num_inputs = num_features + (num_agents if self.one_hot else 0)
        dense = Dense(weight_key, num_inputs, width, orthogonal(2**0.5))
        rows = normal(0.02)(id_key, (num_agents, width), jnp.float32)
        self.id_scale = jnp.ones(num_agents) if self.one_hot else None
        self.id_rows = {"onehot": dense.weight[:num_agents], "embedding": rows, "none": None}[
            agent_id
        ]
        self.dense = eqx.tree_at(lambda d: d.weight, dense, dense.weight[-num_features:])
        self.scale = jnp.ones(num_features)

    def __call__(
        self, features: Num[Array, "*B T N O"], ids: Int[Array, " N"]
    ) -> Float[Array, "*B T N D"]:
        features = features.astype(self.dense.weight.dtype)
        squares = jnp.sum(features**2, axis=-1, keepdims=True)
        count = features.shape[-1]
        if self.id_scale is not None:
            squares, count = squares + 1, count + len(self.id_scale)
        shrink = jax.lax.rsqrt(squares / count + 1e-6)
        y = self.dense(features * shrink * self.scale)
        if self.id_rows is not None:
            # Not a lookup: its gradient would be a scatter.
            who = jax.nn.one_hot(ids, len(self.id_rows), dtype=y.dtype)
            if self.id_scale is None:
                y = y + who @ self.id_rows
            else:
                y = y + shrink * (who @ (self.id_scale[:, None] * self.id_rows))
        return jax.nn.gelu(y)
