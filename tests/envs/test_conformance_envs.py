"""What every environment must do, for every environment there is."""

import json
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oryx_marl import registry
from oryx_marl.envs import base
from oryx_marl.types import Spec

EPISODES = 32
SHORT = 6
"""Steps that are short enough for every environment."""
KEY = jax.random.key(7)
KEYS = jax.random.split(KEY, EPISODES)


@cache
def make(name):
    return base.make_named(name)


@pytest.fixture(params=registry.names("envs"))
def env(request):
    return make(request.param)


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


def test_the_name_builds_the_same_environment_again(env):
    again = base.make_named(env.name)
    assert again == env
    assert hash(again) == hash(env)  # so that compiled code is shared
    assert again.version == env.version
    assert len(env.action_names) == env.spec.action.size


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


def test_observations_are_in_their_range(env):
    logged, played = episodes(env)
    low, high = env.feature_range
    seen = logged.observation.features[played]
    assert np.isfinite(seen).all()
    assert low <= seen.min() < seen.max() <= high
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


def test_an_illegal_action_is_as_good_as_some_legal_one(env):
    """Every action of one agent is tried in every state of some episodes, all else being equal."""
    if env.spec.action.kind != "discrete":
        pytest.skip("continuous actions have no masks")
    states, logged = jax.tree.map(lambda x: x[:2], batch(env))
    _, played = episodes(env)
    actions = jnp.arange(env.spec.action.size)

    def attempt(state, observation, agent):
        others = draw_actions(env, observation, KEY)
        tries = jax.vmap(lambda action: env.step(state, others.at[agent].set(action), KEY)[1])
        step = tries(actions)
        return step.rewards, step.terminal, step.truncated, step.observation.legal

    over_agents = jax.vmap(attempt, in_axes=(None, None, 0))
    over_all = jax.jit(jax.vmap(jax.vmap(over_agents, (0, 0, None)), (0, 0, None)))
    agents = jnp.arange(min(env.spec.num_agents, 3))
    found = jax.device_get(over_all(states, logged.observation, agents))
    over = (logged.terminal | logged.truncated).all(axis=-1)
    here = played[:2] & ~over
    # [states, agents, actions, numbers]: what came of each action.
    outcomes = np.concatenate(
        [part[here].reshape(here.sum(), len(agents), len(actions), -1) for part in found], axis=-1
    )
    legal = logged.observation.legal[here][:, : len(agents)]
    same = np.isclose(outcomes[:, :, :, None], outcomes[:, :, None], atol=1e-6).all(axis=-1)
    excused = (same & legal[:, :, None]).any(axis=-1)
    assert excused[~legal].all()
    assert (~legal).any()
    assert (~same).any(), "no action makes a difference"


def test_resets_are_independent(env):
    """Each key has a start of its own."""
    first, _ = jax.tree.map(lambda x: x[:, 0], batch(env))
    flat = np.concatenate([x.reshape(EPISODES, -1) for x in jax.tree.leaves(first)], axis=1)
    starts = len(np.unique(flat, axis=0))
    assert starts > 0.8 * EPISODES or (env.name == "tmaze" and starts == 4)


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
    """Op by op, the first step of what was compiled as a whole."""
    act_key, step_key = jax.random.split(jax.random.fold_in(KEY, 0))
    first = env.reset(KEY)
    actions = jax.jit(draw_actions, static_argnums=0)(env, first[1].observation, act_key)
    second = env.step(first[0], actions, step_key)
    compiled = jax.tree.map(lambda x: x[:2], short_roll_out(env)(KEY))
    assert_same(jax.tree.map(lambda *both: np.stack(both), first, second), compiled, 1e-6)


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
    _, steps = short_roll_out(env)(KEY)
    if not env.spec.state_size:
        assert steps.state is None
        return
    assert steps.state.shape == (1 + SHORT, env.spec.state_size)
    assert steps.state.dtype == jnp.float32
    assert np.isfinite(steps.state).all()
    assert np.any(np.asarray(steps.state[0]) != np.asarray(steps.state[-1]))
