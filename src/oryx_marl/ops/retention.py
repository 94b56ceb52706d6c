"""Retention over time and agents: one sum, four forms that compute it.

Tokens are ordered by time, then agent. For one head with decay κ per time step:

    S_t     = κ [no reset at t] S_{t-1} + Σ_j k_{t,j} v_{t,j}ᵀ       over the agents j present at t
    y_{t,i} = q_{t,i} ( κ [no reset at t] S_{t-1} + Σ_{j ∈ seen(i)} k_{t,j} v_{t,j}ᵀ )

`seen(i)` is all agents, or with `causal` the agents up to and including i. Every form takes one
sequence and one head, and returns y and the state after the last step.
"""

import os
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

Form = Literal["recurrent", "flattened", "chunked", "blockwise"]
Tokens = Float[Array, "T N K"]
State = Float[Array, "K K"]

MAX_CHUNK = 64
"""Tokens that the chunked and blockwise forms and the kernel put into one product."""


NORM_EPSILON = 1e-6
"""Added to the variance by the norm within each head."""


class Layout(NamedTuple):
    """What gated retention (networks/retention.py) is compiled for."""

    columns: tuple[tuple[int, int], ...]
    """Where Q, K, V and G stand: number of the source, and place in it."""
    num_agents: int
    num_heads: int
    causal: bool
    interpret: bool = False
    """Run the kernel without a GPU, slowly: for tests."""
    max_chunk: int = MAX_CHUNK
    """Tokens that the kernel puts into one product, at most."""
    num_stages: int = 2
    """Chunks under way at a time: with two, the next one is read while this one is computed."""


def has_kernel(num_steps: int, head_width: int) -> bool:
    """Whether ops/retention_kernel.py does these sizes here, and is not declined ($ORYX_KERNELS=0).

    It does sequences whose last state nobody asks for, as in training. Whether it also fits into
    the device's shared memory, and how, says ops/retention_fit.py.
    """
    declined = os.environ.get("ORYX_KERNELS") == "0" or jax.default_backend() != "gpu"
    return head_width in (16, 32, 64, 128) and num_steps > 1 and not declined


def retention(
    q: Tokens,
    k: Tokens,
    v: Tokens,
    *,
    decay: Float[Array, ""],
    reset: Bool[Array, "T"],
    agent_mask: Bool[Array, "T N"],
    state: State | None,
    causal: bool,
    form: Form | None = None,
) -> tuple[Tokens, State | None]:
    """Outputs and the state after the last step, in the cheapest form unless one is named.

    Without a state nothing is remembered from before, and none is returned.
    """
    k = jnp.where(agent_mask[..., None], k, 0)
    form = form or cheapest_form(*q.shape, causal=causal)
    return _FORMS[form](q, k, v, decay, reset, state, causal)


