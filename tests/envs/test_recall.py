"""Recall: what is seen when, when an answer counts, and who sees the cue."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oryx_marl.envs import base, recall
from oryx_marl.envs.recall import Recall, State
from oryx_marl.errors import OryxError

KEY = jax.random.key(3)
DELAY = 60
ENV = Recall()
CUE = 2


def start(env=ENV):
    """An episode with a cue that is known here."""
    state = State(jnp.int32(CUE), jnp.full(2, -1, jnp.int32), jnp.int32(0))
    return state, env._answer(state)


def play(env, answers, waiting=0):
    """All Steps of an episode with these answers, [2 + delay, ...]."""
    actions = np.full((env.delay + 1, 2), waiting)
    actions[-1] = answers
    state, first = start(env)
    _, steps = jax.lax.scan(lambda s, a: env.step(s, a, KEY), state, jnp.asarray(actions))
    return jax.tree.map(lambda one, more: np.concatenate([one[None], more]), first, steps)


@pytest.mark.parametrize("both_see", [True, False])
def test_the_cue_is_seen_once(both_see):
    seen = play(Recall(both_see=both_see), [1, 1]).observation.features
    expected = np.zeros((2 + DELAY, 2, 5))
    expected[0, : 1 + both_see, CUE] = 1
    expected[DELAY, :, 4] = 1
    np.testing.assert_array_equal(seen, expected)


def test_nothing_but_waiting_is_available_in_between():
    masks = play(ENV, [1, 1]).observation.action_mask
    np.testing.assert_array_equal(masks[:DELAY], np.broadcast_to([1, 0, 0, 0, 0], (DELAY, 2, 5)))
    np.testing.assert_array_equal(masks[DELAY], np.broadcast_to([0, 1, 1, 1, 1], (2, 5)))


@pytest.mark.parametrize(
    ("answers", "reward"),
    [([1 + CUE, 1 + CUE], 1), ([1 + CUE, 1], 0), ([1, 1 + CUE], 0), ([1, 1], 0), ([0, 0], 0)],
)
def test_both_must_name_the_cue(answers, reward):
    steps = play(ENV, answers)
    assert not steps.rewards[:-1].any()
    np.testing.assert_array_equal(steps.rewards[-1], [reward, reward])
    assert steps.metrics["success"][-1] == reward
    assert not steps.terminal[:-1].any()
    assert not steps.truncated.any()
    assert steps.terminal[-1].all()


def test_an_early_answer_does_not_count():
    steps = play(ENV, [1, 1], waiting=1 + CUE)
    assert not steps.rewards.any()


def test_cues_are_drawn_alike():
    cues = jax.vmap(lambda key: ENV.reset(key)[0].cue)(jax.random.split(KEY, 2_000))
    np.testing.assert_allclose(np.bincount(cues, minlength=4) / 2_000, 0.25, atol=0.04)


def test_tasks_by_name():
    assert base.make_named("recall") == base.make_named("recall-60") == ENV
    other = base.make_named("recall-5-one-sees")
    assert (other.name, other.delay, other.both_see) == ("recall-5-one-sees", 5, False)
    assert other != Recall(5)
    with pytest.raises(OryxError, match="delay must be at least 1, got 0"):
        base.make_named("recall-0")
    with pytest.raises(OryxError, match="no setting cues; it has: both_see, delay"):
        recall.make(cues=3)


def test_pictures():
    state, _ = start(Recall(1))
    assert ENV.render_text(state) == "step 0: cue 2, answer at 60\nagent_0 -\nagent_1 -"
    answered = State(state.cue, jnp.array([2, 0]), jnp.int32(61))
    assert ENV.render_text(answered).endswith("agent_0 2\nagent_1 0")
    picture = ENV.render_rgb(answered)
    cue, first, second = picture[60, 60], picture[108, 36], picture[108, 84]
    assert (cue == first).all()
    assert (cue != second).any()
    assert (ENV.render_rgb(state)[108, 36] != first).any()
    assert (picture[0] == picture[0, 0]).all()  # the bar is full
