"""What every environment must do, as functions that take one: for ours, and for plug-ins.

    for check in env_conformance.CHECKS:
        check(my_env)

Everything holds for discrete and continuous actions; what does not apply to an environment passes.
"""

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import host_conformance
import jax
import jax.numpy as jnp
import numpy as np

from oryx_marl import registry
from oryx_marl.envs.base import Env
from oryx_marl.rollout.episodes import RESERVED
from oryx_marl.types import Observation, Spec

FAMILIES = [name for name in registry.names("envs") if name not in host_conformance.FAMILIES]
"""Those of the package in JAX."""
EPISODES = 32
SHORT = 6
"""Steps that are short enough for every environment."""
KEY = jax.random.key(7)
KEYS = jax.random.split(KEY, EPISODES)


def draw_actions(env: Env, observation: Observation, key: jax.Array) -> jax.Array:
    """Random legal actions."""
    action = env.spec.action
    draws = jax.random.uniform(key, (env.spec.num_agents, action.size))
    if action.kind == "discrete":
        return jnp.where(observation.action_mask, draws, -1).argmax(axis=-1).astype(jnp.int32)
    low, high = jnp.array(action.low), jnp.array(action.high)
    return low + (high - low) * draws


def roll_out(env: Env, key: jax.Array, steps: int) -> Any:
    """States and Steps of the reset and of `steps` random actions, [1 + steps, ...] each."""

    def advance(carry: Any, index: jax.Array) -> Any:
        state, observation = carry
        act_key, step_key = jax.random.split(jax.random.fold_in(key, index))
        state, step = env.step(state, draw_actions(env, observation, act_key), step_key)
        return (state, step.observation), (state, step)

    first = env.reset(key)
    carry = (first[0], first[1].observation)
    _, rest = jax.lax.scan(advance, carry, jnp.arange(steps))
    return jax.tree.map(lambda one, more: jnp.concatenate([one[None], more]), first, rest)


@cache
def short_roll_out(env: Env) -> Callable[[jax.Array], Any]:
    return jax.jit(lambda key: roll_out(env, key, SHORT))


@cache
def batch(env: Env) -> Any:
    """Random episodes on the host: states and Steps, [EPISODES, 1 + steps, ...]."""
    steps = env.spec.episode_limit or 50
    play = jax.jit(jax.vmap(lambda key: roll_out(env, key, steps)))
    return jax.device_get(play(KEYS))


def episodes(env: Env) -> Any:
    """The Steps of random episodes and which of them are played.

    What comes after an end is undefined and left out: the step that ends is the last one.
    """
    _, logged = batch(env)
    ended = (logged.terminal | logged.truncated).all(axis=-1)
    return logged, np.cumsum(ended, axis=1) - ended == 0


def assert_same(one: Any, other: Any, tolerance: float = 0.0) -> None:
    one, other = jax.device_get(one), jax.device_get(other)
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def check_spec_builds_it_again(env: Env, make: Callable[[Spec], Env]) -> None:
    """`make` is `envs.base.make`, or where an environment has no name what stands for it."""
    spec = Spec.from_dict(json.loads(json.dumps(env.spec.to_dict())))
    again = make(spec)
    assert again.spec == env.spec
    assert again == env
    assert hash(again) == hash(env)  # so that compiled code is shared
    assert again.version == env.version


def check_spec(env: Env) -> None:
    assert len(env.spec.observation_sizes) == env.spec.num_agents > 0
    assert len(set(env.spec.agents)) == env.spec.num_agents
    assert len(env.action_names) == env.spec.action.size
    if env.spec.action.kind == "box":
        assert len(env.spec.action.low) == len(env.spec.action.high) == env.spec.action.size
        assert np.all(np.less(env.spec.action.low, env.spec.action.high))


def check_shapes_and_dtypes(env: Env) -> None:
    spec = env.spec
    state, first = jax.eval_shape(env.reset, KEY)
    actions = jax.eval_shape(lambda o: draw_actions(env, o, KEY), first.observation)
    _, later = jax.eval_shape(env.step, state, actions, KEY)
    for step in (first, later):
        seen, agents = step.observation, (spec.num_agents,)
        assert seen.features.shape == (*agents, spec.observation_size)
        assert seen.action_mask.shape == (*agents, spec.action.size)
        assert seen.agent_mask.shape == agents
        assert seen.reset.shape == seen.step_count.shape == ()
        assert step.rewards.shape == step.terminal.shape == step.truncated.shape == agents
        assert step.rewards.dtype == jnp.float32
        assert seen.step_count.dtype == jnp.int32
        flags = (seen.action_mask, seen.agent_mask, seen.reset, step.terminal, step.truncated)
        assert {flag.dtype for flag in flags} == {jnp.dtype(bool)}
    assert first.observation.features.dtype == later.observation.features.dtype


