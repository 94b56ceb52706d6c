"""Multi-head retention with weights: its formula, its streams, and going on from a state."""

from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oryx_marl.networks.retention import Context, HeadNorm, MultiHeadRetention

WIDTH, HEADS, STEPS, AGENTS = 8, 2, 6, 3
DECAYS = jnp.array([0.9, 0.5])
X, Y = jax.random.normal(jax.random.key(1), (2, STEPS, AGENTS, WIDTH))


def context(steps: slice = slice(None), **changes: Any) -> Context:
    reset = jnp.zeros(STEPS, bool).at[2].set(True)
    return Context(DECAYS, reset[steps], jnp.ones((STEPS, AGENTS), bool)[steps], **changes)


def layer(causal: bool, gate: Literal["query", "key"] | None = None) -> MultiHeadRetention:
    return MultiHeadRetention(jax.random.key(0), WIDTH, HEADS, causal, gate)


run = eqx.filter_jit(MultiHeadRetention.__call__)


def test_head_norm() -> None:
    x = jnp.array([[1.0, 3.0], [10.0, 30.0]])
    np.testing.assert_allclose(HeadNorm(2, 2)(x), [[-1, 1], [-1, 1]], atol=1e-3)


def test_by_its_formula() -> None:
    """One stream, agents see each other, summed over steps one by one."""
    one = layer(causal=False)
    found, _ = run(one, X, X, context(), None)
    q, k, v, gate = (
        each.reshape(STEPS, AGENTS, HEADS, -1) for each in jnp.split(one.on_tokens(X), 4, axis=-1)
    )
    state = jnp.zeros((HEADS, WIDTH // HEADS, WIDTH // HEADS))
    for step in range(STEPS):
        kept = 0.0 if step == 2 else DECAYS[:, None, None]
        state = kept * state + jnp.einsum("nhi,nhj->hij", k[step], v[step])
        y = jnp.einsum("nhi,hij->nhj", q[step], state)
        expected = (jax.nn.swish(gate[step]) * one.norm(y)).reshape(AGENTS, WIDTH)
        np.testing.assert_allclose(found[step], one.out(expected), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("gate", ["query", "key"])
def test_which_input_does_what(gate: Literal["query", "key"]) -> None:
    """Tokens of later agents are not seen; queries matter to their own agent alone."""
    one = layer(True, gate)
    base, _ = run(one, X, Y, context(), None)
    moved, _ = run(one, X, Y.at[3, 1].add(1), context(), None)
    changed = np.abs(base - moved).max(axis=-1) > 1e-7
    assert changed[:3].sum() == 0
    assert changed[3].tolist() == [False, True, True]
    moved, _ = run(one, X.at[3, 1].add(1), Y, context(), None)
    assert (np.abs(base - moved).max(axis=-1) > 1e-7).nonzero() == (3, 1)


@pytest.mark.parametrize("causal", [False, True])
def test_going_on_from_a_state_equals_one_pass(causal: bool) -> None:
    one = layer(causal, "query")
    state = jnp.zeros((HEADS, WIDTH // HEADS, WIDTH // HEADS))
    whole, last = run(one, X, Y, context(), state)
    first, state = run(one, X[:4], Y[:4], context(slice(4)), state)
    second, state = run(one, X[4:], Y[4:], context(slice(4, None)), state)
    np.testing.assert_allclose(jnp.concatenate([first, second]), whole, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(state, last, rtol=1e-4, atol=1e-6)
    assert run(one, X, Y, context(ends_here=True), state)[1] is None