def cheapest_form(num_steps: int, num_agents: int, head_width: int, *, causal: bool) -> Form:
    """The form with the fewest multiply-adds for these static shapes.

    Chunks go before blocks whose products would have few rows, as these are slow for their size.
    """
    T, N, K = num_steps, num_agents, head_width
    if T == 1 and (N == 1 or not causal):
        return "recurrent"
    flattened = 2 * (T * N) ** 2 * K
    blockwise = 2 * T * N * K**2 + T**2 * K**2
    if causal:
        blockwise += 2 * T * N * min(N, MAX_CHUNK) * K
    C = _steps_in_chunk(T, N)
    chunked = 2 * T * N * K**2 + (T // C) ** 2 * K**2 + 2 * T * N * C * N * K
    if flattened <= min(chunked, blockwise):
        return "flattened"
    return "chunked" if C > 1 and 2 * N <= K else "blockwise"


def _steps_in_chunk(num_steps: int, num_agents: int) -> int:
    """As many as one product may have, in chunks of the same length."""
    most = max(MAX_CHUNK // num_agents, 1)
    return max(n for n in range(1, min(most, num_steps) + 1) if num_steps % n == 0)


def recurrent(
    q: Tokens, k: Tokens, v: Tokens, decay: Array, reset: Array, state: State | None, causal: bool
) -> tuple[Tokens, State | None]:
    """Step by step, and with `causal` agent by agent: constant memory, as when acting."""

    def one_step(state: Array, inputs: tuple[Array, ...]) -> tuple[Array, Array]:
        q_t, k_t, v_t, reset_t = inputs
        state = jnp.where(reset_t, 0, decay * state)
        if causal:
            return jax.lax.scan(_one_agent, state, (q_t, k_t, v_t))
        state = state + jnp.einsum("nk,nl->kl", k_t, v_t)
        return state, q_t @ state

    start = jnp.zeros((q.shape[-1], v.shape[-1])) if state is None else state
    after, y = jax.lax.scan(one_step, start, (q, k, v, reset))
    return y, None if state is None else after


def _one_agent(state: Array, inputs: tuple[Array, Array, Array]) -> tuple[Array, Array]:
    q, k, v = inputs
    state = state + jnp.outer(k, v)
    return state, q @ state


def flattened(
    q: Tokens, k: Tokens, v: Tokens, decay: Array, reset: Array, state: State | None, causal: bool
) -> tuple[Tokens, State | None]:
    """All tokens against all tokens in one TN x TN product: best for few agents."""
    T, N, K = q.shape
    between, from_start = _decays(decay, reset)
    weights = jnp.repeat(jnp.repeat(between, N, axis=0), N, axis=1)
    if causal:
        weights = jnp.tril(weights)
    flat_q, flat_k, flat_v = (x.reshape(T * N, K) for x in (q, k, v))
    y = (((flat_q @ flat_k.T) * weights) @ flat_v).reshape(T, N, K)
    if state is None:
        return y, None
    y = y + from_start[:, None, None] * (q @ state)
    carried = k * between[-1][:, None, None]
    return y, from_start[-1] * state + jnp.einsum("tnk,tnl->kl", carried, v)


def chunked(
    q: Tokens, k: Tokens, v: Tokens, decay: Array, reset: Array, state: State | None, causal: bool
) -> tuple[Tokens, State | None]:
    """All against all inside a chunk of steps, states from chunk to chunk: best for some agents."""
    T, N, K = q.shape
    steps = _steps_in_chunk(T, N)
    between, from_start = _decays(decay, reset)
    last = slice(steps - 1, None, steps)
    between, from_start = between[last, last], from_start[last]
    inside, from_before = jax.vmap(_decays, (None, 0))(decay, reset.reshape(-1, steps))
    # Tokens of a chunk [C, M, K], and what they weigh for each other [C, M, M].
    q, k, v = (x.reshape(-1, steps * N, K) for x in (q, k, v))
    weights = jnp.repeat(jnp.repeat(inside, N, axis=1), N, axis=2)
    y = ((q @ k.swapaxes(1, 2)) * (jnp.tril(weights) if causal else weights)) @ v
    added = jnp.einsum("cnk,cnl->ckl", k * _per_token(inside[:, -1], N), v)
    # States before each chunk, as they were after the one before.
    before = jnp.einsum("cd,dkl->ckl", jnp.pad(between[:-1], ((1, 0), (0, 0))), added)
    if state is not None:
        before = before + jnp.insert(from_start[:-1], 0, 1)[:, None, None] * state
    y = (y + (q * _per_token(from_before, N)) @ before).reshape(T, N, K)
    if state is None:
        return y, None
    return y, from_start[-1] * state + jnp.einsum("d,dkl->kl", between[-1], added)


def _per_token(of_steps: Float[Array, "C T"], num_agents: int) -> Float[Array, "C M 1"]:
    return jnp.repeat(of_steps, num_agents, axis=1)[..., None]


def blockwise(
    q: Tokens, k: Tokens, v: Tokens, decay: Array, reset: Array, state: State | None, causal: bool
) -> tuple[Tokens, State | None]:
    """States per step, products only inside a step: cost grows linearly with the agents."""
    between, from_start = _decays(decay, reset)
    added = jnp.einsum("tnk,tnl->tkl", k, v)
    before = jnp.einsum("ts,skl->tkl", jnp.tril(between, -1), added)
    if state is not None:
        before = before + from_start[:, None, None] * state
    after = before + added
    y = jax.vmap(_within_step)(q, k, v, before) if causal else q @ after
    return y, None if state is None else after[-1]


def _within_step(q: Array, k: Array, v: Array, before: Array) -> Array:
    """Causal outputs of one step [N, K]: triangular in a chunk of agents, states across chunks."""
    num_agents = len(q)
    chunk = min(num_agents, MAX_CHUNK)
    padding = (-num_agents) % chunk
    q, k, v = (jnp.pad(x, ((0, padding), (0, 0))).reshape(-1, chunk, x.shape[1]) for x in (q, k, v))
    inside = jnp.tril(q @ k.swapaxes(1, 2)) @ v
    added = k.swapaxes(1, 2) @ v
    earlier = jnp.cumsum(added, axis=0) - added
    y = inside + q @ (before + earlier)
    return y.reshape(-1, y.shape[2])[:num_agents]


def _decays(decay: Array, reset: Array) -> tuple[Float[Array, "T T"], Float[Array, " T"]]:
    """Decay from step s to step t (0 across a reset), and from the initial state to step t."""
    steps = jnp.arange(len(reset))
    episode = jnp.cumsum(reset)
    elapsed = steps[:, None] - steps[None, :]
    linked = (elapsed >= 0) & (episode[:, None] == episode[None, :])
    between = jnp.where(linked, decay ** jnp.maximum(elapsed, 0), 0)
    from_start = jnp.where(episode == 0, decay ** (steps + 1), 0)
    return between, from_start


def end_state(
    k: Tokens,
    v: Tokens,
    decay: Float[Array, ""],
    reset: Bool[Array, "T"],
    agent_mask: Bool[Array, "T N"],
    state: State,
) -> State:
    """The state after the last step alone, for what gives outputs without it."""
    between, from_start = _decays(decay, reset)
    weights = jnp.where(agent_mask, between[-1][:, None], 0)
    return from_start[-1] * state + jnp.einsum("tnk,tn,tnl->kl", k, weights, v)


_FORMS = {
    "recurrent": recurrent,
    "flattened": flattened,
    "chunked": chunked,
    "blockwise": blockwise,
}


def head_decays(
    num_heads: int, scale: float, shortest: float = 32, longest: float = 512
) -> Float[Array, " H"]:
    """κ_h = (1 - exp(linspace(log 1/32, log 1/512, H))) · scale, slowest head last.

    `shortest` and `longest` take the place of the paper's 32 and 512.
    """
    exponents = jnp.linspace(jnp.log(1 / shortest), jnp.log(1 / longest), num_heads)
    return (1 - jnp.exp(exponents)) * scale
