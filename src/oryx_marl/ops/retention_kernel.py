"""Gated retention of all heads as one GPU kernel forward and one backward (Pallas on Triton).

Computes `swish(G) · norm(retention(Q, K, V))` as ops/retention.py defines it, from products that
stand side by side, without a copy of any of them: every feature is read once and written once. One
program does one head of one sequence. It walks over chunks of whole steps, attends inside a chunk
and carries the state from chunk to chunk; backward it walks the other way, and what happens inside
a chunk is left to automatic differentiation.
"""

import functools
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plgpu
from jaxtyping import Array, Bool, Float

from oryx_marl.ops.retention import MAX_CHUNK, NORM_EPSILON, Layout


class Chunks(NamedTuple):
    """How a sequence is cut."""

    steps: int
    tokens: int
    padded: int
    number: int


def cut(num_steps: int, num_agents: int) -> Chunks:
    """As many whole steps in a chunk as fit."""
    steps = min(num_steps, MAX_CHUNK // num_agents)
    tokens = steps * num_agents
    padded = max(16, pl.next_power_of_2(tokens))
    return Chunks(steps, tokens, padded, pl.cdiv(num_steps, steps))


class Norm(Protocol):
    """Scale and shift of a norm within each head."""

    scale: Float[Array, "H K"]
    shift: Float[Array, "H K"]


def gated_retention(
    layout: Layout,
    sources: tuple[Float[Array, "T N _"], ...],
    state: Float[Array, "H K K"],
    reset: Bool[Array, " T"],
    present: Bool[Array, "T N"],
    decays: Float[Array, " H"],
    norm: Norm,
) -> tuple[Float[Array, "T N D"], Float[Array, "H K K"]]:
    """Outputs of one sequence and the state after its last step."""
    num_steps, num_agents = present.shape
    chunks = cut(num_steps, num_agents)
    episode = jnp.broadcast_to(jnp.cumsum(reset)[:, None], present.shape).astype(jnp.int32)
    keyed = jnp.where(present, episode, -1)
    # Without a GPU, a slice that ends beyond the array is moved, not cut: so it never does.
    spare = chunks.padded if layout.interpret else 0
    flat = tuple(_pad(x.reshape(num_steps * num_agents, -1), spare) for x in sources)
    episode, keyed = (_pad(x.reshape(-1), spare, -1) for x in (episode, keyed))
    rest = (norm.scale, norm.shift, state, jnp.log(decays), episode, keyed)
    y, after = _mix(layout, chunks, num_steps, flat, *rest)
    return y[: num_steps * num_agents].reshape(num_steps, num_agents, -1), after


def _pad(x: Array, rows: int, value: int = 0) -> Array:
    return jnp.pad(x, ((0, rows), *((0, 0),) * (x.ndim - 1)), constant_values=value)


def _one_chunk(
    state: Array,
    parts: tuple[Array, Array, Array, Array],
    scale: Array,
    shift: Array,
    weights: tuple[Array, Array, Array, Array],
) -> tuple[Array, Array]:
    """The state after a chunk and its outputs [P, K]."""
    q, k, v, g = parts
    between, from_start, to_end, through = weights
    scores = plgpu.dot(q, k, trans_b=True) * between
    y = plgpu.dot(scores, v) + plgpu.dot(q * from_start[:, None], state)
    after = through * state + plgpu.dot(k * to_end[:, None], v, trans_a=True)
    mean = jnp.sum(y, axis=1) / y.shape[1]
    centred = y - mean[:, None]
    variance = jnp.sum(centred * centred, axis=1) / y.shape[1]
    normed = centred * jax.lax.rsqrt(variance + NORM_EPSILON)[:, None]
    return after, g * jax.nn.sigmoid(g) * (normed * scale[None, :] + shift[None, :])


class _Walk:
    """What both kernels do at each chunk: find its tokens and how they see each other."""

    def __init__(self, layout: Layout, chunks: Chunks, num_steps: int, refs: tuple) -> None:
        self.layout, self.chunks, self.num_tokens = layout, chunks, num_steps * layout.num_agents
        self.sources, self.log_decay, self.episode, self.keyed = refs
        self.head = pl.program_id(0)

    def rows(self, chunk: Array) -> tuple[Array, Array]:
        """First token of the chunk, and which of the padded ones are its own."""
        start, order = chunk * self.chunks.tokens, jnp.arange(self.chunks.padded)
        return start, (order < self.chunks.tokens) & (start + order < self.num_tokens)

    def place(self, column: int, head_width: int) -> Any:
        width = self.layout.num_heads * head_width
        return pl.ds(column * width + self.head * head_width, head_width)

    def read(self, ref: Any, column: int, head_width: int, chunk: Array) -> Array:
        """Features of this head [P, K]."""
        start, inside = self.rows(chunk)
        mask = jnp.broadcast_to(inside[:, None], (self.chunks.padded, head_width))
        at = ref.at[pl.ds(start, self.chunks.padded), self.place(column, head_width)]
        return plgpu.load(at, mask=mask, other=0.0)

    def write(self, ref: Any, column: int, value: Array, chunk: Array) -> None:
        start, inside = self.rows(chunk)
        mask = jnp.broadcast_to(inside[:, None], value.shape)
        at = ref.at[pl.ds(start, self.chunks.padded), self.place(column, value.shape[1])]
        plgpu.store(at, value, mask=mask)

    def parts(self, head_width: int, chunk: Array) -> tuple[Array, ...]:
        """Q, K, V, G."""
        return tuple(
            self.read(self.sources[source], column, head_width, chunk)
            for source, column in self.layout.columns
        )

    def weights(self, chunk: Array) -> tuple[Array, Array, Array, Array]:
        """Decays between tokens, from the state before, to the state after, and of the state."""
        start, inside = self.rows(chunk)
        rows = pl.ds(start, self.chunks.padded)
        episode = plgpu.load(self.episode.at[rows], mask=inside, other=-2)
        keyed = plgpu.load(self.keyed.at[rows], mask=inside, other=-1)
        order = jnp.arange(self.chunks.padded)
        step = order // self.layout.num_agents
        log_decay = plgpu.load(self.log_decay.at[self.head])
        elapsed = step[:, None] - step[None, :]
        seen = elapsed >= 0
        if self.layout.causal:
            seen = order[:, None] >= order[None, :]
        linked = seen & (episode[:, None] == keyed[None, :])
        between = jnp.where(linked, jnp.exp(log_decay * elapsed.astype(jnp.float32)), 0.0)
        last_token = jnp.minimum(start + self.chunks.tokens, self.num_tokens) - 1
        last_episode = plgpu.load(self.episode.at[last_token])
        before = plgpu.load(self.episode.at[jnp.maximum(start - 1, 0)])
        before = jnp.where(start > 0, before, 0)  # the state that is handed in belongs to episode 0
        last_step = (last_token - start) // self.layout.num_agents
        since = jnp.exp(log_decay * (step + 1).astype(jnp.float32))
        until = jnp.exp(log_decay * (last_step - step).astype(jnp.float32))
        through = jnp.exp(log_decay * (last_step + 1).astype(jnp.float32))
        return (
            between,
            jnp.where(episode == before, since, 0.0),
            jnp.where(keyed == last_episode, until, 0.0),
            jnp.where(last_episode == before, through, 0.0),
        )


def _forward_kernel(layout: Layout, chunks: Chunks, num_steps: int, *refs: Any) -> None:
    """Outputs, and the state before each chunk and after the last."""
    count = 1 + max(source for source, _ in layout.columns)
    sources, rest = refs[:count], refs[count:]
    scale, shift, state, log_decay, episode, keyed, out, states = rest
    walk = _Walk(layout, chunks, num_steps, (sources, log_decay, episode, keyed))
    head, width = walk.head, state.shape[-1]
    scale, shift = plgpu.load(scale.at[head]), plgpu.load(shift.at[head])

    def one_chunk(chunk: Array, state: Array) -> Array:
        plgpu.store(states.at[head, chunk], state)
        parts = walk.parts(width, chunk)
        state, y = _one_chunk(state, parts, scale, shift, walk.weights(chunk))  # type: ignore[arg-type]
        walk.write(out, 0, y, chunk)
        return state

    last = jax.lax.fori_loop(0, chunks.number, one_chunk, plgpu.load(state.at[head]))
    plgpu.store(states.at[head, jnp.int32(chunks.number)], last)


def _backward_kernel(layout: Layout, chunks: Chunks, num_steps: int, *refs: Any) -> None:
    """Gradients of the sources, of scale and shift, and of the state before the first step."""
    count = 1 + max(source for source, _ in layout.columns)
    sources, rest = refs[:count], refs[count:]
    scale, shift, log_decay, episode, keyed, states, wanted, wanted_state = rest[:8]
    for_sources, (for_scale, for_shift, for_state) = rest[8:-3], rest[-3:]
    walk = _Walk(layout, chunks, num_steps, (sources, log_decay, episode, keyed))
    head, width = walk.head, states.shape[-1]
    scale, shift = plgpu.load(scale.at[head]), plgpu.load(shift.at[head])

    def one_chunk(number: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        chunk = chunks.number - 1 - number
        for_state, for_scale, for_shift = carry
        state, weights = plgpu.load(states.at[head, chunk]), walk.weights(chunk)
        _, pull = jax.vjp(
            lambda state, parts, scale, shift: _one_chunk(state, parts, scale, shift, weights),
            state,
            walk.parts(width, chunk),
            scale,
            shift,
        )
        change = walk.read(wanted, 0, width, chunk)
        for_state, for_parts, more_scale, more_shift = pull((for_state, change))
        for (source, column), value in zip(layout.columns, for_parts, strict=True):
            walk.write(for_sources[source], column, value, chunk)
        return for_state, for_scale + more_scale, for_shift + more_shift

    start = (plgpu.load(wanted_state.at[head]), jnp.zeros_like(scale), jnp.zeros_like(shift))
    found = jax.lax.fori_loop(0, chunks.number, one_chunk, start)
    for ref, value in zip((for_state, for_scale, for_shift), found, strict=True):
        plgpu.store(ref.at[head], value)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1, 2))
