"""Logs of anti-coordination and recall: what was played, as the environment says it."""

from pathlib import Path

import numpy as np
import pytest

from oryx_marl import recipes
from oryx_marl.envs.anticoordination import mistakes_by_ten
from oryx_marl.errors import OryxError
from oryx_marl.recipes import _any_policy


def make(name: str, root: Path, rows: int, seed: int = 0):
    recipes.make(name, root, rows=rows, seed=seed)
    return recipes.open(name, root)


@pytest.fixture(scope="module")
def never_equal(tmp_path_factory):
    return make("anticoordination-25/random-first", tmp_path_factory.mktemp("data"), 25 * 400)


@pytest.fixture(scope="module")
def half(tmp_path_factory):
    return make("recall-6/half", tmp_path_factory.mktemp("data"), 7 * 2_000)


def test_logged_actions_always_differ(never_equal):
    assert never_equal.num_episodes == 400
    assert (never_equal.episode_lengths == 25).all()
    assert (never_equal.rewards == 1).all()
    assert (never_equal.observations == 1).all()
    ends = np.arange(never_equal.num_rows) % 25 == 24
    assert (never_equal.truncations == ends[:, None]).all()
    assert not never_equal.terminals.any()
    assert not mistakes_by_ten(never_equal.actions.reshape(400, 25, 2)).any()


def test_each_pair_of_different_actions_is_as_likely_as_another(never_equal):
    pairs = np.bincount(never_equal.actions @ np.array([3, 1]), minlength=9) / never_equal.num_rows
    expected = np.where(np.eye(3, dtype=bool), 0, 1 / 6).ravel()
    np.testing.assert_allclose(pairs, expected, atol=0.02)


def test_actions_do_not_depend_on_those_before(never_equal):
    actions = never_equal.actions.reshape(400, 25, 2)
    assert abs((actions[:, 1:] == actions[:, :-1]).mean() - 1 / 3) < 0.02


def test_half_of_the_answers_follow_the_cue(half):
    assert (half.episode_lengths == 7).all()
    cues = half.observations[half.episode_starts, 0, :4].argmax(axis=-1)
    answers = half.actions[half.episode_starts + 6] - 1
    right = answers == cues[:, None]
    np.testing.assert_array_equal(half.episode_returns, right.all(axis=1))
    # A half, and of the other half a quarter by luck, independently of each other.
    np.testing.assert_allclose(right.mean(axis=0), 5 / 8, atol=0.04)
    assert abs(right.all(axis=1).mean() - 17 / 32) < 0.04
    assert abs((right[:, 0] & ~right[:, 1]).mean() - 3 / 32) < 0.03
    wrong = answers[~right[:, 0], 0]
    np.testing.assert_allclose(np.bincount(wrong, minlength=4) / len(wrong), 0.25, atol=0.06)
    assert not half.actions[np.arange(half.num_rows) % 7 < 6].any()


def test_who_does_not_see_the_cue_answers_by_it_all_the_same(tmp_path):
    found = make("recall-6-one-sees/half", tmp_path, 7 * 500)
    assert not found.observations[:, 1, :4].any()
    assert abs(found.episode_returns.mean() - 17 / 32) < 0.08


@pytest.mark.slow
def test_the_seed_makes_it_again(tmp_path, monkeypatch):
    name = "anticoordination-5/random-first"
    one, again, other = (
        make(name, tmp_path / str(number), 500, seed) for number, seed in enumerate((3, 3, 4))
    )
    assert one.fingerprint() == again.fingerprint() != other.fingerprint()
    assert one.origin["command"] == f"oryx data make {name} --rows 500 --seed 3"
    assert one.origin["action_names"] == ["a", "b", "c"]
    monkeypatch.setattr(_any_policy, "PART_ROWS", 200)
    parts = make(name, tmp_path / "parts", 500, 3)
    assert parts.num_rows == 500
    assert not np.array_equal(parts.actions[:200], parts.actions[200:400])  # other random numbers


def test_names_and_sizes(tmp_path):
    listed = {entry.name for entry in recipes.names(tmp_path)}
    rows = {
        "anticoordination-60/random": 60_000,
        "anticoordination-60/random-first": 60_000,
        "anticoordination-500/random": 500_000,
        "anticoordination-500/random-first": 500_000,
        "recall-60/half": 610_000,
        "recall-60-one-sees/half": 610_000,
    }
    assert {*rows, "hanabi/bot", "hanabi/mixed"} <= listed
    assert {name: recipes.usual_rows(name) for name in rows} == rows
    assert recipes.usual_rows("recall-9/half") == 100_000
    assert all(recipes.is_made_quickly(name, tmp_path) for name in rows)
    with pytest.raises(OryxError, match="delay must be at least 1"):
        recipes.make("recall-0/half", tmp_path)
