"""Multi-agent MuJoCo as a HostEnv: names, conformance, numbers of robots, pictures, no files."""

import host_conformance
import jax
import numpy as np
import pytest

from oryx_marl.envs import base, mamujoco, to_pettingzoo
from oryx_marl.errors import OryxError
from oryx_marl.eval import uniform
from oryx_marl.rollout import host


@pytest.fixture(scope="module", params=["mamujoco-hopper-3x1", "mamujoco-walker2d-2x3-omiga"])
def env(request):
    """Robots that fall within a few steps."""
    made = base.make_named(request.param, num_envs=3, num_workers=2)
    yield made
    made.close()


@pytest.mark.parametrize("check", host_conformance.CHECKS, ids=lambda check: check.__name__)
def test_conformance(env, check):
    check(env)


def test_families_outside_jax_are_told_apart():
    assert host_conformance.FAMILIES == ["mamujoco"]


@pytest.mark.parametrize(
    "name",
    [
        "mamujoco-halfcheetah-6x1",
        "mamujoco-halfcheetah-6x1-obsk0",
        "mamujoco-halfcheetah-2x3-omar",
        "mamujoco-hopper-3x1-omiga",
        "mamujoco-ant-4x2-obsk2",
    ],
)
def test_the_spec_and_the_name_build_it_again(name):
    first = base.make_named(name, num_envs=2)
    assert first.name == name
    for again in (base.make(first.spec), base.make_named(first.name)):
        assert again.spec == first.spec
        assert again.spec.environment_config == first.spec.environment_config
        assert again.num_envs == mamujoco.NUM_ENVS


def test_names_may_have_gymnasiums_capitals():
    assert base.find("mamujoco-HalfCheetah-2x3") == base.find("mamujoco-halfcheetah-2x3")
    assert base.make_named("mamujoco").name == "mamujoco-halfcheetah-6x1"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("mamujoco-humanoid-9x8", "no robot 'humanoid'; the tasks are: mamujoco-halfcheetah-2x3"),
        ("mamujoco-ant-3x3", "ant is not split into '3x3'; it is into: 2x4, 2x4d, 4x2"),
        ("mamujoco-ant", "no environment 'mamujoco-ant'.*mamujoco-ant-2x4"),
        ("mamujoco-ant-2x4-full", "no environment"),
    ],
)
def test_a_name_that_there_is_not_lists_those_there_are(name, told):
    with pytest.raises(OryxError, match=told):
        base.make_named(name)


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"robot": "crab", "agents": "2x2"}, "no robot 'crab'"),
        ({"view": "all"}, "view must be one of gymnasium, omar, omiga, got 'all'"),
        ({"obsk": -1}, "obsk must be a whole number from 0 on, got -1"),
        ({"num_envs": 0}, "num_envs must be between 1 and 65,536, got 0"),
    ],
)
def test_settings_that_cannot_be(config, told):
    with pytest.raises(OryxError, match=told):
        mamujoco.make(**config)


def test_it_writes_no_file(tmp_path, monkeypatch):
    """MuJoCo logs warnings into the working directory: of a model, and of robots that explode."""
    monkeypatch.chdir(tmp_path)
    for name in ("mamujoco-halfcheetah-6x1", "mamujoco-ant-2x4"):
        env = base.make_named(name, num_envs=2)
        env.reset(np.arange(2), np.arange(2))
        engine = env._engine
        engine.reset(np.arange(2), engine.qpos.copy(), np.full_like(engine.qvel, 1e9))
        space = env.spec.action
        env.step(np.ones((2, env.spec.num_agents, space.size), np.float32))
        env.close()
    assert not list(tmp_path.iterdir())


def test_actions_must_be_numbers():
    env = base.make_named("mamujoco-halfcheetah-2x3", num_envs=2)
    env.reset(np.arange(2), np.arange(2))
    actions = np.zeros((2, 2, 3), np.float32)
    actions[1, 0, 2] = np.nan
    with pytest.raises(OryxError, match=r"number 1\): the action of agent_0 is not finite"):
        env.step(actions)


def test_a_closed_one_says_so():
    env = base.make_named("mamujoco-ant-2x4", num_envs=2, num_workers=2)
    env.close()
    env.close()
    with pytest.raises(OryxError, match="is closed"):
        env.reset(np.arange(1), np.arange(1))


def test_pictures_show_the_robot_move():
    for name in ("mamujoco-halfcheetah-6x1", "mamujoco-ant-2x4"):
        env = base.make_named(name, num_envs=2)
        env.reset(np.arange(2), np.array([1, 1]))
        one, same = env.render_rgb(0), env.render_rgb(1)
        assert one.dtype == np.uint8
        np.testing.assert_array_equal(one, same)
        for _ in range(10):
            env.step(np.ones((2, env.spec.num_agents, env.spec.action.size), np.float32))
        assert (env.render_rgb(0) != one).any()
        assert len(np.unique(one.reshape(-1, 3), axis=0)) > env.spec.num_agents


def test_random_agents_play_whole_episodes():
    env = base.make_named("mamujoco-hopper-3x1", num_envs=4)
    played = host.play(env, uniform.uniform_policy(env.spec), jax.random.key(0), 6)
    assert (played.lengths > 1).all()
    assert (played.lengths < 1000).all()
    assert np.isfinite(played.metrics["distance"]).all()
    returns, lengths = uniform.play(env, 6, jax.random.key(0))
    np.testing.assert_array_equal(lengths, played.lengths)
    np.testing.assert_allclose(returns, played.returns, rtol=1e-5)


def test_pettingzoos_interface_is_for_those_in_jax():
    with pytest.raises(OryxError, match="needs an environment written in JAX"):
        to_pettingzoo("mamujoco-hopper-3x1")