def _mix(layout: Layout, chunks: Chunks, num_steps: int, *arguments: Any) -> tuple[Array, Array]:
    return _mix_forward(layout, chunks, num_steps, *arguments)[0]


def _mix_forward(
    layout: Layout,
    chunks: Chunks,
    num_steps: int,
    sources: tuple[Array, ...],
    scale: Array,
    shift: Array,
    state: Array,
    log_decay: Array,
    episode: Array,
    keyed: Array,
) -> tuple[tuple[Array, Array], tuple]:
    rows, (heads, width, _) = len(sources[0]), state.shape
    call = pl.pallas_call(
        functools.partial(_forward_kernel, layout, chunks, num_steps),
        grid=(heads,),
        out_shape=(
            jax.ShapeDtypeStruct((rows, heads * width), state.dtype),
            jax.ShapeDtypeStruct((heads, chunks.number + 1, width, width), state.dtype),
        ),
        compiler_params=plgpu.CompilerParams(num_warps=4, num_stages=2),
        interpret=layout.interpret,
        name="gated_retention",
    )
    y, states = call(*sources, scale, shift, state, log_decay, episode, keyed)
    kept = (sources, scale, shift, log_decay, episode, keyed, states)
    return (y, states[:, -1]), kept


def _mix_backward(
    layout: Layout, chunks: Chunks, num_steps: int, kept: tuple, wanted: tuple[Array, Array]
) -> tuple:
    sources, scale, shift, log_decay, episode, keyed, states = kept
    heads = len(states)
    like = (*sources, scale, shift, states[:, 0])
    call = pl.pallas_call(
        functools.partial(_backward_kernel, layout, chunks, num_steps),
        grid=(heads,),
        out_shape=tuple(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in like),
        compiler_params=plgpu.CompilerParams(num_warps=4, num_stages=2),
        interpret=layout.interpret,
        name="gated_retention_backward",
    )
    found = call(*sources, scale, shift, log_decay, episode, keyed, states, *wanted)
    *for_sources, for_scale, for_shift, for_state = found
    if layout.interpret:  # spare rows were written by nobody
        real = jnp.arange(len(sources[0])) < num_steps * layout.num_agents
        for_sources = [jnp.where(real[:, None], x, 0) for x in for_sources]
    return tuple(for_sources), for_scale, for_shift, for_state, None, None, None


_mix.defvjp(_mix_forward, _mix_backward)
