"""Multi-agent MuJoCo against gymnasium-robotics, bit by bit, and its views of datasets."""

import warnings
from functools import partial

import mujoco
import numpy as np
import pytest

from oryx_marl.envs import _mamujoco_views, base, mamujoco

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from gymnasium_robotics import mamujoco_v1

TITLES = {
    "halfcheetah": "HalfCheetah",
    "hopper": "Hopper",
    "walker2d": "Walker2d",
    "swimmer": "Swimmer",
    "ant": "Ant",
}
LONG = 1_100
"""Steps: more than an episode has."""
TASKS = [
    ("halfcheetah", "6x1", "gymnasium", 1, LONG),
    ("halfcheetah", "6x1", "gymnasium", 0, 60),
    ("halfcheetah", "2x3", "gymnasium", 1, LONG),
    ("halfcheetah", "2x3", "gymnasium", 0, 60),
    ("halfcheetah", "2x3", "omar", 1, LONG),
    ("hopper", "3x1", "gymnasium", 1, LONG),
    ("hopper", "3x1", "gymnasium", 0, 60),
    ("ant", "2x4", "gymnasium", 1, LONG),
    ("ant", "2x4", "gymnasium", 0, 60),
    ("ant", "2x4d", "gymnasium", 2, 30),
    ("ant", "4x2", "gymnasium", 1, 30),
    ("walker2d", "2x3", "gymnasium", 1, 300),
    ("swimmer", "2x1", "gymnasium", 1, 100),
]


@pytest.fixture(autouse=True)
def _no_log(monkeypatch, tmp_path):
    """gymnasium-robotics makes MuJoCo 4 write a log into the working directory."""
    monkeypatch.chdir(tmp_path)


def make_theirs(robot, agents, view, obsk):
    options = {"agent_obsk": 0, "global_categories": ()} if view == "omar" else {"agent_obsk": obsk}
    mujoco.set_mju_user_warning(lambda message: None)
    try:
        return mamujoco_v1.parallel_env(TITLES[robot], agents, **options)
    finally:
        mujoco.set_mju_user_warning(None)


class Pair:
    """Two robots of ours and two of theirs, with the same seeds and actions."""

    def __init__(self, robot, agents, view, obsk):
        self.ours = mamujoco.make(robot, agents, view, obsk, num_envs=2, num_workers=2)
        self.theirs = [make_theirs(robot, agents, view, obsk) for _ in range(2)]
        self.num_ends = self.seed = 0

    def compare(self, index, step, place, seen):
        """What both show; `place` is that of the robot in our step."""
        theirs = self.theirs[index]
        assert np.array_equal(self.ours.states()[index], theirs.state())
        assert np.array_equal(step.state[place], theirs.state().astype(np.float32))
        for agent, name in enumerate(theirs.possible_agents):
            features = step.observation.features[place, agent]
            size = self.ours.spec.observation_sizes[agent]
            assert np.array_equal(features[:size], seen[name].astype(np.float32))
            assert not features[size:].any()

    def reset(self, which):
        self.seed += 1
        seeds = 1000 * self.seed + np.array(which)
        step = self.ours.reset(np.array(which), seeds)
        for place, index in enumerate(which):
            seen, _ = self.theirs[index].reset(seed=int(seeds[place]))
            self.compare(index, step, place, seen)

    def step(self, actions):
        after = self.ours.step(actions)
        for index, theirs in enumerate(self.theirs):
            acts = dict(zip(theirs.possible_agents, actions[index], strict=True))
            seen, rewards, terminal, truncated, _ = theirs.step(acts)
            self.compare(index, after, index, seen)
            first = theirs.possible_agents[0]
            assert np.all(after.rewards[index] == np.float32(rewards[first]))
            assert np.all(after.terminal[index] == terminal[first])
            assert np.all(after.truncated[index] == (truncated[first] and not terminal[first]))
        ended = np.flatnonzero((after.terminal | after.truncated).all(axis=1))
        self.num_ends += len(ended)
        if len(ended):
            self.reset(ended.tolist())


