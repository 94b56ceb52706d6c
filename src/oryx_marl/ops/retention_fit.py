"""How the retention kernel fits into the shared memory of the device at hand, if it does.

The compiler keeps the factors of products in shared memory and, where it reads ahead, every array
that a loop loads. How much that is, is known only once it has compiled: so an estimate from the
shapes decides what is clear, and in doubt the kernel is compiled for a try.
"""

import functools
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from oryx_marl.ops._retention_chunks import Chunks, cut
from oryx_marl.ops.retention import Layout
from oryx_marl.ops.retention_kernel import gated_retention

WAYS = ((64, 2), (64, 1), (32, 1))
"""Tokens in a chunk, and chunks under way at a time (`Layout.num_stages`): the fastest first."""
LIMITS = {"8.0": 163, "8.7": 163, "9.0": 227, "10.0": 227, "10.3": 227}
"""KiB of shared memory that one program may have, by compute capability."""
SMALLEST_LIMIT = 99
"""KiB on all other devices since compute capability 8.0."""
CLEAR, HOPELESS = 0.9, 1.6
"""Estimates up to this share of the limit need no try; beyond that one they get none."""
RESOURCE_ERRORS = ("shared memory", "shared data", "out of resource")


def fit(
    layout: Layout, num_steps: int, head_width: int, dtype: Any, has_state: bool
) -> Layout | None:
    """The layout with which the kernel fits on this device; None: the plain form must do."""
    # Products of full precision are compiled differently, so they may fit differently.
    config: Any = jax.config
    precision = config.jax_default_matmul_precision
    return _fit(layout, num_steps, head_width, jnp.dtype(dtype), has_state, precision)


@functools.cache
def _fit(
    layout: Layout, num_steps: int, head_width: int, dtype: Any, has_state: bool, precision: Any
) -> Layout | None:
    device = jax.local_devices()[0]

    def compiles(layout: Layout) -> bool:
        return try_to_compile(layout, num_steps, head_width, dtype, has_state, precision)

    shapes = (num_steps, head_width, dtype.itemsize, has_state)
    found = choose(layout, *shapes, limit=shared_memory_limit(device), compiles=compiles)
    if found is None:
        warnings.warn(
            f"retention over {num_steps} steps of {layout.num_agents} agents with heads of "
            f"{head_width} features ({dtype}) does not fit into the shared memory of "
            f"{device.device_kind}: it runs without the kernel, and slower; narrower heads "
            "(num_heads) fit",
            stacklevel=2,
        )
    return found


def choose(
    layout: Layout,
    num_steps: int,
    head_width: int,
    itemsize: int,
    has_state: bool,
    *,
    limit: int,
    compiles: Callable[[Layout], bool],
) -> Layout | None:
    """The first way that fits into `limit` bytes: by the estimate if it is clear, else by a try."""
    for max_chunk, num_stages in WAYS:
        one = layout._replace(max_chunk=max_chunk, num_stages=num_stages)
        chunks = cut(num_steps, layout.num_agents, layout.causal, max_chunk)
        chunks = chunks._replace(begins_with_state=has_state)
        share = estimate_shared_memory(chunks, head_width, itemsize, num_stages) / limit
        if share <= CLEAR or (share <= HOPELESS and compiles(one)):
            return one
    return None


def estimate_shared_memory(chunks: Chunks, head_width: int, itemsize: int, num_stages: int) -> int:
    """Bytes that one program of the backward kernel takes, rather too many than too few.

    On an H200 (227 KiB) heads of 32 features fit in float32, read ahead or not; heads of 64 fit in
    one chunk, and did not fit in several of 64 tokens that are read ahead.
    """
    part = chunks.padded * head_width
    factors = [2 * part]
    if not chunks.per_step:
        factors.append(chunks.padded**2 + part)
    if chunks.has_states:
        factors.append(part + head_width**2)
    product = itemsize * max(factors)
    computed = 3 * product  # of products whose factors are at hand at the same time
    if num_stages == 1 or not chunks.has_states:
        return computed
    # One chunk reads Q and K thrice, V twice, G and the gradient of y once, and its state twice;
    # a part of a step reads Q twice, G and the gradient of y.
    loaded = 4 * part * itemsize
    if not chunks.per_step:
        loaded = 10 * part * itemsize + 2 * head_width**2 * 4
    return max(computed, num_stages * loaded + product)


def shared_memory_limit(device: Any) -> int:
    """Bytes that one program may have on this device."""
    told = getattr(device, "shared_memory_per_block_optin", None)
    capability = str(getattr(device, "compute_capability", ""))
    return told or 1024 * LIMITS.get(capability, SMALLEST_LIMIT)


def try_to_compile(
    layout: Layout, num_steps: int, head_width: int, dtype: Any, has_state: bool, precision: Any
) -> bool:
    """Whether both kernels compile alone; errors that are not about the device's limits are raised.

    In a thread of its own, which knows nothing of the trace and the mesh that this is called in.
    """

    def compile_both() -> None:
        with jax.default_matmul_precision(precision):
            arguments = _shapes(layout, num_steps, head_width, dtype, has_state)
            score = functools.partial(_score, layout)
            jax.jit(jax.value_and_grad(score, argnums=(0, 1, 2))).lower(*arguments).compile()

    with ThreadPoolExecutor(1) as pool:
        try:
            pool.submit(compile_both).result()
        except jax.errors.JaxRuntimeError as error:
            if any(text in str(error).lower() for text in RESOURCE_ERRORS):
                return False
            raise
    return True


def _score(
    layout: Layout,
    sources: tuple[Array, ...],
    scale: Array,
    shift: Array,
    decays: Array,
    reset: Array,
    agent_mask: Array,
    state: Array | None,
) -> Array:
    """Something of a batch that has gradients."""
    norm: Any = SimpleNamespace(scale=scale, shift=shift)

    def one(
        sources: tuple[Array, ...], state: Array | None, reset: Array, agent_mask: Array
    ) -> Array:
        return gated_retention(layout, sources, state, reset, agent_mask, decays, norm)[0]

    return jnp.sum(jax.vmap(one)(sources, state, reset, agent_mask).astype(jnp.float32))


def _shapes(
    layout: Layout, num_steps: int, head_width: int, dtype: Any, has_state: bool
) -> tuple[Any, ...]:
    """Arguments of `_score` for a batch of two."""
    batch, heads, tokens = 2, layout.num_heads, (2, num_steps, layout.num_agents)
    columns = [source for source, _ in layout.columns]
    shape = jax.ShapeDtypeStruct
    sources = tuple(
        shape((*tokens, columns.count(source) * heads * head_width), dtype)
        for source in sorted(set(columns))
    )
    of_heads = shape((heads, head_width), jnp.float32)
    state = shape((batch, heads, head_width, head_width), jnp.float32) if has_state else None
    decays, reset = shape((heads,), jnp.float32), shape((batch, num_steps), bool)
    return sources, of_heads, of_heads, decays, reset, shape(tokens, bool), state
