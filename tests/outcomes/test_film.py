"""Replays of environments outside JAX: pictures of whole episodes, few enough for a page."""

import itertools

import numpy as np
import pytest

from oryx_marl.envs import base
from oryx_marl.eval.evaluator import Evaluator
from oryx_marl.eval.uniform import uniform_policy
from oryx_marl.outcomes._film import MOST_STEPS, Film
from oryx_marl.outcomes.replay import make_replay
from oryx_marl.recipes._scripted import Scripted


def take(length):
    """A film whose pictures and actions are the numbers of their steps."""
    film = Film(np.full((1, 1, 3), 0))
    for step in range(length):
        picture = np.full((1, 1, 3), step + 1)
        film.add(np.array([step]), 1.0 + step, step + 1 == length, lambda picture=picture: picture)
    return film


@pytest.mark.parametrize("length", [1, 7, MOST_STEPS, MOST_STEPS + 1, 1000, 1023, 3001])
def test_long_films_show_every_so_many_steps(length):
    film = take(length)
    assert len(film.actions) == len(film.rewards) == len(film.frames) - 1 <= MOST_STEPS
    shown = [int(frame[0, 0, 0]) for frame in film.frames]
    assert shown == [*range(0, length, film.every), length]
    assert [int(acted[0]) for acted in film.actions] == shown[:-1]
    assert sum(film.rewards) == pytest.approx(length * (length + 1) / 2)
    for place, (first, after) in enumerate(itertools.pairwise(shown)):
        assert film.rewards[place] == sum(range(first + 1, after + 1))
    assert film.every == 1 or len(film.actions) > MOST_STEPS // 2 - 1


def test_a_replay_is_the_episodes_that_are_scored():
    env = base.make_named("mamujoco-hopper-3x1", num_envs=2, num_workers=1)
    evaluator = Evaluator(Scripted(uniform_policy(env.spec)), env, [0])
    scores = evaluator.evaluate(None, 5, 3)
    replay = make_replay(evaluator, None, 5, 3)
    assert [len(episode.frames) - 1 for episode in replay] == scores["length"][0].tolist()
    returns = [episode.episode_return for episode in replay]
    np.testing.assert_allclose(returns, scores["return"][0], rtol=1e-5)
    for number, episode in enumerate(replay):
        assert episode.title == f"episode {number + 1}"
        assert len(episode.actions[0]) == 3
        assert all(-1 <= float(text) <= 1 for acted in episode.actions for text in acted)
        frames = itertools.pairwise(episode.frames)
        changed = [(one != other).any() for one, other in frames]
        assert np.mean(changed) > 0.9
