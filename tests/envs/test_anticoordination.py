"""Anti-coordination: who is rewarded, when a recording ends, and how mistakes are counted."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oryx_marl.envs import anticoordination, base
from oryx_marl.envs.anticoordination import Anticoordination, mistakes_by_ten
from oryx_marl.errors import OryxError

KEY = jax.random.key(0)
EQUAL, DIFFERENT = [1, 1], [2, 0]


def play(env, actions):
    """The Steps after these actions, [T, ...]."""
    state, first = env.reset(KEY)
    _, steps = jax.lax.scan(lambda s, a: env.step(s, a, KEY), state, jnp.asarray(actions))
    return first, steps


def test_only_different_actions_are_rewarded():
    pairs = [[a, b] for a in range(3) for b in range(3)]
    first, steps = play(Anticoordination(), pairs)
    np.testing.assert_array_equal(steps.rewards, np.repeat([[a != b] for a, b in pairs], 2, axis=1))
    assert (np.asarray(steps.observation.features) == 1).all()
    assert (np.asarray(first.observation.features) == 1).all()
    assert steps.observation.action_mask.all()


def test_the_length_is_a_time_limit():
    _, steps = play(Anticoordination(7), [EQUAL] * 7)
    assert not steps.terminal.any()
    np.testing.assert_array_equal(steps.truncated.all(axis=1), np.arange(7) == 6)
    assert not steps.truncated[:6].any()


def test_mistakes_are_counted_by_ten():
    """1 of 10, then 3 of 10, then 2 of the last 4."""
    is_mistake = np.zeros(24, bool)
    is_mistake[[9, 10, 14, 19, 20, 23]] = True
    actions = np.where(is_mistake[:, None], EQUAL, DIFFERENT)
    _, steps = play(Anticoordination(24), actions)
    np.testing.assert_allclose(steps.metrics["mistakes"][np.array([9, 23])], [0.1, 0.25])
    np.testing.assert_allclose(
        steps.metrics["mistakes_worst_ten"][np.array([8, 9, 18, 19, 22, 23])],
        [0, 0.1, 0.1, 0.3, 0.3, 0.5],
        rtol=1e-6,
    )
    flawless = np.broadcast_to(DIFFERENT, actions.shape)
    np.testing.assert_allclose(mistakes_by_ten(actions[None]), [0.1, 0.3, 0.5])
    np.testing.assert_allclose(mistakes_by_ten(np.stack([actions, flawless])), [0.05, 0.15, 0.25])


def test_independent_agents_make_a_mistake_in_a_third_of_the_steps():
    actions = np.random.default_rng(0).integers(3, size=(400, 60, 2))
    found = mistakes_by_ten(actions)
    assert found.shape == (6,)
    np.testing.assert_allclose(found, 1 / 3, atol=0.03)


def test_lengths_by_name():
    env = base.make_named("anticoordination-500")
    assert (env.name, env.spec.episode_limit) == ("anticoordination-500", 500)
    assert base.make_named("anticoordination") == Anticoordination(60)
    with pytest.raises(OryxError, match="length must be at least 1, got 0"):
        base.make_named("anticoordination-0")
    with pytest.raises(OryxError, match="no setting steps; it has: length"):
        anticoordination.make(steps=3)


def test_pictures():
    env = Anticoordination()
    start, _ = env.reset(KEY)
    assert env.render_text(start) == "step 0: 0 mistakes\nagent_0 -\nagent_1 -"
    equal, _ = env.step(start, jnp.array(EQUAL), KEY)
    different, _ = env.step(equal, jnp.array(DIFFERENT), KEY)
    assert env.render_text(different) == "step 2: 1 mistakes\nagent_0 c\nagent_1 a"
    left, right = (slice(24, 48), slice(24, 48)), (slice(24, 48), slice(72, 96))
    assert (env.render_rgb(equal)[left] == env.render_rgb(equal)[right]).all()
    assert (env.render_rgb(different)[left] != env.render_rgb(different)[right]).any()
    assert env.render_rgb(equal)[0, 0, 0] < env.render_rgb(different)[0, 0, 0]
