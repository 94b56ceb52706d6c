"""What the retention kernels do at each chunk of tokens: find it, weigh it, gate its outputs."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plgpu
from jaxtyping import Array

from oryx_marl.ops.retention import MAX_CHUNK, NORM_EPSILON, Layout

Q, K, V, G = range(4)


class Chunks(NamedTuple):
    """How a sequence is cut."""

    tokens: int
    padded: int
    number: int
    per_step: int = 0
    """Chunks that make up a step; 0 where they do not stop at its end."""
    begins_with_state: bool = False

    @property
    def has_states(self) -> bool:
        """Whether there is more to be seen than the tokens of one chunk."""
        return self.number > 1 or self.per_step > 0 or self.begins_with_state


def cut(num_steps: int, num_agents: int, causal: bool, most: int = MAX_CHUNK) -> Chunks:
    """Tokens of any steps where only earlier ones are seen; else whole steps, or of one step each
    if no two fit into a chunk. None has more than `most` tokens."""
    per_step = 0
    if causal:
        tokens = min(most, num_steps * num_agents)
    elif 2 * num_agents <= most:
        tokens = min(num_steps, most // num_agents) * num_agents
    else:
        tokens = min(most, num_agents)
        per_step = pl.cdiv(num_agents, tokens)
    number = num_steps * per_step or pl.cdiv(num_steps * num_agents, tokens)
    return Chunks(tokens, max(16, pl.next_power_of_2(tokens)), number, per_step)


class Weights(NamedTuple):
    """Decays between tokens, from the state before, to the state after, and of the state."""

    between: Array
    from_start: Array
    to_end: Array
    through: Array


class Walk:
    """What both kernels do at each chunk: find its tokens and how they see each other."""

    def __init__(self, layout: Layout, chunks: Chunks, num_steps: int, refs: tuple) -> None:
        self.layout, self.chunks, self.num_tokens = layout, chunks, num_steps * layout.num_agents
        self.sources, self.log_decay, self.episode, self.keyed = refs
        self.head = pl.program_id(0)

    def rows(self, chunk: Array) -> tuple[Array, Array]:
        """First token of the chunk, and which of the padded ones are its own."""
        per_step, num_agents = self.chunks.per_step, self.layout.num_agents
        start, end = chunk * self.chunks.tokens, jnp.int32(self.num_tokens)
        if per_step:
            step = chunk // per_step
            start = step * num_agents + (chunk - step * per_step) * self.chunks.tokens
            end = (step + 1) * num_agents
        order = jnp.arange(self.chunks.padded)
        return start, (order < self.chunks.tokens) & (start + order < end)

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
        plgpu.store(at, value.astype(ref.dtype), mask=mask)

    def part(self, number: int, head_width: int, chunk: Array) -> Array:
        """Q, K, V or G of this head [P, K], by number."""
        source, column = self.layout.columns[number]
        return self.read(self.sources[source], column, head_width, chunk)

    def weights(self, chunk: Array) -> Weights:
        """How tokens of a chunk see each other and the states."""
        start, inside = self.rows(chunk)
        rows = pl.ds(start, self.chunks.padded)
        episode = plgpu.load(self.episode.at[rows], mask=inside, other=-2)
        keyed = plgpu.load(self.keyed.at[rows], mask=inside, other=-1)
        order = jnp.arange(self.chunks.padded)
        step = (start + order) // self.layout.num_agents
        last_token = jnp.minimum(start + self.chunks.tokens, self.num_tokens) - 1
        last_step, last_episode = self.when(last_token)
        step_before, before = self.when_before(start)
        seen = step[:, None] >= step[None, :]
        if self.layout.causal:
            seen = order[:, None] >= order[None, :]
        linked = seen & (episode[:, None] == keyed[None, :])
        between = jnp.where(linked, self.decay(step[:, None] - step[None, :]), 0.0)
        return Weights(
            between,
            jnp.where(episode == before, self.decay(step - step_before), 0.0),
            jnp.where(keyed == last_episode, self.decay(last_step - step), 0.0),
            jnp.where(last_episode == before, self.decay(last_step - step_before), 0.0),
        )

    def when(self, token: Array) -> tuple[Array, Array]:
        """Step and episode of a token."""
        return token // self.layout.num_agents, plgpu.load(self.episode.at[token])

    def when_before(self, token: Array) -> tuple[Array, Array]:
        """Step and episode of the token before; the first follows step -1 of episode 0."""
        num_agents, follows = self.layout.num_agents, jnp.minimum(token, 1)
        _, episode = self.when(token - follows)
        return (token + num_agents - 1) // num_agents - 1, follows * episode

    def decay(self, steps: Array) -> Array:
        """How much of this head's memory survives so many steps."""
        return jnp.exp(plgpu.load(self.log_decay.at[self.head]) * steps.astype(jnp.float32))

    def kept(self, step: Array) -> Array:
        """How much of the state before a step is left in it."""
        first = step * self.layout.num_agents
        (_, episode), (_, before) = self.when(first), self.when_before(first)
        return jnp.where(episode == before, self.decay(jnp.int32(1)), 0.0)

    def chunks_of(self, step: Array) -> tuple[Array, Array]:
        """The first chunk of a step, and the one after its last."""
        return step * self.chunks.per_step, (step + 1) * self.chunks.per_step

    def where_present(self, values: Array, chunk: Array) -> Array:
        """The same [P, K], 0 for agents that are absent."""
        start, inside = self.rows(chunk)
        rows = pl.ds(start, self.chunks.padded)
        keyed = plgpu.load(self.keyed.at[rows], mask=inside, other=-1)
        return jnp.where((keyed >= 0)[:, None], values, jnp.zeros_like(values))

    def give(self, for_sources: Any, number: int, value: Array, chunk: Array) -> None:
        """Writes the gradient of Q, K, V or G."""
        source, column = self.layout.columns[number]
        self.write(for_sources[source], column, value, chunk)


