"""What every environment must do, for every environment there is."""

import json
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oryx_marl import registry
from oryx_marl.envs import base
from oryx_marl.errors import OryxError
from oryx_marl.types import Spec

EPISODES = 32
SHORT = 6
"""Steps that are short enough for every environment."""
KEY = jax.random.key(7)
KEYS = jax.random.split(KEY, EPISODES)


@cache
def make(name):
    try:
        return registry.load("envs", name).make()
    except OryxError as error:
        if "install" not in str(error):
            raise
        return str(error)


@pytest.fixture(params=registry.names("envs"))
def env(request):
    made = make(request.param)
    if isinstance(made, str):
        pytest.skip(made)
    return made


def draw_actions(env, observation, key):
    """Random legal actions."""
    action = env.spec.action
    draws = jax.random.uniform(key, (env.spec.num_agents, action.size))
    if action.kind == "discrete":
        return jnp.where(observation.legal, draws, -1).argmax(axis=-1)
    low, high = jnp.array(action.low), jnp.array(action.high)
    return low + (high - low) * draws


def roll_out(env, key, steps):
    """States and Steps of the reset and of `steps` random actions, [1 + steps, ...] each."""

    def advance(carry, index):
        state, observation = carry
        act_key, step_key = jax.random.split(jax.random.fold_in(key, index))
        state, step = env.step(state, draw_actions(env, observation, act_key), step_key)
        return (state, step.observation), (state, step)

    first = env.reset(key)
    carry = (first[0], first[1].observation)
    _, rest = jax.lax.scan(advance, carry, jnp.arange(steps))
    return jax.tree.map(lambda one, more: jnp.concatenate([one[None], more]), first, rest)


@cache
def short_roll_out(env):
    return jax.jit(lambda key: roll_out(env, key, SHORT))


@cache
def batch(env):
    """Random episodes on the host: states and Steps, [EPISODES, 1 + steps, ...]."""
    steps = env.spec.episode_limit or 50
    play = jax.jit(jax.vmap(lambda key: roll_out(env, key, steps)))
    return jax.device_get(play(KEYS))


def episodes(env):
    """The Steps of random episodes and which of them are played.

    What comes after an end is undefined and left out: the step that ends is the last one.
    """
    _, logged = batch(env)
    ended = (logged.terminal | logged.truncated).all(axis=-1)
    return logged, np.cumsum(ended, axis=1) - ended == 0


def assert_same(one, other, tolerance=0.0):
    one, other = jax.device_get(one), jax.device_get(other)
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def test_the_spec_builds_the_same_environment_again(env):
    spec = Spec.from_dict(json.loads(json.dumps(env.spec.to_dict())))
    assert base.make(spec).spec == env.spec
    assert env.spec.environment in registry.names("envs")
    assert len(env.spec.observation_sizes) == env.spec.num_agents > 0
    assert len(set(env.spec.agents)) == env.spec.num_agents


def test_shapes_and_dtypes_are_those_of_the_spec(env):
    spec = env.spec
    state, first = jax.eval_shape(env.reset, KEY)
    actions = jax.eval_shape(lambda o: draw_actions(env, o, KEY), first.observation)
    _, later = jax.eval_shape(env.step, state, actions, KEY)
    for step in (first, later):
        seen, agents = step.observation, (spec.num_agents,)
        assert seen.features.shape == (*agents, spec.observation_size)
        assert seen.legal.shape == (*agents, spec.action.size)
        assert seen.present.shape == agents
        assert seen.reset.shape == seen.step_count.shape == ()
        assert step.rewards.shape == step.terminal.shape == step.truncated.shape == agents
        assert step.rewards.dtype == jnp.float32
        assert seen.step_count.dtype == jnp.int32
        flags = (seen.legal, seen.present, seen.reset, step.terminal, step.truncated)
        assert {flag.dtype for flag in flags} == {jnp.dtype(bool)}
    assert first.observation.features.dtype == later.observation.features.dtype


def test_narrow_observations_are_padded_with_zeros(env):
    logged, _ = episodes(env)
    for agent, size in enumerate(env.spec.observation_sizes):
        assert not logged.observation.features[:, :, agent, size:].any()


def test_observations_are_finite(env):
    logged, played = episodes(env)
    assert np.isfinite(logged.observation.features[played]).all()
    assert np.isfinite(logged.rewards[played]).all()


def test_an_episode_begins_with_its_reset(env):
    logged, played = episodes(env)
    count = np.broadcast_to(np.arange(played.shape[1]), played.shape)
    assert (logged.observation.step_count == count)[played].all()
    assert (logged.observation.reset == (count == 0))[played].all()
    for part in (logged.rewards, logged.terminal, logged.truncated):
        assert not part[:, 0].any()


def test_every_present_agent_can_act(env):
    logged, played = episodes(env)
    can_act = logged.observation.legal.any(axis=-1) | ~logged.observation.present
    over = (logged.terminal | logged.truncated).all(axis=-1)
    assert can_act[played & ~over].all()


def test_shared_rewards_are_shared(env):
    if not env.spec.shared_reward:
        pytest.skip("rewards are per agent")
    logged, played = episodes(env)
    assert (logged.rewards[played] == logged.rewards[played][:, :1]).all()


def test_every_episode_ends_within_the_limit(env):
    if env.spec.episode_limit is None:
        pytest.skip("episodes have no bound")
    logged, _ = episodes(env)
    assert (logged.terminal | logged.truncated).all(axis=-1).any(axis=1).all()


def test_terminal_and_truncated_never_both(env):
    logged, played = episodes(env)
    assert not (logged.terminal & logged.truncated)[played].any()


def test_deterministic_by_key(env):
    play = short_roll_out(env)
    assert_same(play(KEY), play(KEY))
    logged, _ = episodes(env)
    ways = logged.observation.features[:, : 1 + SHORT].reshape(EPISODES, -1)
    assert len(np.unique(ways, axis=0)) > 1, "every key gives the same episode"


def test_compiled_and_not_compiled_agree(env):
    draw = jax.jit(lambda observation, key: draw_actions(env, observation, key))

    def play(reset, step):
        state, answer = reset(KEY)
        answers = [answer]
        for key in KEYS[:3]:
            state, answer = step(state, draw(answer.observation, key), key)
            answers.append(answer)
        return state, answers

    assert_same(play(env.reset, env.step), play(jax.jit(env.reset), jax.jit(env.step)), 1e-6)


def test_batched_and_one_by_one_agree(env):
    for index in range(6):
        several = jax.tree.map(lambda x, i=index: x[i, : 1 + SHORT], batch(env))
        assert_same(several, short_roll_out(env)(KEYS[index]), 1e-6)


def test_rendering(env):
    states, _ = short_roll_out(env)(KEY)
    shapes = set()
    for index in range(1 + SHORT):
        state = jax.tree.map(lambda x, i=index: x[i], states)
        assert env.render_text(state).strip()
        picture = env.render_rgb(state)
        assert picture.dtype == np.uint8
        assert picture.ndim == 3
        assert np.ptp(picture) > 0
        shapes.add(picture.shape)
    assert len(shapes) == 1
    assert shapes.pop()[2] == 3


def test_global_state_is_what_the_spec_says(env):
    _, steps = roll_out(env, KEY, SHORT)
    if not env.spec.state_size:
        assert steps.state is None
        return
    assert steps.state.shape == (1 + SHORT, env.spec.state_size)
    assert steps.state.dtype == jnp.float32
    assert np.isfinite(steps.state).all()
    assert np.any(np.asarray(steps.state[0]) != np.asarray(steps.state[-1]))
