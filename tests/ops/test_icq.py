"""Every piece of the ICQ losses against numbers worked out by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oryx_marl.ops import icq
from oryx_marl.ops.distributions import categorical
from oryx_marl.ops.returns import td_masks
from oryx_marl.ops.values import DiscreteValues


def test_td_rows_over_every_kind_of_border() -> None:
    """One agent; steps: goes on | terminal, reset | truncated, reset | unflagged end, reset |
    absent next | absent here | last."""
    terminal = jnp.array([0, 1, 0, 0, 0, 0, 0], bool)[None, :, None]
    reset = jnp.array([0, 0, 1, 1, 0, 0, 0], bool)[None]
    agent_mask = jnp.array([1, 1, 1, 1, 1, 0, 1], bool)[None, :, None]
    rows, bootstrap_mask = td_masks(agent_mask, terminal, reset)
    # 0 goes on; 1 is terminal; 2 was cut (step 3 is a reset); 3 goes on; 4: absent at 5; 5: absent.
    assert rows[0, :, 0].tolist() == [True, True, False, True, False, False]
    assert bootstrap_mask[0, :, 0].tolist() == [True, False, False, True, False, False]


def test_td_rows_terminal_of_one_agent_only() -> None:
    terminal = jnp.array([[[True, False], [False, False]]])
    agent_mask = jnp.array([[[True, True], [False, True]]])
    rows, bootstrap_mask = td_masks(agent_mask, terminal, jnp.zeros((1, 2), bool))
    assert rows.tolist() == [[[True, True]]]
    assert bootstrap_mask.tolist() == [[[False, True]]]


def test_batch_weights_by_hand() -> None:
    """Three examples of which one does not count: 2 · softmax(0, log 3) = (0.5, 1.5)."""
    values = jnp.array([0.0, 99.0, 2 * np.log(3.0)])[:, None]
    rows = jnp.array([True, False, True])[:, None]
    np.testing.assert_allclose(
        icq.batch_weights(values, rows, temperature=2.0)[:, 0], [0.5, 0.0, 1.5], rtol=1e-6
    )


def test_batch_weights_without_rows_and_with_huge_values() -> None:
    none = icq.batch_weights(jnp.ones((4, 2)), jnp.zeros((4, 2), bool), 0.1)
    assert none.tolist() == np.zeros((4, 2)).tolist()
    huge = icq.batch_weights(jnp.array([[1e8], [-1e8]]), jnp.ones((2, 1), bool), 1e-3)
    assert huge.tolist() == [[2.0], [0.0]]


def test_effective_sample_size() -> None:
    rows = jnp.ones((4, 1), bool)
    assert float(icq.effective_sample_size(jnp.ones((4, 1)), rows)) == pytest.approx(1)
    one_hot = jnp.array([[4.0], [0.0], [0.0], [0.0]])
    assert float(icq.effective_sample_size(one_hot, rows)) == pytest.approx(0.25)
    # A softmax without rows does not enter the mean.
    rows = jnp.array([[True, False]] * 4)
    weights = jnp.concatenate([one_hot, jnp.zeros((4, 1))], axis=1)
    assert float(icq.effective_sample_size(weights, rows)) == pytest.approx(0.25)


def test_td_targets_by_hand() -> None:
    """Two used next values 1 and 1 + log 3 at α = 1: weights 0.5 and 1.5; γ = 0.5."""
    next_values = jnp.array([1.0, 1 + np.log(3.0), 7.0])[:, None, None]
    bootstrap_mask = jnp.array([True, True, False])[:, None, None]
    rewards = jnp.array([1.0, 0.0, 3.0])[:, None, None]
    rows = jnp.ones((3, 1, 1), bool)
    found = icq.td_targets(
        rewards, next_values, rows, bootstrap_mask, discount=0.5, temperature=1.0
    )
    expected = [1 + 0.5 * 0.5 * 1, 0.5 * 1.5 * (1 + np.log(3.0)), 3.0]
    np.testing.assert_allclose(found[:, 0, 0], expected, rtol=1e-6)


def test_targets_with_a_trace_by_hand() -> None:
    """γ = 1/2, λ = 1/2, one example, so every weight is 1; all next values are 4.

    From the end: pair 4 goes on: 1 + 2 = 3. Pair 3 is terminal: 1. Pair 2 does not count, so pair 1
    takes the plain next value: 1 + 2 = 3. Pair 0 mixes 4 and 3: 1 + (2 + 1.5) / 2 = 2.75.
    """
    shape = (1, 5, 1)
    rows = jnp.array([1, 1, 0, 1, 1], bool).reshape(shape)
    bootstrap_mask = jnp.array([1, 1, 0, 0, 1], bool).reshape(shape)
    found = icq.td_targets(
        jnp.ones(shape), jnp.full(shape, 4.0), rows, bootstrap_mask, 0.5, 1.0, td_lambda=0.5
    )
    assert found[0, [0, 1, 3, 4], 0].tolist() == [2.75, 3.0, 1.0, 3.0]


def test_advantages_by_hand() -> None:
    q = jnp.array([[1.0, 3.0], [2.0, 0.0], [5.0, 1.0]])[None, None]
    log_probs = jnp.log(jnp.array([[0.5, 0.5], [0.25, 0.75], [0.5, 0.5]]))[None, None]
    actions = jnp.array([1, 0, 0])[None, None]
    policy = categorical(log_probs, jnp.ones(q.shape, bool))
    own = icq.own_advantage(DiscreteValues(q), policy, actions)
    np.testing.assert_allclose(own[0, 0], [1.0, 1.5, 2.0], rtol=1e-6)
    agent_mask = jnp.array([True, False, True])[None, None]
    cumulative = icq.cumulative_advantage(own, agent_mask)
    np.testing.assert_allclose(cumulative[0, 0], [1.0, 1.0, 3.0], rtol=1e-6)


def test_expectile_loss_by_hand() -> None:
    """u = Q - V = 2, -1, 9 (masked): (0.7 · 4 + 0.3 · 1) / 2, and dV (-2.8, 0.6) / 2."""
    values, q = jnp.array([1.0, 3.0, 0.0]), jnp.array([3.0, 2.0, 9.0])
    mask = jnp.array([True, True, False])
    assert float(icq.expectile_loss(values, q, mask, 0.7)) == pytest.approx(3.1 / 2)
    slope = jax.grad(lambda v: icq.expectile_loss(v, q, mask, 0.7))(values)
    np.testing.assert_allclose(slope, [-1.4, 0.3, 0.0], rtol=1e-5)
    assert not jax.grad(lambda x: icq.expectile_loss(values, x, mask, 0.7))(q).any()


def test_the_least_expectile_loss_is_at_the_expectile() -> None:
    """Of 0 and 1, equally often, the expectile τ is τ: τ (1 - V) = (1 - τ) V."""
    q = jnp.array([0.0, 1.0])
    for expectile in (0.5, 0.7, 0.9):
        slope = jax.grad(lambda v, t=expectile: icq.expectile_loss(v, q, q >= 0, t))
        np.testing.assert_allclose(slope(jnp.full(2, expectile)).sum(), 0, atol=1e-6)


def test_losses_are_means_over_rows_with_stopped_gradients() -> None:
    rows = jnp.array([[[True], [False]], [[True], [True]]])
    q = jnp.array([[[1.0], [50.0]], [[2.0], [0.0]]])
    targets = jnp.array([[[3.0], [9.0]], [[2.0], [4.0]]])
    assert float(icq.critic_loss(q, targets, rows)) == pytest.approx((2 + 0 + 8) / 3)
    assert jax.grad(lambda t: icq.critic_loss(q, t, rows))(targets).tolist() == (q * 0).tolist()
    log_probs = jnp.array([[[-1.0], [-9.0]], [[-2.0], [-3.0]]])
    weights = jnp.array([[[1.0], [9.0]], [[0.5], [2.0]]])
    assert float(icq.policy_loss(log_probs, weights, rows)) == pytest.approx((1 + 1 + 6) / 3)
    stopped = jax.grad(lambda w: icq.policy_loss(log_probs, w, rows))(weights)
    assert stopped.tolist() == (weights * 0).tolist()
