"""Gated retention of all heads as one GPU kernel forward and one backward (Pallas on Triton).

Computes `swish(G) · norm(retention(Q, K, V))` as ops/retention.py defines it, from products that
stand side by side, without a copy of any of them: every feature is read once and written once. One
program does one head of one sequence. It walks over chunks of tokens, attends inside a chunk and
carries the state from chunk to chunk; backward it walks the other way. Where all agents of a step
see each other, and a chunk holds one step or a part of it, nothing is attended: a first walk over
the step adds up its state, a second one asks it.
"""

import functools
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plgpu
from jaxtyping import Array, Bool, Float

from oryx_marl.ops._retention_chunks import Chunks, Gate, K, Q, V, Walk, Weights, cut
from oryx_marl.ops.retention import Layout


@runtime_checkable
class Norm(Protocol):
    """Scale and shift of a norm within each head."""

    scale: Float[Array, "H K"]
    shift: Float[Array, "H K"]


def gated_retention(
    layout: Layout,
    sources: tuple[Float[Array, "T N _"], ...],
    state: Float[Array, "H K K"] | None,
    reset: Bool[Array, " T"],
    agent_mask: Bool[Array, "T N"],
    decays: Float[Array, " H"],
    norm: Norm,
) -> tuple[Float[Array, "T N D"], None]:
    """Outputs of one sequence; what is remembered from before takes no gradient."""
    num_steps, num_agents = agent_mask.shape
    chunks = cut(num_steps, num_agents, layout.causal, layout.max_chunk)
    chunks = chunks._replace(begins_with_state=state is not None)
    episode = jnp.broadcast_to(jnp.cumsum(reset)[:, None], agent_mask.shape).astype(jnp.int32)
    keyed = jnp.where(agent_mask, episode, -1)
    # Without a GPU, a slice that ends beyond the array is moved, not cut: so it never does.
    spare = chunks.padded if layout.interpret else 0
    flat = tuple(_pad(x.reshape(num_steps * num_agents, -1), spare) for x in sources)
    episode, keyed = (_pad(x.reshape(-1), spare, -1) for x in (episode, keyed))
    rest = [norm.scale, norm.shift, jnp.log(decays), episode, keyed]
    if state is not None:
        rest.append(jax.lax.stop_gradient(state))
    y = _mix(layout, chunks, num_steps, flat, *rest)
    return y[: num_steps * num_agents].reshape(num_steps, num_agents, -1), None


def _pad(x: Array, rows: int, value: int = 0) -> Array:
    return jnp.pad(x, ((0, rows), *((0, 0),) * (x.ndim - 1)), constant_values=value)


def _dot(dtype: Any, a: Array, b: Array, **transposed: bool) -> Array:
    """a b, summed in float32; the factors are rounded to the dtype of the features."""
    return plgpu.dot(a.astype(dtype), b.astype(dtype), **transposed)


def _outputs(
    q: Array, k: Array, v: Array, state: Array | None, weights: Weights
) -> tuple[Array, Array]:
    """Scores of a chunk [P, P] and its outputs before the norm [P, K]."""
    dtype = q.dtype
    scores = _dot(dtype, q, k, trans_b=True) * weights.between
    y = _dot(dtype, scores, v)
    if state is not None:
        y += _dot(dtype, q * weights.from_start[:, None], state)
    return scores, y


