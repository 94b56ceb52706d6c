"""Estimates on a two-step, two-agent problem, worked out by hand, and on an exact tabular game."""

import numpy as np
import pytest

from oryx_marl.ope import estimators, evaluate, intervals
from oryx_marl.ope.intervals import Estimate

# Two episodes of two steps with two agents. Behaviour: each agent takes either of two actions with
# 1/2, so every joint action has 1/4. The policy: agent 0 takes action 1 with 0.8, agent 1 then
# copies it with 0.9, so that a joint action (1, 1) has 0.72, (1, 0) 0.08, (0, 0) 0.18, (0, 1) 0.02.
JOINT = {(1, 1): 0.72, (1, 0): 0.08, (0, 0): 0.18, (0, 1): 0.02}
ACTIONS = [[(1, 1), (0, 0)], [(1, 0), (1, 1)]]
RATIOS = np.array([[JOINT[pair] / 0.25 for pair in episode] for episode in ACTIONS])
REWARDS = np.array([[1.0, 2.0], [0.0, 4.0]])


def test_ratios_by_hand() -> None:
    np.testing.assert_allclose(RATIOS, [[2.88, 0.72], [0.32, 2.88]])


def test_ordinary_per_decision() -> None:
    # (2.88 · 1 + 2.88 · 0.72 · 2 + 0.32 · 2.88 · 4) / 2
    expected = (2.88 + 2.0736 * 2 + 0.9216 * 4) / 2
    assert estimators.pdis(np.log(RATIOS), REWARDS)[0] == pytest.approx(expected)


def test_weighted_per_decision() -> None:
    # Step 0: weights 2.88 and 0.32; step 1: 2.0736 and 0.9216.
    expected = 2.88 / 3.2 * 1 + (2.0736 * 2 + 0.9216 * 4) / 2.9952
    assert estimators.weighted_pdis(np.log(RATIOS), REWARDS)[0] == pytest.approx(expected)


def test_clipped() -> None:
    found = np.exp(estimators.clip_ratios(np.log(RATIOS), 1.5))
    np.testing.assert_allclose(found, [[1.5, 0.72], [0.32, 1.5]])


def test_weighted_doubly_robust() -> None:
    q = np.array([[1.0, 1.5], [0.5, 3.0]])
    values = np.array([[2.0, 1.0], [2.5, 2.0]])
    first = 0.9 * (1 - 1) + 0.1 * (0 - 0.5) + (2.0 + 2.5) / 2
    share = 2.0736 / 2.9952
    second = share * (2 - 1.5) + (1 - share) * (4 - 3) + 0.9 * 1.0 + 0.1 * 2.0
    found = estimators.weighted_doubly_robust(np.log(RATIOS), REWARDS, q, values)
    assert found[0] == pytest.approx(first + second)


def test_doubly_robust_with_a_perfect_critic_needs_no_weights() -> None:
    """Where Q and V are exact and the game is deterministic, weights do not matter."""
    rewards = np.array([[1.0, 2.0], [1.0, 2.0]])
    q = values = np.array([[3.0, 2.0], [3.0, 2.0]])
    found = estimators.weighted_doubly_robust(np.log(RATIOS), rewards, q, values)
    assert found[0] == pytest.approx(3.0)


def test_effective_sample_size() -> None:
    # Weights 0.9 and 0.1: 1 / (0.81 + 0.01).
    found = estimators.effective_sample_size(np.log(RATIOS))
    share = 2.0736 / 2.9952
    np.testing.assert_allclose(found, [1 / 0.82, 1 / (share**2 + (1 - share) ** 2)])


def test_hundreds_of_steps_do_not_overflow() -> None:
    logs = np.full((3, 2_000), 2.0)
    logs[1] = -2.0
    assert np.isfinite(estimators.weighted_pdis(logs, np.ones((3, 2_000)))).all()
    assert estimators.effective_sample_size(logs)[-1] == pytest.approx(2)


def test_resamples_are_those_of_repeated_episodes() -> None:
    counts = np.array([[2.0, 0.0], [1.0, 1.0]])
    alone = estimators.weighted_pdis(np.log(RATIOS[[0, 0]]), REWARDS[[0, 0]])[0]
    found = estimators.weighted_pdis(np.log(RATIOS), REWARDS, counts)
    assert found[0] == pytest.approx(alone)
    assert found[1] == pytest.approx(estimators.weighted_pdis(np.log(RATIOS), REWARDS)[0])


def test_interval_of_a_mean_covers_it() -> None:
    """95% intervals of 60 Normal draws cover the true mean about 95 times in 100."""
    generator = np.random.default_rng(0)
    hits = 0
    for seed in range(200):
        found = intervals.mean_of_episodes(generator.normal(1.0, 2.0, 60), seed)
        assert isinstance(found, Estimate)
        assert found.low is not None
        assert found.high is not None
        hits += found.low <= 1.0 <= found.high
    assert 180 <= hits <= 199


def test_weights_have_a_mean_of_one_only_if_the_behaviour_is_known() -> None:
    """Half of the episodes took either action with 1/2; the policy takes the first with 0.9."""
    taken = np.repeat([[0.9], [0.1]], 500, axis=0)
    counts = intervals.bootstrap_counts(len(taken))
    known = np.log(taken / 0.5)
    np.testing.assert_allclose(estimators.mean_weight(known), 1.0)
    assert evaluate._distrust(known, 500.0, counts) == ""
    misjudged = np.log(taken / np.repeat([[0.3], [0.7]], 500, axis=0))
    np.testing.assert_allclose(estimators.mean_weight(misjudged), (3.0 + 1 / 7) / 2)
    assert "should have one of 1" in evaluate._distrust(misjudged, 500.0, counts)
    assert "effective episodes" in evaluate._distrust(known, 3.0, counts)
