"""The kernel is chosen where it fits into the device's shared memory, and only there."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, PartitionSpec

from oryx_marl.networks import retention as networks
from oryx_marl.networks.retention import Context, MultiHeadRetention
from oryx_marl.ops.retention import Layout
from oryx_marl.ops.retention_fit import choose, fit, shared_memory_limit, try_to_compile

H200, A100, RTX_4090 = 232_448, 166_912, 101_376
"""Bytes of shared memory that one program may have."""
SELF = ((0, 0), (0, 1), (0, 2), (0, 3))
BOTH = (True, False)


def ways(
    steps: int,
    agents: int,
    width: int,
    causal: bool,
    *,
    limit: int = H200,
    fits: bool,
    size: int = 4,
) -> tuple[tuple[int, int] | None, list[tuple[int, int]]]:
    """Tokens in a chunk and chunks under way as chosen, and those that were tried."""
    tried: list[tuple[int, int]] = []

    def compiles(layout: Layout) -> bool:
        tried.append((layout.max_chunk, layout.num_stages))
        return fits

    layout = Layout(SELF, agents, 1, causal)
    found = choose(layout, steps, width, size, False, limit=limit, compiles=compiles)
    return found and (found.max_chunk, found.num_stages), tried


@pytest.mark.parametrize("causal", BOTH)
@pytest.mark.parametrize("steps", [40, 50, 200])
def test_long_sequences_of_the_default_width_are_not_read_ahead(steps: int, causal: bool) -> None:
    """Two agents, one head of 64: the compiler would ask for more than an H200 has."""
    assert ways(steps, 2, 64, causal, fits=False) == ((64, 1), [])


@pytest.mark.parametrize("causal", BOTH)
@pytest.mark.parametrize(
    ("steps", "agents", "width"),
    [
        (20, 2, 64),
        (2, 1, 128),
        (20, 10, 32),
        (40, 10, 32),
        (20, 50, 32),
        (20, 1000, 32),
        (7, 10, 16),
    ],
)
def test_what_ran_before_runs_as_before(steps: int, agents: int, width: int, causal: bool) -> None:
    assert ways(steps, agents, width, causal, fits=False) == ((64, 2), [])


def test_in_doubt_the_compiler_is_asked() -> None:
    wide = partial(ways, 50, 2, 128, True)
    assert wide(fits=True) == ((64, 1), [(64, 1)])
    assert wide(fits=False) == (None, [(64, 1), (32, 1)])
    assert wide(fits=True, limit=A100) == ((32, 1), [(32, 1)])
    assert wide(fits=True, limit=RTX_4090) == (None, [])
    assert ways(50, 2, 64, True, fits=True, size=2) == ((64, 2), [(64, 2)])
    assert ways(50, 2, 64, True, fits=False, limit=RTX_4090) == ((32, 1), [(64, 1)])


def test_limits_by_device() -> None:
    class GivenSchema:
        shared_memory_per_block_optin = 12_345

    class Hopper:
        compute_capability = "9.0"

    assert shared_memory_limit(GivenSchema()) == 12_345
    assert shared_memory_limit(Hopper()) == H200
    assert shared_memory_limit(object()) == RTX_4090


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="interprets the kernel")
@pytest.mark.parametrize("has_state", BOTH)
def test_a_try_within_a_trace_on_a_mesh(has_state: bool) -> None:
    """Compiled for nobody, wherever it is called from."""
    layout = Layout(((0, 0), (1, 0), (1, 1), (1, 2)), 2, 2, True, interpret=True)
    seen = []

    def traced(x: jax.Array) -> jax.Array:
        seen.append(try_to_compile(layout, 3, 16, jnp.dtype("float32"), has_state, "highest"))
        return 2 * x

    with jax.set_mesh(jax.make_mesh((1,), ("seeds",), (AxisType.Auto,))):
        over = PartitionSpec("seeds")
        spread = jax.shard_map(jax.vmap(traced), in_specs=over, out_specs=over, check_vma=False)
        y = jax.jit(jax.grad(lambda x: spread(x).sum()))(jnp.ones(4))
    np.testing.assert_array_equal(y, 2)
    assert seen == [True]


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="has few bytes of shared memory")
def test_other_errors_of_a_try_are_raised() -> None:
    with pytest.raises(ValueError, match="interpret"):
        try_to_compile(Layout(SELF, 2, 1, True), 3, 16, jnp.dtype("float32"), False, None)


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="has few bytes of shared memory")
def test_the_plain_form_where_nothing_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A layer whose heads are too wide says so once, and computes the same."""
    layer = MultiHeadRetention(jax.random.key(0), 128, 1, causal=True)
    x = jax.random.normal(jax.random.key(1), (2, 50, 2, 128))
    context = Context(jnp.array([0.9]), jnp.zeros((2, 50), bool), jnp.ones((2, 50, 2), bool))
    expected, _ = layer(x, x, context, None)
    monkeypatch.setattr(networks, "has_kernel", lambda *_: True)
    with pytest.warns(UserWarning, match="50 steps of 2 agents with heads of 128 features"):
        found, _ = layer(x, x, context, None)
    np.testing.assert_array_equal(found, expected)
    again, _ = layer(x, x, context, None)
    np.testing.assert_array_equal(again, expected)
    assert fit(Layout(SELF, 2, 1, True), 50, 128, jnp.float32, False) is None
