"""Windows are slices of the logged rows, started uniformly."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oryx_marl.data.sampler import (
    check_length,
    consecutive_windows,
    put_on_device,
    sample_windows,
)
from oryx_marl.errors import OryxError

sample = jax.jit(sample_windows, static_argnums=(2, 3))


def test_windows_are_slices_of_every_array(full_dataset):
    window = sample(put_on_device(full_dataset), jax.random.key(0), 32, 4)
    window = window._replace(feature_statistics=None)
    reset = np.array([1, 0, 0, 1, 0, 1, 0], bool)
    step_count = np.array([0, 1, 2, 0, 1, 0, 1])
    starts = np.asarray(window.observation.features)[:, 0, 0, 0] // 6
    assert set(starts) == {0, 1, 2, 3}
    for index, start in enumerate(starts):
        rows = slice(start, start + 4)
        got = jax.tree.map(lambda leaf, index=index: np.asarray(leaf[index]), window)
        np.testing.assert_array_equal(got.observation.features, full_dataset.observations[rows])
        np.testing.assert_array_equal(got.observation.action_mask, full_dataset.action_mask[rows])
        np.testing.assert_array_equal(got.observation.agent_mask, full_dataset.agent_mask[rows])
        np.testing.assert_array_equal(got.observation.reset, reset[rows])
        np.testing.assert_array_equal(got.observation.step_count, step_count[rows])
        np.testing.assert_array_equal(got.actions, full_dataset.actions[rows])
        np.testing.assert_array_equal(got.rewards, full_dataset.rewards[rows])
        np.testing.assert_array_equal(got.terminal, full_dataset.terminals[rows])


def test_returns_to_go_end_with_their_episode(full_dataset):
    """Episodes begin at rows 0, 3 and 5 of 7."""
    rewards = np.array([[1, 0], [2, 0], [4, 1], [8, 0], [16, 0], [32, 0], [64, 5]], np.float32)
    data = put_on_device(replace(full_dataset, rewards=rewards), returns_to_go=True)
    expected = [[7, 1], [6, 1], [4, 1], [24, 0], [16, 0], [96, 5], [64, 5]]
    np.testing.assert_array_equal(data.returns_to_go, expected)
    window = sample(data, jax.random.key(0), 1, 7)
    np.testing.assert_array_equal(window.returns_to_go[0], expected)
    assert put_on_device(full_dataset).returns_to_go is None


def test_missing_masks_become_all_true(build_dataset):
    window = sample(put_on_device(build_dataset()), jax.random.key(0), 5, 2)
    assert window.observation.action_mask.shape == (5, 2, 2, 3)
    assert window.observation.agent_mask.shape == (5, 2, 2)
    assert bool(window.observation.action_mask.all() & window.observation.agent_mask.all())


def test_empty_masks_of_absent_agents_are_filled(full_dataset):
    action_mask = full_dataset.action_mask.copy()
    action_mask[4, 1] = False  # absent there
    action_mask[0, 0] = False  # present there
    data = put_on_device(replace(full_dataset, action_mask=action_mask))
    action_mask[4, 1] = True
    np.testing.assert_array_equal(data.action_mask, action_mask)


def test_dtypes(build_dataset, build_box_dataset):
    observations = np.ones((7, 2, 3), np.int8)
    data = put_on_device(build_dataset(observations=observations))
    assert data.actions.dtype == jnp.int8
    window = sample(data, jax.random.key(0), 2, 3)
    assert window.observation.features.dtype == jnp.int8
    assert window.actions.dtype == jnp.int32
    assert window.rewards.dtype == jnp.float32
    assert window.observation.step_count.dtype == jnp.int32
    box = sample(put_on_device(build_box_dataset()), jax.random.key(0), 2, 3)
    assert box.actions.shape == (2, 3, 2, 2)
    assert box.actions.dtype == jnp.float32


@pytest.mark.parametrize("dtype", [np.float64, np.int64, np.uint64])
def test_wide_features_become_float32_and_do_not_wrap(build_dataset, dtype):
    observations = np.full((7, 2, 3), 2**40, dtype)
    data = put_on_device(build_dataset(observations=observations))
    assert data.observations.dtype == jnp.float32
    assert float(data.observations[0, 0, 0]) == 2.0**40


def test_starts_are_uniform(build_dataset):
    data = put_on_device(build_dataset(rows=13, starts=(0, 5)))
    window = sample(data, jax.random.key(1), 20_000, 4)
    counts = np.bincount(np.asarray(window.observation.features)[:, 0, 0, 0] // 6, minlength=10)
    assert counts.size == 10
    # 2,000 expected for each of the 10 starts; the standard deviation is 42.
    assert np.abs(counts - 2000).max() < 5 * 42


def test_window_as_long_as_the_dataset(build_dataset):
    dataset = build_dataset()
    window = sample(put_on_device(dataset), jax.random.key(0), 1, 7)
    np.testing.assert_array_equal(window.observation.features[0], dataset.observations)


def test_too_long_a_window_is_refused(build_dataset):
    with pytest.raises(OryxError, match="has 7 logged steps, but a window needs 8"):
        check_length(7, 8)
    with pytest.raises(OryxError, match="at least 1 step"):
        check_length(7, 0)
    with pytest.raises(OryxError, match="shorter window"):
        sample(put_on_device(build_dataset()), jax.random.key(0), 1, 8)


def test_seeds_can_be_vmapped(build_dataset):
    data = put_on_device(build_dataset())
    keys = jax.random.split(jax.random.key(0), 3)
    windows = jax.vmap(lambda key: sample_windows(data, key, 4, 2))(keys)
    assert windows.observation.features.shape == (3, 4, 2, 2, 3)
    single = sample_windows(data, keys[1], 4, 2)
    np.testing.assert_array_equal(windows.rewards[1], single.rewards)


def test_consecutive_windows_go_on_where_the_last_ended(build_dataset):
    """Through all 13 rows and again from the first, five at a time; 13 batches are all there is."""
    data = put_on_device(build_dataset(rows=13, starts=(0, 5)))
    take = jax.jit(consecutive_windows, static_argnums=(3, 4))
    key, size, length = jax.random.key(0), 64, 5
    rows = [
        np.asarray(take(data, key, jnp.asarray(n), size, length).observation.features)[..., 0, 0]
        // data.observations[0].size
        for n in range(1, 15)
    ]
    ahead = np.concatenate(rows, axis=1)
    np.testing.assert_array_equal((ahead[:, 1:] - ahead[:, :-1]) % 13, 1)
    assert set(rows[0][:, 0]) == set(range(13))  # begun anywhere
    np.testing.assert_array_equal(rows[13], rows[0])
    late = take(data, key, jnp.asarray(2_000_000_001), size, length).observation.features
    after = take(data, key, jnp.asarray(2_000_000_002), size, length).observation.features
    step = (np.asarray(after)[:, 0, 0, 0] - np.asarray(late)[:, -1, 0, 0]) // 6
    np.testing.assert_array_equal(step % 13, 1)
    with pytest.raises(OryxError, match="has 13 logged steps"):
        take(data, key, jnp.asarray(1), size, 14)
