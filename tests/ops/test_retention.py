"""The three forms of retention are the same function, values and gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oryx_marl.ops import retention as r

SHAPES = [  # (T, N, K): ten shapes, N from 1 to 70, T from 1 to 30
    (1, 1, 4),
    (1, 5, 3),
    (2, 2, 8),
    (5, 1, 4),
    (7, 3, 5),
    (20, 2, 4),
    (30, 4, 2),
    (20, 10, 3),
    (3, 16, 3),
    (4, 64, 2),
    (3, 70, 2),
]
SLOW_SHAPES = ((2, 2, 8), (30, 4, 2), (20, 10, 3), (3, 16, 3), (4, 64, 2))
"""Of which others have the same kind: a chunk, several, more agents than one holds."""
CASES_PER_SHAPE = 20
FORMS = ("recurrent", "flattened", "chunked", "blockwise")


def draw(rng: np.random.Generator, shape: tuple[int, int, int]) -> dict:
    """One free draw of everything but the shape; about a third has no reset or no absence."""
    T, N, K = shape
    reset_rate, absent_rate = rng.choice([0.0, 0.2, 0.6], 2)
    return {
        "qkv": tuple(rng.normal(size=(3, T, N, K))),
        "state": rng.normal(size=(K, K)) * rng.choice([0.0, 1.0]),
        "decay": np.asarray(rng.uniform(0.05, 1.0)),
        "reset": rng.random(T) < reset_rate,
        "agent_mask": rng.random((T, N)) >= absent_rate,
    }


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    "shape",
    [pytest.param(s, marks=pytest.mark.slow) if s in SLOW_SHAPES else s for s in SHAPES],
)
def test_forms_agree_with_gradients(shape: tuple[int, int, int], causal: bool) -> None:
    rng = np.random.default_rng(SHAPES.index(shape))
    cases = [draw(rng, shape) for _ in range(CASES_PER_SHAPE)]
    batch = jax.tree.map(lambda *xs: jnp.asarray(np.stack(xs)), *cases)
    probes = jnp.asarray(rng.normal(size=(CASES_PER_SHAPE, *shape)))
    state_probes = jnp.asarray(rng.normal(size=batch["state"].shape))

    def outputs(form: str):
        def scalar(qkv, state, case, probe, state_probe):
            y, last = r.retention(
                *qkv,
                decay=case["decay"],
                reset=case["reset"],
                agent_mask=case["agent_mask"],
                state=state,
                causal=causal,
                form=form,
            )
            return jnp.sum(y * probe) + jnp.sum(last * state_probe), (y, last)

        run = jax.vmap(jax.value_and_grad(scalar, argnums=(0, 1), has_aux=True))
        (_, values), gradients = jax.jit(run)(
            batch["qkv"], batch["state"], batch, probes, state_probes
        )
        return jax.device_get((values, gradients))

    reference, *others = (outputs(form) for form in FORMS)
    for other in others:
        for expected, found in zip(jax.tree.leaves(reference), jax.tree.leaves(other), strict=True):
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)


def test_at_least_200_cases() -> None:
    assert len(SHAPES) * CASES_PER_SHAPE >= 200


def by_hand(q, k, v, decay, reset, agent_mask, state, causal):
    """The definition, term by term, in plain Python."""
    T, N, K = q.shape
    y = np.zeros_like(v)
    for t in range(T):
        state = np.zeros((K, K)) if reset[t] else decay * state
        before = state.copy()
        for j in range(N):
            if agent_mask[t, j]:
                state = state + np.outer(k[t, j], v[t, j])
        for i in range(N):
            seen = before.copy()
            for j in range(i + 1 if causal else N):
                if agent_mask[t, j]:
                    seen += np.outer(k[t, j], v[t, j])
            y[t, i] = q[t, i] @ seen
    return y, state


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_forms_are_the_definition(form: str, causal: bool) -> None:
    rng = np.random.default_rng(0)
    for shape in [(4, 3, 2), (1, 2, 3), (6, 1, 2)]:
        case = draw(rng, shape)
        q, k, v = case["qkv"]
        expected = by_hand(
            q, k, v, case["decay"], case["reset"], case["agent_mask"], case["state"], causal
        )
        case = jax.tree.map(jnp.asarray, case)
        found = r.retention(
            *case["qkv"],
            decay=case["decay"],
            reset=case["reset"],
            agent_mask=case["agent_mask"],
            state=case["state"],
            causal=causal,
            form=form,
        )
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-12)


def test_numbers_worked_by_hand() -> None:
    """Two steps, two agents, width 1, κ = 1/2, start state 8; agent 1 is absent at step 2."""
    q = jnp.ones((2, 2, 1))
    k = jnp.array([[[1.0], [2.0]], [[3.0], [100.0]]])
    v = jnp.array([[[1.0], [1.0]], [[2.0], [100.0]]])
    common = {
        "decay": jnp.asarray(0.5),
        "reset": jnp.array([False, False]),
        "agent_mask": jnp.array([[True, True], [True, False]]),
        "state": jnp.array([[8.0]]),
    }
    # Step 1: 8/2 = 4 carried, agents add 1 and 2. Step 2: 7/2 carried, agent 0 adds 6.
    y, state = r.retention(q, k, v, causal=True, **common)
    assert y[..., 0].tolist() == [[5.0, 7.0], [9.5, 9.5]]
    assert state.tolist() == [[9.5]]
    y, _ = r.retention(q, k, v, causal=False, **common)
    assert y[..., 0].tolist() == [[7.0, 7.0], [9.5, 9.5]]
    common["reset"] = jnp.array([False, True])
    y, state = r.retention(q, k, v, causal=True, **common)
    assert y[..., 0].tolist() == [[5.0, 7.0], [6.0, 6.0]]
    assert state.tolist() == [[6.0]]


def test_form_is_chosen_from_shapes() -> None:
    assert r.cheapest_form(1, 50, 32, causal=False) == "recurrent"
    assert r.cheapest_form(1, 1, 32, causal=True) == "recurrent"
    assert r.cheapest_form(20, 2, 64, causal=True) == "flattened"
    assert r.cheapest_form(20, 10, 32, causal=True) == "chunked"
    assert r.cheapest_form(20, 50, 32, causal=True) == "blockwise"
    assert r.cheapest_form(20, 50, 32, causal=False) == "blockwise"


def test_head_decays() -> None:
    np.testing.assert_allclose(r.head_decays(1, 0.5), [0.484375], atol=1e-9)
    np.testing.assert_allclose(
        r.head_decays(4, 1.0), [0.96875, 0.98760, 0.99508, 0.99805], atol=1e-5
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_the_end_state_alone_is_that_of_every_form(shape: tuple[int, int, int]) -> None:
    case = draw(np.random.default_rng(SHAPES.index(shape)), shape)
    q, k, v = map(jnp.asarray, case.pop("qkv"))
    case = {name: jnp.asarray(value) for name, value in case.items()}
    _, expected = r.retention(q, k, v, **case, causal=True, form="recurrent")
    np.testing.assert_allclose(r.end_state(k, v, **case), expected, rtol=1e-10, atol=1e-10)