def check_metrics(env: Env) -> None:
    """Scalars of the same names at every step, finite where they are the episode's value."""
    logged, played = episodes(env)
    assert not {*logged.metrics} & {*RESERVED}
    last = played & (logged.terminal | logged.truncated).all(axis=-1)
    for name, values in logged.metrics.items():
        assert isinstance(name, str)
        assert values.shape == played.shape
        assert np.isfinite(values[last]).all()


def check_padding(env: Env) -> None:
    """Narrow observations are padded with zeros."""
    logged, _ = episodes(env)
    for agent, size in enumerate(env.spec.observation_sizes):
        assert not logged.observation.features[:, :, agent, size:].any()


def check_feature_range(env: Env) -> None:
    logged, played = episodes(env)
    low, high = env.feature_range
    seen = logged.observation.features[played]
    assert np.isfinite(seen).all()
    assert low <= seen.min() <= seen.max() <= high
    # What is seen is constant only where the environment says so.
    assert (seen.min() < seen.max()) == (low < high)
    assert np.isfinite(logged.rewards[played]).all()


def check_beginnings(env: Env) -> None:
    """An episode begins with its reset."""
    logged, played = episodes(env)
    count = np.broadcast_to(np.arange(played.shape[1]), played.shape)
    assert (logged.observation.step_count == count)[played].all()
    assert (logged.observation.reset == (count == 0))[played].all()
    for part in (logged.rewards, logged.terminal, logged.truncated):
        assert not part[:, 0].any()


def check_present_agents_can_act(env: Env) -> None:
    logged, played = episodes(env)
    can_act = logged.observation.action_mask.any(axis=-1) | ~logged.observation.agent_mask
    over = (logged.terminal | logged.truncated).all(axis=-1)
    assert can_act[played & ~over].all()
    if env.spec.action.kind == "box":
        assert logged.observation.action_mask.all(), "continuous actions have no masks"


def check_actions_matter(env: Env) -> None:
    """Some actions lead elsewhere than others do, from the same state with the same key."""
    if env.spec.action.kind == "discrete":
        return  # check_illegal_actions tries every one of them
    states, logged = jax.tree.map(lambda x: x[:2], batch(env))

    def attempt(state: Any, observation: Observation, key: jax.Array) -> Any:
        actions = draw_actions(env, observation, key)
        return env.step(state, actions, KEY)

    over_keys = jax.vmap(attempt, in_axes=(None, None, 0))
    over_all = jax.jit(jax.vmap(jax.vmap(over_keys, (0, 0, None)), (0, 0, None)))
    found = jax.device_get(over_all(states, logged.observation, KEYS[:4]))
    assert any((x != x[:, :, :1]).any() for x in jax.tree.leaves(found)), (
        "no action makes a difference"
    )


def check_illegal_actions(env: Env) -> None:
    """An illegal action is as good as some legal one; where there is none there is nothing to show.

    Every action of one agent is tried in every state of some episodes, all else being equal.
    """
    if env.spec.action.kind != "discrete":
        return
    states, logged = jax.tree.map(lambda x: x[:2], batch(env))
    _, played = episodes(env)
    actions = jnp.arange(env.spec.action.size, dtype=jnp.int32)

    def attempt(state: Any, observation: Observation, agent: jax.Array) -> Any:
        others = draw_actions(env, observation, KEY)
        tries = jax.vmap(lambda action: env.step(state, others.at[agent].set(action), KEY)[1])
        step = tries(actions)
        found = step.rewards, step.terminal, step.truncated, step.observation.action_mask
        features = step.observation.features  # rewards may be rare, and every action legal
        return found, (features != features[:1]).any()

    over_agents = jax.vmap(attempt, in_axes=(None, None, 0))
    over_all = jax.jit(jax.vmap(jax.vmap(over_agents, (0, 0, None)), (0, 0, None)))
    agents = jnp.arange(min(env.spec.num_agents, 3))
    found, differ = jax.device_get(over_all(states, logged.observation, agents))
    over = (logged.terminal | logged.truncated).all(axis=-1)
    here = played[:2] & ~over
    # [states, agents, actions, numbers]: what came of each action.
    outcomes = np.concatenate(
        [part[here].reshape(here.sum(), len(agents), len(actions), -1) for part in found], axis=-1
    )
    action_mask = logged.observation.action_mask[here][:, : len(agents)]
    same = np.isclose(outcomes[:, :, :, None], outcomes[:, :, None], atol=1e-6).all(axis=-1)
    excused = (same & action_mask[:, :, None]).any(axis=-1)
    assert excused[~action_mask].all()
    assert (~same).any() or differ[here].any(), "no action makes a difference"


