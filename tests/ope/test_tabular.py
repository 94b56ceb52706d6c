"""Importance sampling with the true probabilities, against exact dynamic programming."""

import numpy as np
from tabular_game import Tabular, log_odds, play

from oryx_marl.ope import estimators


def ratios_of(episodes: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    behaviour, policy = Tabular.uniform(), Tabular.coordinated()
    states, actions, rewards = play(behaviour, episodes, seed)
    logs = log_odds(policy, states, actions) - log_odds(behaviour, states, actions)
    return logs, rewards


def test_simulation_agrees_with_dynamic_programming() -> None:
    policy = Tabular.coordinated()
    returns = play(policy, 40_000)[2].sum(axis=1)
    error = returns.std() / np.sqrt(len(returns))
    assert abs(returns.mean() - policy.value()) < 4 * error
    assert policy.value() > Tabular.uniform().value() + 0.5


def test_ordinary_per_decision_is_unbiased() -> None:
    """The mean over many small samples is the exact value; the weighted form is biased there."""
    exact = Tabular.coordinated().value()
    logs, rewards = ratios_of(20_000, 0)
    small = [slice(first, first + 4) for first in range(0, 20_000, 4)]
    ordinary = np.array([estimators.pdis(logs[s], rewards[s])[0] for s in small])
    error = ordinary.std() / np.sqrt(len(ordinary))
    assert abs(ordinary.mean() - exact) < 4 * error
    weighted = np.array([estimators.weighted_pdis(logs[s], rewards[s])[0] for s in small])
    assert weighted.std() < ordinary.std()
    assert abs(weighted.mean() - exact) > 4 * weighted.std() / np.sqrt(len(weighted))


def test_weighted_form_converges_with_episodes() -> None:
    exact = Tabular.coordinated().value()
    errors = []
    for episodes in (10, 1_000, 40_000):
        found = [
            estimators.weighted_pdis(*ratios_of(episodes, seed))[0] - exact for seed in range(10)
        ]
        errors.append(float(np.sqrt(np.mean(np.square(found)))))
    assert errors[0] > 3 * errors[1] > 9 * errors[2]
    assert errors[2] < 0.02
