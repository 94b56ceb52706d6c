"""Units in which learners see features and values."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from oryx_marl.data import scales
from oryx_marl.data.sampler import put_on_device, sample_windows, take_windows


def discounted(rewards: np.ndarray, starts: list[int], discount: float) -> np.ndarray:
    """Returns to the end of each episode, by the definition."""
    found, later = np.zeros(rewards.shape), np.zeros(rewards.shape[1])
    for row in reversed(range(len(rewards))):
        later = rewards[row] + discount * later
        found[row] = later
        if row in starts:
            later = np.zeros(rewards.shape[1])
    return found


def test_the_scale_is_that_of_discounted_returns(full_dataset):
    """Episodes begin at rows 0, 3 and 5 of 7; steps of absent agents do not count."""
    rewards = np.random.default_rng(0).normal(3, 2, (7, 2)).astype(np.float32)
    dataset = replace(full_dataset, rewards=rewards)
    assert not dataset.agent_mask.all()
    returns = discounted(rewards, [0, 3, 5], 0.9)[dataset.agent_mask]
    scale = scales.value_scale(dataset, 0.9)
    np.testing.assert_allclose(scale, np.sqrt((returns**2).mean()), rtol=1e-6)


def test_rewards_are_given_out_in_units_of_it(build_dataset):
    rewards = np.random.default_rng(0).normal(3, 2, (7, 2)).astype(np.float32)
    dataset = replace(build_dataset(), rewards=rewards)
    data = put_on_device(dataset, value_discount=0.9)
    window = take_windows(data, jnp.array([0]), 7)
    scaled = discounted(np.asarray(window.rewards[0]), [0, 3, 5], 0.9)
    np.testing.assert_allclose((scaled**2).mean(), 1, rtol=1e-5)
    np.testing.assert_allclose(window.rewards[0] * data.value_scale, rewards, rtol=1e-5)
    as_logged = take_windows(put_on_device(dataset), jnp.array([0]), 7)
    np.testing.assert_array_equal(as_logged.rewards[0], rewards)


def test_where_nothing_is_ever_gained_the_scale_is_one(build_dataset):
    dataset = build_dataset(rows=4, starts=(0, 2))
    nothing = replace(dataset, rewards=np.zeros((4, 2), np.float32))
    assert float(scales.value_scale(nothing, 0.9)) == 1


def test_statistics_of_features_are_over_present_agents(full_dataset):
    rng = np.random.default_rng(0)
    seen = rng.normal(2, 3, full_dataset.observations.shape).astype(np.float32)
    seen[..., 1] = 7.0
    dataset = replace(full_dataset, observations=seen)
    found = scales.feature_statistics(dataset)
    present = seen[dataset.agent_mask]
    np.testing.assert_allclose(found.mean, present.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(found.std[0], present[:, 0].std(), rtol=1e-5)
    assert float(found.std[1]) == 1.0  # it never changes
    window = jax.jit(sample_windows, static_argnums=(2, 3))(
        put_on_device(dataset), jax.random.key(0), 2, 3
    )
    np.testing.assert_array_equal(window.feature_statistics.mean, found.mean)


def test_large_logs_are_sampled_by_whole_episodes(build_dataset, monkeypatch):
    monkeypatch.setattr(scales, "MOST_ROWS", 4)
    rewards = np.zeros((12, 2), np.float32)
    rewards[3:6] = 100.0  # in an episode that is left out
    dataset = build_dataset(rows=12, starts=(0, 3, 6, 9))
    dataset = replace(dataset, rewards=rewards)
    assert float(scales.value_scale(dataset, 0.9)) == 1
