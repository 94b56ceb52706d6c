"""Whatever a user calls an environment becomes one that can be scored, or a clear error."""

import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import toy_envs
import toy_parallel

from oryx_marl import api, registry
from oryx_marl.cli import main as cli
from oryx_marl.envs import as_env, base, resolve
from oryx_marl.envs.adapters.from_pettingzoo import ParallelEnvs
from oryx_marl.envs.base import is_host
from oryx_marl.envs.tmaze import TMaze
from oryx_marl.errors import OryxError, OryxWarning


def test_ours_stay_what_they_are():
    env, host = toy_envs.make(), ParallelEnvs(toy_parallel.parallel_env, 2)
    assert as_env(env) is env
    assert as_env(host) is host
    assert as_env("tmaze") == TMaze()
    assert as_env(toy_envs.make) == env
    assert as_env("toy_envs:make") == env
    assert not is_host(env)


def test_pettingzoo_becomes_a_host_environment():
    one = toy_parallel.parallel_env()
    env = as_env(one)
    assert is_host(env)
    assert (env.num_envs, env.num_workers) == (1, 0)
    env.reset(np.array([0]), np.array([3]))
    assert one.agents  # the user's own object plays
    for thing in (toy_parallel.parallel_env, toy_parallel.Meet, "toy_parallel:parallel_env"):
        env = as_env(thing, num_envs=3, num_workers=0, episode_limit=4)
        assert (env.num_envs, env.spec.episode_limit, env.name) == (3, 4, "meet")
    env = as_env("toy_parallel:parallel_env", num_envs=2, num_workers=2)
    assert env.num_workers == 2
    env.close()


def test_a_policy_must_fit():
    spec = toy_envs.make().spec
    assert as_env(toy_parallel.parallel_env(), fits=spec).spec.action.kind == "box"
    with pytest.raises(
        OryxError, match=r"does not fit the environment 'meet'; observation width: 11 against 2"
    ):
        as_env(toy_parallel.parallel_env(), fits=TMaze().spec)


@pytest.mark.parametrize("num_workers", [0, 1])
def test_agents_are_matched_by_name(num_workers: int):
    """In version 0.1.0 by place: a policy of (red, blue) played blue's part as red."""
    spec = as_env(toy_parallel.parallel_env()).spec
    turned = replace(spec, agents=spec.agents[::-1])
    envs = [
        as_env("toy_parallel:parallel_env", num_envs=1, num_workers=num_workers, fits=each)
        for each in (spec, turned)
    ]
    assert [env.spec.agents for env in envs] == [("left", "right"), ("right", "left")]
    one, other = (env.reset(np.array([0]), np.array([7])) for env in envs)
    np.testing.assert_array_equal(one.observation.features, other.observation.features[:, ::-1])
    moves = np.array([[[1.0], [0.0]]], np.float32)
    one, other = envs[0].step(moves), envs[1].step(moves[:, ::-1])
    np.testing.assert_array_equal(one.rewards, other.rewards[:, ::-1])
    for env in envs:
        env.close()


def test_agents_of_other_names_are_told_of():
    spec = replace(as_env(toy_parallel.parallel_env()).spec, agents=("a", "b"))
    with pytest.warns(OryxWarning, match="are a, b, not left, right; they are matched by place"):
        as_env(toy_parallel.parallel_env(), fits=spec)
    env = toy_envs.make()
    turned = replace(env.spec, agents=env.spec.agents[::-1])
    with pytest.raises(OryxError, match="agents stand in another order"):
        as_env(env, fits=turned)


class Unclosed(toy_parallel.Meet):
    """Says nothing of how it is closed, as plain classes do."""

    close = property()


def test_environments_need_not_be_closed():
    env = as_env(Unclosed, num_envs=2, num_workers=0)
    env.reset(np.array([0, 1]), np.array([0, 1]))
    env.close()


def test_what_is_no_environment_is_refused():
    for thing in (3, {"a": 1}, lambda: 3, SimpleNamespace(spec=None)):
        with pytest.raises(OryxError, match="is no environment"):
            as_env(thing)
    with pytest.raises(OryxError, match="there is no environment 'mazes'"):
        as_env("mazes")

    def broken():
        raise RuntimeError("no licence")

    with pytest.raises(OryxError, match="environment of broken could not be made: RuntimeError"):
        as_env(broken)
    turns = toy_parallel.Meet()
    turns.agent_iter = None
    with pytest.raises(OryxError, match="aec_to_parallel"):
        as_env(turns)


def test_names_of_functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "a_users_env.py").write_text("VALUE = 3\ndef make():\n    return VALUE\n")
    (tmp_path / "a_broken_env.py").write_text("import a_missing_package\n")
    (tmp_path / "a_failing_env.py").write_text("1 / 0\n")
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    assert resolve("a_users_env:make")() == 3
    for name, told in [
        ("a_users_env", "with a colon"),
        (":make", "with a colon"),
        ("a_users_env:", "with a colon"),
        ("no_such_env:make", "there is no module no_such_env; run this in the folder"),
        ("a_users_env.inner:make", "there is no module a_users_env.inner"),
        ("a_users_env:build", "a_users_env has no 'build'"),
        ("a_users_env:VALUE", "is no function but a int"),
        ("a_broken_env:make", "a_broken_env needs a_missing_package, which is not installed"),
        ("a_failing_env:make", "cannot be imported: ZeroDivisionError"),
    ]:
        with pytest.raises(OryxError, match=told):
            resolve(name)


def test_a_family_outside_jax_is_scored_and_trained_in_with_one_seed(
    tmp_path: Path, own_plugins: None
):
    plugin = tmp_path / "meeting.py"
    plugin.write_text("""
import toy_parallel
from oryx_marl.envs.adapters.from_pettingzoo import ParallelEnvs

def make(num_envs=2):
    return ParallelEnvs(toy_parallel.parallel_env, num_envs, environment="meeting")
""")
    registry.add_file(plugin)
    env = as_env("meeting")
    assert is_host(env)
    assert base.make(env.spec).num_envs == 2
    command = ["train", "sable", "--env", "meeting", "--seeds", "2", "--out"]
    with pytest.raises(OryxError, match="one seed is trained at a time, not 2"):
        api.train("sable", "meeting", out=tmp_path / "run", seeds=2)
    with pytest.raises(SystemExit):
        cli.main([*command, str(tmp_path / "run")])
    assert not (tmp_path / "run").exists()