def check_starts(env: Env) -> None:
    """Each key has a start of its own, or all of the few starts that the environment owns to."""
    first, _ = jax.tree.map(lambda x: x[:, 0], batch(env))
    flat = np.concatenate([x.reshape(EPISODES, -1) for x in jax.tree.leaves(first)], axis=1)
    starts = len(np.unique(flat, axis=0))
    if env.num_starts is None:
        assert starts > 0.8 * EPISODES
    else:
        # So few that all of them are met in a handful of episodes each.
        assert 1 <= starts <= env.num_starts
        assert starts == env.num_starts or 4 * env.num_starts > EPISODES


def check_shared_rewards(env: Env) -> None:
    if not env.spec.shared_reward:
        return
    logged, played = episodes(env)
    assert (logged.rewards[played] == logged.rewards[played][:, :1]).all()


def check_episode_limit(env: Env) -> None:
    if env.spec.episode_limit is None:
        return
    logged, _ = episodes(env)
    assert (logged.terminal | logged.truncated).all(axis=-1).any(axis=1).all()


def check_terminal_or_truncated(env: Env) -> None:
    logged, played = episodes(env)
    assert not (logged.terminal & logged.truncated)[played].any()


def check_deterministic_by_key(env: Env) -> None:
    play = short_roll_out(env)
    assert_same(play(KEY), play(KEY))
    logged, _ = episodes(env)
    parts = (logged.observation.features, logged.rewards)
    ways = np.concatenate([x[:, : 1 + SHORT].reshape(EPISODES, -1) for x in parts], axis=1)
    assert len(np.unique(ways, axis=0)) > 1, "every key gives the same episode"


def check_compiled_and_not_compiled(env: Env) -> None:
    """Op by op, the first step of what was compiled as a whole."""
    act_key, step_key = jax.random.split(jax.random.fold_in(KEY, 0))
    first = env.reset(KEY)
    actions = jax.jit(draw_actions, static_argnums=0)(env, first[1].observation, act_key)
    second = env.step(first[0], actions, step_key)
    compiled = jax.tree.map(lambda x: x[:2], short_roll_out(env)(KEY))
    assert_same(jax.tree.map(lambda *both: np.stack(both), first, second), compiled, 1e-6)


def check_batched_and_one_by_one(env: Env) -> None:
    for index in range(6):
        several = jax.tree.map(lambda x, i=index: x[i, : 1 + SHORT], batch(env))
        assert_same(several, short_roll_out(env)(KEYS[index]), 1e-6)


def check_rendering(env: Env) -> None:
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


def check_global_state(env: Env) -> None:
    _, steps = short_roll_out(env)(KEY)
    if not env.spec.state_size:
        assert steps.state is None
        return
    assert steps.state.shape == (1 + SHORT, env.spec.state_size)
    assert steps.state.dtype == jnp.float32
    assert np.isfinite(steps.state).all()
    assert np.any(np.asarray(steps.state[0]) != np.asarray(steps.state[-1]))


CHECKS: tuple[Callable[[Env], None], ...] = (
    check_spec,
    check_shapes_and_dtypes,
    check_metrics,
    check_padding,
    check_feature_range,
    check_beginnings,
    check_present_agents_can_act,
    check_actions_matter,
    check_illegal_actions,
    check_starts,
    check_shared_rewards,
    check_episode_limit,
    check_terminal_or_truncated,
    check_deterministic_by_key,
    check_compiled_and_not_compiled,
    check_batched_and_one_by_one,
    check_rendering,
    check_global_state,
)
"""All that need nothing but the environment."""
