import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oryx_marl.ops.distributions import entropy, masked_log_softmax, take_action


def test_masked_log_softmax_by_hand() -> None:
    logits = jnp.array([0.0, 50.0, np.log(3.0)])
    found = jnp.exp(masked_log_softmax(logits, jnp.array([True, False, True])))
    np.testing.assert_allclose(found, [0.25, 0.0, 0.75], rtol=1e-6)


def test_an_empty_mask_counts_as_a_full_one() -> None:
    logits = jnp.array([0.0, np.log(3.0)])
    found = jnp.exp(masked_log_softmax(logits, jnp.zeros(2, bool)))
    np.testing.assert_allclose(found, [0.25, 0.75], rtol=1e-6)


def test_gradient_is_finite_at_a_huge_gap() -> None:
    def loss(logits):
        return -masked_log_softmax(logits, jnp.array([True, True, False]))[1]

    gradient = jax.grad(loss)(jnp.array([200.0, -200.0, 1e4]))
    np.testing.assert_allclose(gradient, [1.0, -1.0, 0.0], atol=1e-6)


def test_entropy_ignores_illegal_actions() -> None:
    log_probs = masked_log_softmax(jnp.zeros(4), jnp.array([True, True, False, False]))
    assert float(entropy(log_probs)) == pytest.approx(np.log(2), rel=1e-6)
    assert np.isfinite(
        jax.grad(lambda x: entropy(masked_log_softmax(x, x > -1)))(jnp.zeros(4))
    ).all()


def test_take_action() -> None:
    values = jnp.arange(6.0).reshape(2, 3)
    assert take_action(values, jnp.array([2, 0])).tolist() == [2.0, 3.0]
