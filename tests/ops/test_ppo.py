"""PPO's losses against numbers worked out by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oryx_marl.ops import ppo

ALL = jnp.ones(1, bool)


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "slope"),
    [
        (1.1, 2.0, -2.2, -2.2),  # inside: -ρA, and dρ/dlogπ = ρ
        (1.5, 2.0, -2.4, 0.0),  # good and already likelier: -1.2·2, no pull
        (0.5, 2.0, -1.0, -1.0),  # good but less likely: pulled back without bound
        (1.5, -2.0, 3.0, 3.0),  # bad and likelier: pushed away without bound
        (0.5, -2.0, 1.6, 0.0),  # bad and already less likely: 0.8·2, no push
    ],
)
def test_ratio_and_clipping(ratio: float, advantage: float, loss: float, slope: float) -> None:
    old = jnp.log(jnp.array([0.2]))

    def of(log_prob: jax.Array) -> jax.Array:
        return ppo.policy_loss(log_prob, old, jnp.array([advantage]), ALL, 0.2)

    value, gradient = jax.value_and_grad(of)(old + jnp.log(ratio))
    np.testing.assert_allclose(value, loss, rtol=1e-5)
    np.testing.assert_allclose(gradient, [slope], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("value", "loss", "slope"),
    [
        (1.1, 0.405, -0.9),  # within ±0.2 of the old 1.0: ½(1.1 - 2)²
        (1.5, 0.32, 0.0),  # moved further towards 2 than allowed: ½(1.2 - 2)², no pull
        (0.5, 1.125, -1.5),  # moved away: ½(0.5 - 2)²
        (3.0, 0.5, 1.0),  # overshot: ½(3 - 2)², larger than the clipped 0.32
    ],
)
def test_value_clipping(value: float, loss: float, slope: float) -> None:
    def of(v: jax.Array) -> jax.Array:
        return ppo.value_loss(v, jnp.array([1.0]), jnp.array([2.0]), ALL, 0.2)

    found, gradient = jax.value_and_grad(of)(jnp.array([value]))
    np.testing.assert_allclose(found, loss, rtol=1e-5)
    np.testing.assert_allclose(gradient, [slope], rtol=1e-5, atol=1e-6)


def test_rows_that_do_not_count_are_left_out() -> None:
    rows = jnp.array([True, True, False])
    log_probs = jnp.log(jnp.array([0.5, 0.25, 0.9]))
    old = jnp.log(jnp.array([0.5, 0.5, 0.1]))
    advantages = jnp.array([1.0, 1.0, 100.0])
    # ratios 1 and 0.5 with A = 1: -(1 + 0.5) / 2
    np.testing.assert_allclose(ppo.policy_loss(log_probs, old, advantages, rows, 0.2), -0.75)
    np.testing.assert_allclose(ppo.clipped_share(log_probs, old, rows, 0.2), 0.5)
    # mean 1, all others equal: deviations 0 over the rows that count
    np.testing.assert_allclose(ppo.normalise(advantages, rows)[:2], [0, 0])


def test_normalise() -> None:
    """(1, 3): mean 2, deviation 1."""
    found = ppo.normalise(jnp.array([1.0, 3.0]), jnp.ones(2, bool))
    np.testing.assert_allclose(found, [-1, 1])


def test_noise_is_not_blown_up() -> None:
    """(0.001, 0.003) has deviation 0.001; with a floor of 0.1 it becomes ±0.01, not ±1."""
    found = ppo.normalise(jnp.array([0.001, 0.003]), jnp.ones(2, bool), floor=0.1)
    np.testing.assert_allclose(found, [-0.01, 0.01], rtol=1e-4)
