"""Environments by name, and what happens where their packages are not installed."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import oryx_marl as oryx
from oryx_marl import experiment, registry
from oryx_marl.algorithms import bc, sable
from oryx_marl.algorithms._making import make_algorithm
from oryx_marl.cli import main as cli
from oryx_marl.envs import base
from oryx_marl.errors import OryxError
from oryx_marl.types import ActionSpace

FIXTURES = Path(__file__).parents[1] / "fixtures" / "v0.1.0"


@pytest.mark.parametrize(
    ("name", "family", "config"),
    [
        ("tmaze", "tmaze", {}),
        ("connector", "connector", {}),
        (
            "con-15x15x23a",
            "connector",
            {"grid_size": 15, "num_agents": 23, "observation_mode": "published"},
        ),
        ("smacv2_30_units", "smax", {"num_units": 30}),
        ("anticoordination-500", "anticoordination", {"length": 500}),
        ("recall-7", "recall", {"delay": 7, "both_see": True}),
        ("recall-60-one-sees", "recall", {"delay": 60, "both_see": False}),
        ("hanabi", "hanabi", {}),
        (
            "rware-2x3x8-10ag",
            "rware",
            {
                "shelf_rows": 2,
                "shelf_columns": 3,
                "column_height": 8,
                "num_agents": 10,
                "num_requests": 10,
                "reward": "individual",
                "action_mask": "all",
            },
        ),
    ],
)
def test_find(name, family, config):
    assert base.find(name) == (family, config)


def test_an_unknown_name_is_told_what_there_is(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["train", "sable", "--env", "con-15x15"])
    assert ended.value.code == 2
    message = " ".join(capsys.readouterr().err.split())
    for word in (
        "'con-15x15'",
        "tmaze",
        "con-25x25x50a",
        "any con-<G>x<G>x<N>a",
        "smacv2_30_units",
        "any anticoordination-<T>",
        "recall-60-one-sees",
        "hanabi",
        "rware-tiny-2ag-easy",
        "rware-<rows>x<columns>x<height>-<N>ag",
        "mamujoco-halfcheetah-6x1",
        "-obsk<K>, -omar or -omiga",
    ):
        assert word in message


def test_runs_are_called_by_the_scenario(tmp_path):
    env = base.make_named("con-7x7x5a")
    work = experiment.Experiment("sable", sable.Config(), env, tmp_path)
    assert work.task == "con-7x7x5a"
    algorithm = make_algorithm("sable", sable.Config(), env.spec)
    assert experiment.describe(work, algorithm).dataset == "con-7x7x5a"


@pytest.mark.parametrize(
    ("name", "package"),
    [
        ("connector", "jumanji"),
        ("smax", "jaxmarl"),
        ("hanabi", "jaxmarl"),
        ("mamujoco", "mujoco"),
        ("mamujoco", "gymnasium"),
    ],
)
def test_a_missing_package_is_named(name, package, monkeypatch):
    for module in [m for m in sys.modules if m.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(OryxError, match=rf"needs the package {package}.*pip install .*\[envs\]"):
        base.make_named(name)


def test_simulators_are_imported_only_when_needed_and_quietly():
    """jaxmarl prints two lines, and puts the original streams in the place of ours."""
    code = """
import io, sys
from oryx_marl import cli
from oryx_marl.envs import base
base.find("con-35x35x100a")
base.find("tmaze")
found = {"jumanji", "jaxmarl", "pettingzoo", "gymnasium", "mujoco", "matplotlib"} & set(sys.modules)
assert not found, found
ours = sys.stdout, sys.stderr = io.StringIO(), io.StringIO()
base.optional("jaxmarl.environments.smax")
assert (sys.stdout, sys.stderr) == ours
sys.__stdout__.write(ours[0].getvalue() + ours[1].getvalue())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""


def test_a_plug_in_may_make_an_environment_of_pettingzoo(tmp_path, own_plugins):
    """So that logs which a Recorder made are scored where they were made."""
    (tmp_path / "meet_zoo.py").write_text(
        "from toy_parallel import parallel_env\ndef make(**config): return parallel_env()"
    )
    registry.add_file(tmp_path / "meet_zoo.py")
    env = base.make_named("meet_zoo")
    assert base.is_host(env)
    assert env.spec.agents == ("left", "right")
    env.close()


@pytest.mark.parametrize(
    "name",
    [
        "tmaze",
        "con-5x5x3a",
        "smacv2_5_units",
        "anticoordination-60",
        "recall-60",
        "hanabi",
        "rware-tiny-2ag",
    ],
)
def test_actions_are_named_without_the_environment(name):
    env = base.make_named(name)
    assert base.find_action_names(env.spec) == list(env.action_names)


def test_actions_that_nobody_names():
    spec = base.make_named("tmaze").spec
    for other in (
        replace(spec, environment=""),
        replace(spec, environment="nowhere"),
        replace(spec, action=ActionSpace("discrete", 6)),
        replace(spec, action=ActionSpace("box", 7)),
        replace(spec, environment="smax", environment_config={"units": 3}),
    ):
        assert base.find_action_names(other) is None


def test_old_data_and_policies_of_a_known_environment_have_words_for_actions(capsys):
    """The dataset of the package was recorded without them, and stays as it is."""
    words = list(base.make_named("tmaze").action_names)
    dataset = oryx.open("tmaze/planner-mixed")
    assert "action_names" not in dataset.origin
    cli.main(["data", "info", "tmaze/planner-mixed", "--json"])
    assert json.loads(capsys.readouterr().out)["action_names"] == words
    cli.main(["data", "info", "tmaze/planner-mixed"])
    assert "choose green" in " ".join(capsys.readouterr().out.split())
    for old in ("policy.npz", "run"):
        assert oryx.load(FIXTURES / old).action_names == words
    work = experiment.Experiment("bc", bc.Config(), dataset, FIXTURES / "none")
    algorithm = make_algorithm("bc", bc.Config(), dataset.spec)
    assert experiment.describe(work, algorithm).action_names == words
