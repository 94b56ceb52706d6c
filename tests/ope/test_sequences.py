"""Whole episodes in sequences: horizons, ends, final observations, absent agents."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np

from oryx_marl.data.dataset import Dataset
from oryx_marl.ope import fqe
from oryx_marl.ope.sequences import by_episode, find_horizon, pack, returns_within
from oryx_marl.types import ActionSpace, Spec

LENGTHS = np.array([4, 2, 5, 5, 3, 5, 5, 5, 5, 5, 5, 5])


def make_logs(limit: int | None = None) -> Dataset:
    """Two agents; the second episode is terminated, all others are cut off."""
    rows = int(LENGTHS.sum())
    starts = np.append(0, np.cumsum(LENGTHS)[:-1])
    last = starts + LENGTHS - 1
    terminals, truncations = np.zeros((rows, 2), bool), np.zeros((rows, 2), bool)
    terminals[last[1]], truncations[last] = True, True
    truncations[last[1]] = False
    seen = np.arange(rows * 2, dtype=np.float32).reshape(rows, 2, 1)
    agent_mask = np.ones((rows, 2), bool)
    agent_mask[starts[2] + 1 : starts[2] + 3, 1] = False
    return Dataset(
        Spec("", ("a", "b"), (1, 1), ActionSpace("discrete", 2), limit, shared_reward=False),
        seen,
        np.zeros((rows, 2), np.int32),
        np.repeat(np.arange(rows, dtype=np.float32)[:, None], 2, axis=1),
        terminals,
        truncations,
        starts,
        agent_mask=agent_mask,
        final_observations=-np.arange(24, dtype=np.float32).reshape(12, 2, 1) - 1,
    )


def test_horizon_leaves_few_episodes_cut_off_before_it() -> None:
    found = find_horizon(make_logs())
    assert found.steps == 4  # one of twelve may be cut off before: that of three steps
    assert found.terminated.tolist() == [number == 1 for number in range(12)]
    assert np.flatnonzero(found.censored).tolist() == [4]
    assert find_horizon(make_logs(3)).steps == 3
    assert not find_horizon(make_logs(3)).censored.any()


def test_returns_are_counted_within_the_horizon() -> None:
    logs = make_logs()
    found = returns_within(logs, find_horizon(logs))
    assert found[0] == 0 + 1 + 2 + 3
    assert found[2] == 6 + 7 + 8 + 9  # its fifth step is beyond


def test_ends_and_final_observations() -> None:
    logs = make_logs()
    packed = pack(logs, find_horizon(logs), np.arange(12) % 2)
    sequences = packed.sequences
    for fold in (0, 1):
        inside = np.asarray(sequences.is_step)[packed.fold == fold]
        episodes = np.asarray(sequences.episode)[packed.fold == fold][inside]
        assert set((episodes % 2).tolist()) == {fold}
    goes_on = by_episode(packed, np.asarray(sequences.goes_on, float), 12)
    assert goes_on[0].tolist() == [1, 1, 1, 0]  # the horizon
    assert goes_on[1].tolist() == [1, 0, 0, 0]  # the task's end
    assert goes_on[4].tolist() == [1, 1, 1, 0]  # cut off, so its final observation follows
    where = np.argwhere((np.asarray(sequences.episode) == 4) & ~np.asarray(sequences.is_step))
    assert len(where) == 1
    at = tuple(where[0])
    seen = sequences.window.observation
    assert seen.features[at].ravel().tolist() == [-9, -10]
    assert int(seen.step_count[at]) == 3
    assert not bool(seen.reset[at])
    assert seen.agent_mask[at].all()
    assert not np.asarray(seen.agent_mask)[~np.asarray(sequences.is_step)].sum() > 2


def test_an_end_of_which_nothing_is_known_has_no_target() -> None:
    logs = replace(make_logs(), final_observations=None)
    packed = pack(logs, find_horizon(logs), np.zeros(12, int))
    targets = by_episode(packed, np.asarray(packed.sequences.has_target, float), 12)
    assert targets[4].tolist() == [1, 1, 0, 0]
    assert targets[1].tolist() == [1, 1, 0, 0]
    assert targets[0].tolist() == [1, 1, 1, 1]


def test_an_absent_agent_has_no_value_of_its_own() -> None:
    logs = make_logs()
    packed = pack(logs, find_horizon(logs), np.zeros(12, int))
    found = fqe.prepare(logs, packed)
    mask = by_episode(packed, np.asarray(found.mask[..., 2], float), 12)
    assert mask[2].tolist() == [0, 0, 0, 1]  # gone after the first step, back at the last
    team = by_episode(packed, np.asarray(found.mask[..., 0], float), 12)
    assert team[2].tolist() == [1, 1, 1, 1]


def test_baseline_is_the_mean_return_from_a_step_on() -> None:
    logs = make_logs()
    packed = pack(logs, find_horizon(logs), np.zeros(12, int))
    found = fqe.prepare(logs, packed)
    baseline = by_episode(packed, np.asarray(found.baseline[..., 0]) * float(found.scale), 12)
    rewards = by_episode(packed, np.asarray(packed.sequences.team_rewards), 12)
    last = [rewards[e, 3] for e in range(12) if LENGTHS[e] >= 4]
    np.testing.assert_allclose(baseline[0, 3], np.mean(last), rtol=1e-5)


def test_retrace_by_hand() -> None:
    """Three steps, then the horizon: y_2 = 4, y_1 = 2 + V_2 + λc_2 (4 - 3), and so on."""
    q = jnp.array([[[1.0], [2.0], [3.0]]])
    values = jnp.array([[[1.5], [2.5], [3.5]]])
    rewards = jnp.array([[[1.0], [2.0], [4.0]]])
    ratios = jnp.array([[1.0, 0.5, 0.25]])
    mask = jnp.ones((1, 3, 1), bool)
    bootstrap = jnp.array([[[True], [True], [False]]])
    found = fqe.retrace(q, values, rewards, ratios, mask, bootstrap, 0.8)
    last = 4.0
    middle = 2.0 + 3.5 + 0.8 * 0.25 * (last - 3.0)
    first = 1.0 + 2.5 + 0.8 * 0.5 * (middle - 2.0)
    np.testing.assert_allclose(found.ravel(), [first, middle, last], rtol=1e-6)