@pytest.mark.parametrize(("robot", "agents", "view", "obsk", "steps"), TASKS)
def test_every_step_is_gymnasium_robotics(robot, agents, view, obsk, steps):
    pair = Pair(robot, agents, view, obsk)
    rng = np.random.default_rng(0)
    spec = pair.ours.spec
    assert spec.agents == tuple(pair.theirs[0].possible_agents)
    space = pair.theirs[0].action_space("agent_0")
    assert (spec.action.low, spec.action.high) == (tuple(space.low), tuple(space.high))
    pair.reset([1, 0])
    for number in range(steps):
        # Beyond the box now and then: physics clips what its cost counts.
        scale = 1.3 if number % 7 == 0 else 1.0
        actions = rng.uniform(-scale, scale, (2, spec.num_agents, spec.action.size))
        pair.step(actions.astype(np.float32))
    assert pair.num_ends >= (2 if steps == LONG else 0)
    pair.ours.close()


def test_rewards_are_theirs_before_they_are_rounded(monkeypatch):
    """Steps hold float32; what it is rounded from is the same to the last bit."""
    pair = Pair("ant", "2x4", "gymnasium", 1)
    unrounded = []
    put = pair.ours._put
    monkeypatch.setattr(pair.ours, "_put", lambda *told: (unrounded.append(told[1]), put(*told)))
    pair.reset([0, 1])
    for number in range(20):
        actions = np.random.default_rng(number).uniform(-1, 1, (2, 2, 4)).astype(np.float32)
        pair.ours.step(actions)
        for index, theirs in enumerate(pair.theirs):
            told = theirs.step(dict(zip(theirs.possible_agents, actions[index], strict=True)))
            assert told[1]["agent_0"] == unrounded[-1][index]


@pytest.mark.parametrize(
    ("robot", "agents"), [("halfcheetah", "6x1"), ("hopper", "3x1"), ("ant", "2x4")]
)
def test_omiga_sees_the_standardised_state(robot, agents):
    env = mamujoco.make(robot, agents, "omiga", num_envs=2, num_workers=1)
    step = env.reset(np.arange(2), np.arange(2))
    rng = np.random.default_rng(0)
    for _ in range(10):
        shape = (2, env.spec.num_agents, env.spec.action.size)
        step = env.step(rng.uniform(-1, 1, shape).astype(np.float32))
    for index in range(2):
        for agent in range(env.spec.num_agents):
            one_hot = np.zeros(env.spec.num_agents)
            one_hot[agent] = 1
            whole = np.concatenate([env.states()[index], one_hot])
            wanted = (whole - np.mean(whole)) / np.std(whole)
            np.testing.assert_array_equal(
                step.observation.features[index, agent], wanted.astype(np.float32)
            )
        np.testing.assert_array_equal(step.state[index], step.observation.features[index, 0])


def test_omigas_view_is_undone_by_its_ids():
    state = np.random.default_rng(0).normal(size=(5, 17)) * 4
    views = _mamujoco_views.normalise(state, 6)
    for agent in range(6):
        found = _mamujoco_views.denormalise(views[:, agent], agent, 6)
        np.testing.assert_allclose(found, state, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "width"),
    [
        ("mamujoco-halfcheetah-2x3-omar", 6),
        ("mamujoco-halfcheetah-6x1-omiga", 23),
        ("mamujoco-hopper-3x1-omiga", 14),
        ("mamujoco-ant-2x4-omiga", 107),
    ],
)
def test_widths_are_those_of_the_published_data(name, width):
    """But for the ant, which has 113 there: MuJoCo 2 counted the forces on the world."""
    assert set(base.make_named(name).spec.observation_sizes) == {width}


@pytest.mark.parametrize("threads", [1, 3])
def test_the_number_of_threads_changes_nothing(threads):
    make = partial(mamujoco.make, "ant", "2x4", num_envs=5)
    alone, shared = make(num_workers=1), make(num_workers=threads)
    rng = np.random.default_rng(1)
    for env in (alone, shared):
        env.reset(np.arange(5), np.arange(5))
    for _ in range(5):
        actions = rng.uniform(-1, 1, (5, 2, 4)).astype(np.float32)
        one, other = alone.step(actions), shared.step(actions)
        np.testing.assert_array_equal(one.state, other.state)
        np.testing.assert_array_equal(one.rewards, other.rewards)
    shared.close()