def _forward_kernel(layout: Layout, chunks: Chunks, num_steps: int, *refs: Any) -> None:
    """Outputs, and states: before each chunk where there are several, or of each step."""
    count = 1 + max(source for source, _ in layout.columns)
    sources, rest = refs[:count], refs[count:]
    scale, shift, log_decay, episode, keyed, *given = rest
    out, *states = given[chunks.begins_with_state :]
    walk = Walk(layout, chunks, num_steps, (sources, log_decay, episode, keyed))
    gate = Gate(walk, scale, shift)
    width = gate.width
    start = jnp.zeros((width, width))
    if chunks.begins_with_state:
        start = plgpu.load(given[0].at[walk.head])

    def one_chunk(chunk: Array, state: Array | None) -> Array | None:
        weights = walk.weights(chunk)
        q, k, v = (walk.part(number, width, chunk) for number in (Q, K, V))
        _, y = _outputs(q, k, v, state, weights)
        gate.forward(y, out, chunk)
        if state is None:
            return None
        plgpu.store(states[0].at[walk.head, chunk], state)
        added = _dot(k.dtype, k * weights.to_end[:, None], v, trans_a=True)
        return weights.through * state + added

    def one_step(step: Array, state: Array) -> Array:
        def add(chunk: Array, state: Array) -> Array:
            k, v = walk.where_present(walk.part(K, width, chunk), chunk), walk.part(V, width, chunk)
            return state + _dot(v.dtype, k, v, trans_a=True)

        def ask(chunk: Array, state: Array) -> Array:
            q = walk.part(Q, width, chunk)
            gate.forward(_dot(q.dtype, q, state), out, chunk)
            return state

        chunks_here = walk.chunks_of(step)
        state = jax.lax.fori_loop(*chunks_here, add, walk.kept(step) * state)
        plgpu.store(states[0].at[walk.head, step], state)
        return jax.lax.fori_loop(*chunks_here, ask, state)

    if not chunks.has_states:
        one_chunk(jnp.int32(0), None)
    elif chunks.per_step:
        jax.lax.fori_loop(0, num_steps, one_step, start)
    else:
        jax.lax.fori_loop(0, chunks.number, one_chunk, start)


def _backward_kernel(layout: Layout, chunks: Chunks, num_steps: int, *refs: Any) -> None:
    """Gradients of the sources, and of scale and shift."""
    count = 1 + max(source for source, _ in layout.columns)
    sources, for_sources = refs[:count], refs[-count - 2 : -2]
    scale, shift, log_decay, episode, keyed, *given = refs[count : -count - 2]
    wanted, *states = given[chunks.begins_with_state :]
    walk = Walk(layout, chunks, num_steps, (sources, log_decay, episode, keyed))
    gate = Gate(walk, scale, shift)
    width = gate.width

    def one_chunk(number: Array, carry: tuple) -> tuple:
        # Parts are read again after each write: fewer of them are held at a time.
        chunk = chunks.number - 1 - number
        for_after, for_scale, for_shift = carry
        weights = walk.weights(chunk)
        q, k, v = (walk.part(number, width, chunk) for number in (Q, K, V))
        dtype = q.dtype
        state = plgpu.load(states[0].at[walk.head, chunk]) if states else None
        scores, y = _outputs(q, k, v, state, weights)
        for_y, more_scale, more_shift = gate.backward(y, wanted, for_sources, chunk)

        for_v = _dot(dtype, scores, for_y, trans_a=True)
        if states:
            ended = walk.part(K, width, chunk) * weights.to_end[:, None]
            for_v += _dot(dtype, ended, for_after)
        walk.give(for_sources, V, for_v, chunk)
        v = walk.part(V, width, chunk)
        for_scores = _dot(dtype, for_y, v, trans_b=True) * weights.between
        for_k = _dot(dtype, for_scores, walk.part(Q, width, chunk), trans_a=True)
        if states:
            for_k += _dot(dtype, v, for_after, trans_b=True) * weights.to_end[:, None]
        walk.give(for_sources, K, for_k, chunk)
        for_q = _dot(dtype, for_scores, walk.part(K, width, chunk))
        if states:
            for_y *= weights.from_start[:, None]
            state = plgpu.load(states[0].at[walk.head, chunk])
            for_q += _dot(dtype, for_y, state, trans_b=True)
        walk.give(for_sources, Q, for_q, chunk)
        if states:
            more = _dot(dtype, walk.part(Q, width, chunk), for_y, trans_a=True)
            for_after = weights.through * for_after + more
        return for_after, for_scale + more_scale, for_shift + more_shift

    def one_step(number: Array, carry: tuple) -> tuple:
        step = num_steps - 1 - number
        state = plgpu.load(states[0].at[walk.head, step])

        def ask(chunk: Array, carry: tuple) -> tuple:
            for_state, for_scale, for_shift = carry
            q = walk.part(Q, width, chunk)
            y = _dot(q.dtype, q, state)
            for_y, more_scale, more_shift = gate.backward(y, wanted, for_sources, chunk)
            walk.give(for_sources, Q, _dot(q.dtype, for_y, state, trans_b=True), chunk)
            for_state += _dot(q.dtype, walk.part(Q, width, chunk), for_y, trans_a=True)
            return for_state, for_scale + more_scale, for_shift + more_shift

        def add(chunk: Array, for_state: Array) -> Array:
            k, v = walk.where_present(walk.part(K, width, chunk), chunk), walk.part(V, width, chunk)
            walk.give(for_sources, V, _dot(v.dtype, k, for_state), chunk)
            for_k = _dot(v.dtype, v, for_state, trans_b=True)
            walk.give(for_sources, K, walk.where_present(for_k, chunk), chunk)
            return for_state

        chunks_here = walk.chunks_of(step)
        for_state, for_scale, for_shift = jax.lax.fori_loop(*chunks_here, ask, carry)
        for_state = jax.lax.fori_loop(*chunks_here, add, for_state)
        return walk.kept(step) * for_state, for_scale, for_shift

    zeros, no_state = jnp.zeros_like(gate.scale), jnp.zeros((width, width))
    if not chunks.has_states:
        found = one_chunk(jnp.int32(0), (None, zeros, zeros))
    elif chunks.per_step:
        found = jax.lax.fori_loop(0, num_steps, one_step, (no_state, zeros, zeros))
    else:
        found = jax.lax.fori_loop(0, chunks.number, one_chunk, (no_state, zeros, zeros))
    for ref, value in zip(refs[-2:], found[1:], strict=True):
        plgpu.store(ref.at[walk.head], value)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1, 2))