def _normalise(y: Array) -> tuple[Array, Array]:
    """Zero mean and unit variance in each row, and what the rows were divided by, inverted."""
    centred = y - (jnp.sum(y, axis=1) / y.shape[1])[:, None]
    inverse = jax.lax.rsqrt(jnp.sum(centred * centred, axis=1) / y.shape[1] + NORM_EPSILON)
    return centred * inverse[:, None], inverse


class Gate:
    """swish(G) · norm(y) of a chunk, forward and backward."""

    def __init__(self, walk: Walk, scale: Any, shift: Any) -> None:
        self.walk, self.width = walk, scale.shape[-1]
        self.scale, self.shift = (plgpu.load(x.at[walk.head]) for x in (scale, shift))

    def forward(self, y: Array, out: Any, chunk: Array) -> None:
        normed, _ = _normalise(y)
        g = self.walk.part(G, self.width, chunk).astype(jnp.float32)
        value = g * jax.nn.sigmoid(g) * (normed * self.scale[None] + self.shift[None])
        self.walk.write(out, 0, value, chunk)

    def backward(
        self, y: Array, wanted: Any, for_sources: Any, chunk: Array
    ) -> tuple[Array, Array, Array]:
        """Writes the gradient of G, and returns those of y, scale and shift."""
        normed, inverse = _normalise(y)
        g = self.walk.part(G, self.width, chunk).astype(jnp.float32)
        change = self.walk.read(wanted, 0, self.width, chunk).astype(jnp.float32)
        gate = jax.nn.sigmoid(g)
        for_gate = change * (normed * self.scale[None] + self.shift[None])
        self.walk.give(for_sources, G, for_gate * gate * (1 + g * (1 - gate)), chunk)
        for_scaled = change * g * gate
        for_normed = for_scaled * self.scale[None]
        for_mean = jnp.sum(for_normed, axis=1) / self.width
        for_variance = jnp.sum(for_normed * normed, axis=1) / self.width
        for_y = for_normed - for_mean[:, None] - normed * for_variance[:, None]
        for_scale, for_shift = jnp.sum(for_scaled * normed, axis=0), jnp.sum(for_scaled, axis=0)
        return for_y * inverse[:, None], for_scale, for_shift
