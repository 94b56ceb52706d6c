"""Multi-head retention with weights, on top of the parameter-free forms in ops."""

import functools
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.nn.initializers import normal
from jaxtyping import Array, Bool, Float

from oryx_marl.networks.layers import Dense, side_by_side
from oryx_marl.ops.retention import NORM_EPSILON, Layout, end_state, has_kernel, retention

States = Float[Array, "*B H K K"] | None
"""What is remembered of each sequence; None: nothing is, and nothing shall be."""


class Context(NamedTuple):
    """What every retention of one pass shares."""

    decays: Float[Array, " H"]
    reset: Bool[Array, "*B T"]
    agent_mask: Bool[Array, "*B T N"]
    ends_here: bool = False
    """Nobody asks for the state after the last step."""


class HeadNorm(eqx.Module):
    """Zero mean and unit variance within each head, then scaled and shifted."""

    scale: Float[Array, "H K"]
    shift: Float[Array, "H K"]

    def __init__(self, num_heads: int, head_width: int) -> None:
        self.scale = jnp.ones((num_heads, head_width))
        self.shift = jnp.zeros((num_heads, head_width))

    def __call__(self, x: Float[Array, "*batch H K"]) -> Float[Array, "*batch H K"]:
        centred = x - x.mean(axis=-1, keepdims=True)
        variance = jnp.mean(centred**2, axis=-1, keepdims=True)
        return centred * jax.lax.rsqrt(variance + NORM_EPSILON) * self.scale + self.shift


def _split_heads(
    sources: tuple[Float[Array, "T N _"], ...], norm: HeadNorm
) -> list[Float[Array, "T N C H K"]]:
    """Products of the inputs by column and head, in the dtype of the weights."""
    wide = (x.astype(norm.scale.dtype) for x in sources)
    return [x.reshape(*x.shape[:2], -1, *norm.scale.shape) for x in wide]


def mix(
    layout: Layout,
    sources: tuple[Float[Array, "T N _"], ...],
    state: Float[Array, "H K K"] | None,
    reset: Bool[Array, " T"],
    agent_mask: Bool[Array, "T N"],
    decays: Float[Array, " H"],
    norm: HeadNorm,
) -> tuple[Float[Array, "T N D"], Float[Array, "H K K"] | None]:
    """swish(G) · norm(retention(Q, K, V)) of one sequence, computed in the dtype of the weights."""
    dtype = sources[0].dtype
    split = _split_heads(sources, norm)
    q, k, v, gate = (split[source][:, :, column] for source, column in layout.columns)

    def one_head(
        q: Array, k: Array, v: Array, decay: Array, state: Array | None
    ) -> tuple[Array, Array | None]:
        return retention(
            q,
            k,
            v,
            decay=decay,
            reset=reset,
            agent_mask=agent_mask,
            state=state,
            causal=layout.causal,
        )

    over_heads = jax.vmap(one_head, in_axes=(2, 2, 2, 0, 0), out_axes=(2, 0))
    y, state = over_heads(q, k, v, decays, state)
    return (jax.nn.swish(gate) * norm(y)).reshape(*agent_mask.shape, -1).astype(dtype), state


def _with_end_state(layout: Layout, kernel: Callable[..., Any], ends_here: bool) -> Callable:
    """The kernel, which gives no state, and beside it the state after the last step if needed."""

    def one(
        sources: tuple[Array, ...],
        state: Array | None,
        reset: Array,
        agent_mask: Array,
        decays: Array,
        norm: HeadNorm,
    ) -> tuple[Array, Array | None]:
        y, _ = kernel(sources, state, reset, agent_mask, decays, norm)
        if state is None or ends_here:
            return y, None
        split = _split_heads(sources, norm)
        k, v = (split[source][:, :, column] for source, column in layout.columns[1:3])
        over_heads = jax.vmap(end_state, in_axes=(2, 2, 0, None, None, 0))
        return y, over_heads(k, v, decays, reset, agent_mask, state)

    return one


class MultiHeadRetention(eqx.Module):
    """(swish(G) · norm(retention(Q, K, V))) W_o, with Q, K, V and G products of the inputs.

    Weights of the same input stand side by side, so that their products are one.
    """

    on_queries: Dense | None
    """Of Q, and G if queries gate; None where the queries are the tokens themselves."""
    on_tokens: Dense
    """Of all others."""
    out: Dense
    norm: HeadNorm
    num_heads: int = eqx.field(static=True)
    causal: bool = eqx.field(static=True)

    def __init__(
        self,
        key: Array,
        width: int,
        num_heads: int,
        causal: bool,
        gate_stream: Literal["query", "key"] | None = None,
    ) -> None:
        """`gate_stream` says which of two inputs gates; without one there is a single input."""
        query, key_, value, gate, self.out = (
            Dense(k, width, width, normal(1 / width)) for k in jax.random.split(key, 5)
        )
        if gate_stream is None:
            self.on_queries, self.on_tokens = None, side_by_side(query, key_, value, gate)
        elif gate_stream == "query":
            self.on_queries, self.on_tokens = side_by_side(query, gate), side_by_side(key_, value)
        else:
            self.on_queries, self.on_tokens = query, side_by_side(key_, value, gate)
        self.norm = HeadNorm(num_heads, width // num_heads)
        self.num_heads = num_heads
        self.causal = causal

    def __call__(
        self,
        queries: Float[Array, "*B T N D"],
        tokens: Float[Array, "*B T N D"],
        context: Context,
        state: States,
    ) -> tuple[Float[Array, "*B T N D"], States]:
        """Mixed features and the state after the last step; `tokens` give keys and values.

        Without a state nothing is remembered from before. None is returned then, nor where the
        sequence ends here.
        """
        sources, columns = self._project(queries, tokens)
        num_steps, num_agents, width = queries.shape[-3:]
        layout = Layout(columns, num_agents, self.num_heads, self.causal)
        one: Callable[..., tuple[Array, States]] = functools.partial(mix, layout)
        ends_here = state is None or context.ends_here
        head_width = width // self.num_heads
        if has_kernel(num_steps, head_width):
            # Imported here since they need parts of Pallas.
            from oryx_marl.ops.retention_fit import fit
            from oryx_marl.ops.retention_kernel import gated_retention

            has_state, dtype = state is not None, sources[0].dtype
            if fitted := fit(layout, num_steps, head_width, dtype, has_state):
                one = _with_end_state(layout, functools.partial(gated_retention, fitted), ends_here)
        for _ in range(queries.ndim - 3):
            one = jax.vmap(one, in_axes=(0, 0, 0, 0, None, None))
        y, state = one(sources, state, context.reset, context.agent_mask, context.decays, self.norm)
        return self.out(y), None if ends_here else state

    def _project(
        self, queries: Array, tokens: Array
    ) -> tuple[tuple[Array, ...], tuple[tuple[int, int], ...]]:
        """Products of the inputs, and where Q, K, V and G stand in them."""
        on_tokens = self.on_tokens(tokens)
        if self.on_queries is None:
            return (on_tokens,), ((0, 0), (0, 1), (0, 2), (0, 3))
        on_queries, width = self.on_queries(queries), queries.shape[-1]
        gated = (0, 1) if on_queries.shape[-1] > width else (1, 2)
        return (on_queries, on_tokens), ((0, 0), (1, 0), (1, 1), gated)
