"""The GPU kernel equals the plain form, values and gradients; without a GPU it is interpreted."""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oryx_marl.networks.retention import HeadNorm, mix
from oryx_marl.ops._retention_chunks import cut
from oryx_marl.ops.retention import Layout, has_kernel
from oryx_marl.ops.retention_kernel import gated_retention

HEADS, WIDTH = 2, 16
INTERPRET = jax.default_backend() != "gpu"
SELF = ((0, 0), (0, 1), (0, 2), (0, 3))
CROSS = ((0, 0), (1, 0), (1, 1), (1, 2))
CROSS_QUERY_GATES = ((0, 0), (1, 0), (1, 1), (0, 1))
CASES = {
    # columns, steps, agents, causal: one chunk; several, the last one shorter; one step each
    "few agents": (SELF, 20, 2, False),
    "chunks of several steps": (CROSS, 7, 10, True),
    "chunks of one step": (CROSS_QUERY_GATES, 3, 50, True),
    "all agents of a step": (SELF, 5, 23, False),
    "one step in a chunk": (SELF, 3, 40, False),
    "more agents than a chunk": (CROSS, 4, 70, True),
    "more agents than a chunk, all of a step": (SELF, 4, 70, False),
}


def make(columns: tuple, steps: int, agents: int) -> tuple[Any, ...]:
    """Sources, reset, present, decays and norm; a reset in the middle, some absent."""
    keys = jax.random.split(jax.random.key(0), 6)
    sources = tuple(
        jax.random.normal(
            keys[number],
            (steps, agents, sum(s == number for s, _ in columns) * HEADS * WIDTH),
        )
        for number in {source for source, _ in columns}
    )
    norm = HeadNorm(HEADS, WIDTH)
    moved = [
        x + 0.1 * jax.random.normal(k, x.shape)
        for k, x in zip(keys[2:4], (norm.scale, norm.shift), strict=True)
    ]
    object.__setattr__(norm, "scale", moved[0])
    object.__setattr__(norm, "shift", moved[1])
    reset = jnp.zeros(steps, bool).at[2].set(True)
    agent_mask = jax.random.bernoulli(keys[4], 0.8, (steps, agents))
    return sources, reset, agent_mask, jnp.array([0.9, 0.7]), norm


@pytest.fixture(autouse=True)
def exact() -> Iterator[None]:
    """GPUs round the factors of products otherwise."""
    with jax.default_matmul_precision("highest"):
        yield


WITH_STATE = ("few agents", "chunks of several steps", "one step in a chunk")
ALL = [(case, False) for case in CASES] + [(case, True) for case in WITH_STATE]


@pytest.mark.parametrize(("case", "has_state"), ALL)
def test_kernel_is_the_plain_form(case: str, has_state: bool) -> None:
    columns, steps, agents, causal = CASES[case]
    sources, reset, agent_mask, decays, norm = make(columns, steps, agents)
    layout = Layout(columns, agents, HEADS, causal, interpret=INTERPRET)
    towards, state = jax.random.normal(jax.random.key(2), (steps, agents, HEADS * WIDTH)), None
    if has_state:
        state = jax.random.normal(jax.random.key(3), (HEADS, WIDTH, WIDTH))

    def score(form: Any, sources: Any, norm: Any) -> tuple[jax.Array, Any]:
        y, _ = form(layout, sources, state, reset, agent_mask, decays, norm)
        return jnp.sum(y * towards), y

    both = [
        jax.jit(jax.value_and_grad(score, argnums=(1, 2), has_aux=True), static_argnums=0)(
            form, sources, norm
        )
        for form in (gated_retention, mix)
    ]
    (_, values), gradients = both[0]
    (_, expected_values), expected = both[1]
    for found, wanted in zip(
        jax.tree.leaves((values, gradients)),
        jax.tree.leaves((expected_values, expected)),
        strict=True,
    ):
        assert np.abs(wanted).max() > 0.1
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_kernel_is_the_plain_form_over_batches_and_seeds() -> None:
    """Vectorised over sequences that share their weights, and over seeds that do not."""
    columns, steps, agents, causal = CASES["few agents"]
    sources, _, _, decays, norm = make(columns, steps, agents)
    # A token that sees one key alone has no gradient but rounding: the norm takes its length away.
    reset, agent_mask = jnp.zeros(steps, bool), jnp.ones((steps, agents), bool)
    layout = Layout(columns, agents, HEADS, causal, interpret=INTERPRET)
    many = jnp.stack([sources[0] * x for x in (1.0, 0.5, -1.0, 2.0)]).reshape(
        2, 2, *sources[0].shape
    )
    norms = jax.tree.map(lambda x: jnp.stack([x, 2 * x]), norm)

    def score(form: Any, source: jax.Array, norm: Any) -> jax.Array:
        one = lambda source: form(layout, (source,), None, reset, agent_mask, decays, norm)[0]  # noqa: E731
        return jnp.sum(jax.vmap(one)(source) ** 3)

    found, expected = (
        jax.jit(jax.vmap(jax.grad(score, argnums=(1, 2)), in_axes=(None, 0, 0)), static_argnums=0)(
            form, many, norms
        )
        for form in (gated_retention, mix)
    )
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3), found, expected
    )


@pytest.mark.parametrize("case", ["few agents", "all agents of a step", "chunks of several steps"])
def test_kernel_is_the_plain_form_in_smaller_chunks(case: str) -> None:
    """As on devices with little shared memory; 23 agents are then parts of a step."""
    columns, steps, agents, causal = CASES[case]
    sources, reset, agent_mask, decays, norm = make(columns, steps, agents)
    layout = Layout(columns, agents, HEADS, causal, INTERPRET, max_chunk=32, num_stages=1)
    towards = jax.random.normal(jax.random.key(2), (steps, agents, HEADS * WIDTH))

    def score(form: Any, sources: Any, norm: Any) -> jax.Array:
        y, _ = form(layout, sources, None, reset, agent_mask, decays, norm)
        return jnp.sum(y * towards)

    found, expected = (
        jax.jit(jax.grad(score, argnums=(1, 2)), static_argnums=0)(form, sources, norm)
        for form in (gated_retention, mix)
    )
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), found, expected
    )


def test_chunks_cover_all_tokens() -> None:
    """Any 64 tokens if only earlier ones are seen, else whole steps, else parts of a step."""
    assert cut(20, 2, causal=True)[:4] == (40, 64, 1, 0)
    assert cut(20, 50, causal=True)[:4] == (64, 64, 16, 0)
    assert cut(20, 10, causal=False)[:4] == (60, 64, 4, 0)
    assert cut(20, 50, causal=False)[:4] == (50, 64, 20, 1)
    assert cut(20, 100, causal=False)[:4] == (64, 64, 40, 2)
    assert cut(3, 1, causal=False)[:4] == (3, 16, 1, 0)
    assert cut(50, 2, causal=True, most=32)[:4] == (32, 32, 4, 0)
    assert cut(5, 23, causal=False, most=32)[:4] == (23, 32, 5, 1)


def test_on_a_gpu_only_and_not_if_declined(monkeypatch: pytest.MonkeyPatch) -> None:
    is_gpu = jax.default_backend() == "gpu"
    assert has_kernel(20, 64) == is_gpu
    assert not has_kernel(20, 48)
    assert not has_kernel(1, 64)
    monkeypatch.setenv("ORYX_KERNELS", "0")
    assert not has_kernel(20, 64)
