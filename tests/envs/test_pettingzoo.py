"""Every environment behind PettingZoo's parallel API, by PettingZoo's own tests."""

import sys
from functools import cache

import env_conformance
import jax.numpy as jnp
import numpy as np
import pytest
from pettingzoo import ParallelEnv
from pettingzoo.test import parallel_api_test

from oryx_marl.envs import to_pettingzoo
from oryx_marl.errors import OryxError


@cache
def make(name):
    return to_pettingzoo(name, "rgb_array")


@pytest.fixture(params=env_conformance.FAMILIES)
def env(request):
    return make(request.param)


def play(env, seed):
    """A random episode: what was seen, rewarded and ended, step by step."""
    for index, agent in enumerate(env.possible_agents):
        env.action_space(agent).seed(seed + index)
    seen, infos = env.reset(seed=seed)
    log = [(seen, {}, {}, {}, infos)]
    while env.agents:
        actions = {
            agent: env.action_space(agent).sample(mask=seen[agent]["action_mask"])
            for agent in env.agents
        }
        log.append(env.step(actions))
        seen = log[-1][0]
    return log


def test_pettingzoos_own_test(env):
    assert isinstance(env, ParallelEnv)
    parallel_api_test(env, num_cycles=150)


def test_spaces_hold_what_is_seen(env):
    for seen, *_ in play(env, 3):
        for agent, observation in seen.items():
            assert env.observation_space(agent).contains(observation)
    assert env.possible_agents == [*env.env.spec.agents]


def test_a_seed_repeats_an_episode(env):
    """Where little is seen, two seeds may show the same; several do not."""
    one, again = play(env, 1), play(env, 1)
    np.testing.assert_equal(one, again)
    assert any(differs(one, play(env, seed)) for seed in range(2, 8))


def differs(one, other):
    """Whether two episodes differ in what is seen or rewarded in the steps of both."""
    return any(
        not np.array_equal(a[agent]["observation"], b[agent]["observation"])
        or rewards.get(agent) != others.get(agent)
        for (a, rewards, *_), (b, others, *_) in zip(one, other, strict=False)
        for agent in set(a) & set(b)
    )


def test_an_episode_ends_for_everyone(env):
    log = play(env, 4)
    _, _, terminations, truncations, _ = log[-1]
    for agent in env.possible_agents:
        assert terminations[agent] != truncations[agent]
    for _, _, ended, cut, _ in log[1:-1]:
        assert not any([*ended.values(), *cut.values()])
    assert 1 < len(log) <= 1 + env.env.spec.episode_limit
    assert env.step({}) == ({}, {}, {}, {}, {})


def test_state_and_picture(env):
    env.reset(seed=0)
    if env.env.spec.state_size:
        assert env.state().shape == (env.env.spec.state_size,)
    else:
        with pytest.raises(OryxError, match="has no global state"):
            env.state()
    np.testing.assert_array_equal(env.render(), env.env.render_rgb(env._state))
    assert env.render().dtype == np.uint8


def test_bad_actions_are_refused(env):
    env.reset(seed=0)
    first = env.possible_agents[0]
    fine = dict.fromkeys(env.agents, 0)
    number = env.env.spec.action.size
    for action in (number, -1, 1.5, [0, 0]):
        with pytest.raises(OryxError, match=f"no action of {first}; its actions are Discrete"):
            env.step({**fine, first: action})
    with pytest.raises(OryxError, match="no agent 'nobody'; there are"):
        env.step({**fine, "nobody": 0})
    with pytest.raises(OryxError, match=f"no action of {first}$"):
        env.step({agent: 0 for agent in env.agents if agent != first})
    env.step({agent: jnp.int32(0) for agent in env.agents})


def test_an_episode_must_have_begun():
    env = to_pettingzoo("tmaze")
    with pytest.raises(OryxError, match="call reset"):
        env.step({})
    with pytest.raises(OryxError, match="call reset"):
        env.state()


def test_render_modes():
    env = to_pettingzoo("tmaze", "ansi")
    env.reset(seed=0)
    assert env.render().startswith("step 0")
    assert env.metadata["render_modes"] == ["rgb_array", "ansi"]
    with pytest.raises(OryxError, match="render_mode must be one of rgb_array, ansi"):
        to_pettingzoo("tmaze", "human")


def test_without_pettingzoo(monkeypatch):
    monkeypatch.setitem(sys.modules, "pettingzoo", None)
    with pytest.raises(OryxError, match=r"needs the package pettingzoo.*pip install .*\[envs\]"):
        to_pettingzoo("tmaze")
