"""Datasets of random torques, and runs on them from the command line."""

import json

import numpy as np
import pytest

from oryx_marl import recipes
from oryx_marl.cli import main as cli
from oryx_marl.data.quality.validate import validate
from oryx_marl.errors import OryxError
from oryx_marl.recipes import mamujoco


@pytest.fixture(scope="module")
def hopper(tmp_path_factory):
    return recipes.make("mamujoco-hopper-3x1/random", tmp_path_factory.mktemp("data"), rows=200)


def test_random_torques_are_whole_episodes_of_the_box(hopper):
    data = recipes.open(hopper)
    assert data.spec.environment == "mamujoco"
    assert data.origin["simulator"].startswith("mujoco ")
    assert data.origin["environment_version"] == 1
    assert data.action_mask is None
    assert data.actions.min() < -0.9 < 0.9 < data.actions.max()
    assert np.abs(data.actions).max() <= 1
    last = np.append(data.episode_starts[1:], data.num_rows) - 1
    assert data.terminals[last].all()
    assert not data.truncations.any()
    assert not [found for found in validate(data) if found.severity == "error"]


def test_every_task_has_one_and_no_other_name_does():
    assert {*mamujoco.find_family("mamujoco-ant-4x2-obsk0")} == {"random"}
    for name in ("mamujoco-crab-2x2", "mamujoco", "tmaze"):
        assert mamujoco.find_family(name) == {}
    with pytest.raises(OryxError, match="no recipe for 'mamujoco-crab-2x2/random'"):
        recipes.require("mamujoco-crab-2x2/random")


@pytest.mark.slow
def test_runs_are_trained_scored_and_rolled_out(hopper, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    cli.main(
        f"train bc {hopper} --out run --updates 4 --log-every 2 --seeds 1 --sequence-length 4 "
        "--episodes 4 --episodes-while-training 2 --replays 1".split()
    )
    assert (tmp_path / "run" / "replay.npz").is_file()
    capsys.readouterr()
    cli.main(
        [
            "eval",
            "run",
            "--episodes",
            "4",
            "--num-envs",
            "2",
            "--workers",
            "0",
            "--act",
            "greedy",
            "--json",
        ]
    )
    told = json.loads(capsys.readouterr().out)
    assert "distance" in json.dumps(told)
    cli.main(
        [
            "data",
            "make",
            "mine/one",
            "--env",
            "mamujoco-hopper-3x1",
            "--policy",
            "run",
            "--rows",
            "20",
            "--root",
            "here",
        ]
    )
    made = recipes.open(tmp_path / "here" / "mine.vlt" / "one")
    assert made.spec.environment_config["robot"] == "hopper"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here", "run"]