def _mix(layout: Layout, chunks: Chunks, num_steps: int, *arguments: Any) -> Array:
    return _mix_forward(layout, chunks, num_steps, *arguments)[0]


def _mix_forward(
    layout: Layout,
    chunks: Chunks,
    num_steps: int,
    sources: tuple[Array, ...],
    scale: Array,
    shift: Array,
    *rest: Array,
) -> tuple[Array, tuple]:
    rows, (heads, width) = len(sources[0]), scale.shape
    out = [jax.ShapeDtypeStruct((rows, heads * width), sources[0].dtype)]
    if chunks.has_states:
        number = num_steps if chunks.per_step else chunks.number
        out.append(jax.ShapeDtypeStruct((heads, number, width, width), jnp.float32))
    call = _call(_forward_kernel, layout, chunks, num_steps, heads, out)
    y, *states = call(*sources, scale, shift, *rest)
    return y, (sources, scale, shift, rest, states)


def _mix_backward(
    layout: Layout, chunks: Chunks, num_steps: int, kept: tuple, wanted: Array
) -> tuple:
    sources, scale, shift, rest, states = kept
    out = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in (*sources, scale, shift)]
    call = _call(_backward_kernel, layout, chunks, num_steps, len(scale), out)
    found = call(*sources, scale, shift, *rest, wanted, *states)
    *for_sources, for_scale, for_shift = found
    if layout.interpret:  # spare rows were written by nobody
        real = jnp.arange(len(sources[0])) < num_steps * layout.num_agents
        for_sources = [jnp.where(real[:, None], x, 0) for x in for_sources]
    return tuple(for_sources), for_scale, for_shift, *(None for _ in rest)


def _call(
    kernel: Callable[..., None],
    layout: Layout,
    chunks: Chunks,
    num_steps: int,
    heads: int,
    out: list[jax.ShapeDtypeStruct],
) -> Callable[..., list[Array]]:
    return pl.pallas_call(
        functools.partial(kernel, layout, chunks, num_steps),
        grid=(heads,),
        out_shape=out,
        compiler_params=plgpu.CompilerParams(num_warps=4, num_stages=layout.num_stages),
        interpret=layout.interpret,
        name="gated_retention" + kernel.__name__.removesuffix("_kernel"),
    )


_mix.defvjp(_mix_forward, _mix_backward)
