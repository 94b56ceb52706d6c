"""The mixing network of QMIX: from every agent's Q to that of the team."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.nn.initializers import lecun_normal
from jaxtyping import Array, Float

from oryx_marl.networks.layers import Dense

Layer = Callable[[Array], Array]


class QMixer(eqx.Module):
    """Q of the team, increasing in every agent's Q, with weights drawn from the global state.

    Q_tot = elu(q |W1(s)| + b1(s)) · |w2(s)| + v(s) (Rashid et al., 2018).
    """

    first: tuple[Dense, Dense]
    first_bias: Dense
    second: tuple[Dense, Dense]
    last: tuple[Dense, Dense]
    num_agents: int = eqx.field(static=True)
    width: int = eqx.field(static=True)

    def __init__(
        self, key: Array, num_agents: int, state_size: int, width: int, hyper_width: int
    ) -> None:
        keys = iter(jax.random.split(key, 7))

        def dense(inputs: int, outputs: int) -> Dense:
            return Dense(next(keys), inputs, outputs, lecun_normal(), use_bias=True)

        self.num_agents, self.width = num_agents, width
        self.first = dense(state_size, hyper_width), dense(hyper_width, num_agents * width)
        self.first_bias = dense(state_size, width)
        self.second = dense(state_size, hyper_width), dense(hyper_width, width)
        self.last = dense(state_size, width), dense(width, 1)

    def __call__(
        self, values: Float[Array, "*T N"], state: Float[Array, "*T S"]
    ) -> Float[Array, "*T"]:
        """Q of the team."""
        first, second = self._weights(state)
        hidden = jax.nn.elu(jnp.einsum("...n,...nw->...w", values, first) + self.first_bias(state))
        return jnp.sum(hidden * second, axis=-1) + _two(self.last, state)[..., 0]

    def shares(self, state: Float[Array, "*T S"]) -> Float[Array, "*T N"]:
        """How much each agent's Q counts, summing to 1 over agents."""
        first, second = self._weights(state)
        weight = jnp.einsum("...nw,...w->...n", first, second)
        return weight / (weight.sum(axis=-1, keepdims=True) + 1e-10)

    def _weights(
        self, state: Float[Array, "*T S"]
    ) -> tuple[Float[Array, "*T N W"], Float[Array, "*T W"]]:
        first = jnp.abs(_two(self.first, state))
        shape = (*state.shape[:-1], self.num_agents, self.width)
        return first.reshape(shape), jnp.abs(_two(self.second, state))


def _two(layers: tuple[Layer, Layer], x: Array) -> Array:
    return layers[1](jax.nn.relu(layers[0](x)))
