"""Multi-head retention with weights, on top of the parameter-free forms in ops."""

from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.nn.initializers import normal
from jaxtyping import Array, Bool, Float

from oryx_marl.networks.layers import Dense
from oryx_marl.ops.retention import retention


class Context(NamedTuple):
    """What every retention of one pass shares."""

    decays: Float[Array, " H"]
    reset: Bool[Array, " T"]
    present: Bool[Array, "T N"]


class HeadNorm(eqx.Module):
    """Zero mean and unit variance within each head, then scaled and shifted."""

    scale: Float[Array, "H K"]
    shift: Float[Array, "H K"]
    epsilon: float = eqx.field(static=True, default=1e-6)

    def __init__(self, num_heads: int, head_width: int) -> None:
        self.scale = jnp.ones((num_heads, head_width))
        self.shift = jnp.zeros((num_heads, head_width))

    def __call__(self, x: Float[Array, "*batch H K"]) -> Float[Array, "*batch H K"]:
        centred = x - x.mean(axis=-1, keepdims=True)
        variance = jnp.mean(centred**2, axis=-1, keepdims=True)
        return centred * jax.lax.rsqrt(variance + self.epsilon) * self.scale + self.shift


class MultiHeadRetention(eqx.Module):
    """(swish(G W_g) · norm(retention(Q W_q, X W_k, X W_v))) W_o."""

    query: Dense
    key: Dense
    value: Dense
    gate: Dense
    out: Dense
    norm: HeadNorm
    num_heads: int = eqx.field(static=True)
    causal: bool = eqx.field(static=True)
    gate_stream: Literal["query", "key"] = eqx.field(static=True)

    def __init__(
        self,
        key: Array,
        width: int,
        num_heads: int,
        causal: bool,
        gate_stream: Literal["query", "key"],
    ) -> None:
        keys = jax.random.split(key, 5)
        self.query, self.key, self.value, self.gate, self.out = (
            Dense(k, width, width, normal(1 / width)) for k in keys
        )
        self.norm = HeadNorm(num_heads, width // num_heads)
        self.num_heads = num_heads
        self.causal = causal
        self.gate_stream = gate_stream

    def __call__(
        self,
        queries: Float[Array, "T N D"],
        tokens: Float[Array, "T N D"],
        context: Context,
        state: Float[Array, "H K K"],
    ) -> tuple[Float[Array, "T N D"], Float[Array, "H K K"]]:
        """Mixed features and the state after the last step; `tokens` give keys and values."""

        def one_head(
            q: Array, k: Array, v: Array, decay: Array, state: Array
        ) -> tuple[Array, Array]:
            return retention(
                q,
                k,
                v,
                decay=decay,
                reset=context.reset,
                present=context.present,
                state=state,
                causal=self.causal,
            )

        q, k, v = (
            self._split(x) for x in (self.query(queries), self.key(tokens), self.value(tokens))
        )
        over_heads = jax.vmap(one_head, in_axes=(2, 2, 2, 0, 0), out_axes=(2, 0))
        y, state = over_heads(q, k, v, context.decays, state)
        gate = jax.nn.swish(self.gate(queries if self.gate_stream == "query" else tokens))
        return self.out(gate * self.norm(y).reshape(queries.shape)), state

    def _split(self, x: Float[Array, "T N D"]) -> Float[Array, "T N H K"]:
        return x.reshape(*x.shape[:-1], self.num_heads, -1)
