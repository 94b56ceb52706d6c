"""rware 2.0 as the guide wraps it: its log trains, and the policy plays in it and in ours."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
from docs_pages import blocks, read
from pettingzoo.test import parallel_api_test

import oryx_marl as oryx
from oryx_marl.cli import main as cli
from oryx_marl.envs import base

PAGE = "docs/guides/your-environment.md"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the module of the guide."""
    (code,) = [each.text for each in blocks(read(PAGE)) if "class Warehouse" in each.text]
    (tmp_path / "my_rware.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("ORYX_DATA", raising=False)
    yield tmp_path
    sys.modules.pop("my_rware", None)


@pytest.mark.slow
def test_a_log_of_rware_trains_a_policy_that_plays_in_it(here, capsys):
    make = importlib.import_module("my_rware").make
    parallel_api_test(make(), 20)
    env = oryx.Recorder(make())
    rng = np.random.default_rng(0)
    for seed in range(2):
        observations, _ = env.reset(seed=seed)
        while env.agents:
            actions = {agent: int(rng.integers(5)) for agent in env.agents}
            observations, *_ = env.step(actions)
    env.save("rware/log")
    log = oryx.open("rware/log")
    assert log.episode_lengths.tolist() == [500, 500]
    assert log.observations.shape == (1_000, 2, 71)
    assert log.truncations[[499, 999]].all()
    assert not log.terminals.any()
    np.testing.assert_array_equal(log.final_observations[-1, 0], observations["agent_0"])
    small = {"updates": 2, "seeds": 1, "batch_size": 4, "sequence_length": 4, "log_every": 2}
    oryx.train("oryx", "rware/log", out="runs/oryx-rware-log", progress=False, **small)
    shown = "oryx eval runs/oryx-rware-log --env my_rware:make --workers 4"
    assert shown in read(PAGE)
    words = shown.replace("--workers 4", "--workers 0").split()[1:]
    cli.main([*words, "--episodes", "2", "--num-envs", "2"])
    assert "1 seeds x 2 episodes" in capsys.readouterr().out
    # The same policy fits into our warehouse of that name, which has the same features.
    ours = base.make_named("rware-tiny-2ag-easy")
    assert oryx.load("runs/oryx-rware-log").spec.misfits(ours.spec) == []
