"""What others add without touching the package: an environment, its data, a host environment."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oryx_marl as oryx
from oryx_marl import registry
from oryx_marl.cli import main as cli
from oryx_marl.data import vault
from oryx_marl.experiment import EvaluationSettings

HELPERS = Path(__file__).parent / "helpers"
SETTINGS = {
    "updates": 2_000,
    "seeds": 2,
    "batch_size": 32,
    "sequence_length": 10,
    "learning_rate": 2e-3,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A user's folder with a plug-in, and in it data that were recorded behind PettingZoo."""
    folder = tmp_path_factory.mktemp("meet")
    for name in ("toy_envs.py", "toy_parallel.py"):
        shutil.copy(HELPERS / name, folder / name)
    kept = dict(registry._added)
    oryx.load_plugin(folder / "toy_envs.py")
    record(folder, "scripted", wrong=0.0)
    record(folder, "half", wrong=0.5)
    yield folder
    registry._added.clear()
    registry._added.update(kept)


def record(folder: Path, name: str, wrong: float) -> None:
    """2,000 episodes, in which moves go the wrong way with a given probability."""
    recorder = oryx.Recorder(make_host(), environment="toy_envs")
    noise = np.random.default_rng(0)
    for episode in range(2_000):
        observations, _ = recorder.reset(seed=episode)
        while recorder.agents:
            actions = {agent: go(seen, noise) for agent, seen in observations.items()}
            for agent in actions:
                if wrong and noise.random() < wrong:
                    actions[agent] = -actions[agent]
            observations, *_ = recorder.step(actions)
    vault.write_parts(recorder.parts(f"meet/{name}"), folder / "data" / "meet.vlt" / name)


def make_host() -> Any:
    from toy_parallel import parallel_env

    return parallel_env()


def go(seen: np.ndarray, noise: np.random.Generator) -> np.ndarray:
    """Towards the target, about half of the way at a time."""
    position, target = seen
    return np.tanh([2 * (target - position) + 0.5 * noise.normal()]).astype(np.float32)


@pytest.fixture(scope="module")
def run(folder: Path) -> oryx.TrainedRun:
    data = oryx.open(folder / "data" / "meet.vlt" / "scripted")
    return oryx.train(
        "bc",
        data,
        out=folder / "run",
        evaluation=EvaluationSettings(episodes=2_000),
        progress=False,
        **SETTINGS,
    )


@pytest.mark.slow
def test_continuous_actions_are_cloned_and_scored(folder: Path, run: oryx.TrainedRun) -> None:
    """To within 2% of the return of the data, in the plug-in's environment; greedy acting, without
    the noise of the logs, is better."""
    data = oryx.open(folder / "data" / "meet.vlt" / "scripted")
    assert data.spec.action.kind == "box"
    expected = data.episode_returns.mean()
    assert run.summary is not None
    sampled, greedy = (run.summary.scores["last", way] for way in ("sampled", "greedy"))
    assert run.score == greedy  # the headline of continuous actions
    assert abs(sampled.mean - expected) < 0.02 * abs(expected)
    assert greedy.mean > sampled.mean + 0.1
    assert greedy.metrics["near"].mean > 0.9 > sampled.metrics["near"].mean
    actions = oryx.load(run, act="greedy").act({"left": [0.0, 0.8], "right": [0.5, 0.1]})
    assert actions["left"] == pytest.approx(np.tanh([1.6]), abs=0.1)
    assert actions["right"] == pytest.approx(np.tanh([-0.8]), abs=0.1)


@pytest.mark.slow
def test_oryx_improves_on_continuous_logs(folder: Path) -> None:
    """Logged moves go the wrong way half of the time: a clone does so too, Oryx goes to its
    targets."""
    data = oryx.open(folder / "data" / "meet.vlt" / "half")
    runs = {
        objective: oryx.train(
            "oryx",
            data,
            out=folder / objective,
            evaluation=EvaluationSettings(episodes=500),
            progress=False,
            objective=objective,
            **SETTINGS,
        )
        for objective in ("icq", "bc")
    }
    logged = data.episode_returns.mean()
    assert runs["icq"].score.mean > logged + 0.3 * abs(logged)
    assert runs["icq"].score.mean > runs["bc"].score.mean + 0.3 * abs(logged)


@pytest.mark.slow
def test_the_metric_of_an_environment_reaches_page_and_tables(
    folder: Path, run: oryx.TrainedRun, capsys: pytest.CaptureFixture
) -> None:
    assert run.page is not None
    assert ">near<" in run.page.read_text()
    cli.main(["eval", str(run.folder), "--episodes", "8"])
    assert "near" in capsys.readouterr().out.split()  # the head of a column
    from oryx_marl.cli.train import show

    show(run)
    assert "near" in capsys.readouterr().out


@pytest.mark.slow
def test_a_host_environment_is_scored_by_its_name(
    folder: Path,
    run: oryx.TrainedRun,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture,
) -> None:
    """The same game outside JAX, in worker processes: the score is the same."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [*sys.path])
    command = ["eval", "run", "--env", "toy_parallel:parallel_env", "--episodes", "64"]
    cli.main([*command, "--workers", "2", "--num-envs", "8", "--json"])
    import json

    found = json.loads(capsys.readouterr().out)
    assert found["mean"] == pytest.approx(run.score.mean, rel=0.15)
    assert found["metrics"]["near"]["mean"] > 0.1
    again = oryx.evaluate(run, make_host, episodes=64, num_envs=8, num_workers=0)
    assert again.score.mean == pytest.approx(found["mean"], abs=1e-6)
    with pytest.raises(oryx.OryxError, match="there is no module nowhere"):
        oryx.evaluate(run, "nowhere:make")


@pytest.mark.slow
def test_box_data_without_an_environment_are_held_out(folder: Path) -> None:
    from dataclasses import replace

    data = oryx.open(folder / "data" / "meet.vlt" / "scripted")
    logs = replace(data, spec=replace(data.spec, environment=""), name="logs/only")
    run = oryx.train("bc", logs, out=folder / "held", progress=False, **SETTINGS)
    assert run.held_out is not None
    assert run.held_out.action_accuracy.mean > 2 * run.held_out.baseline["action_accuracy"]
    assert run.held_out.log_likelihood is not None
    assert run.held_out.log_likelihood.mean > run.held_out.baseline["log_likelihood"] + 0.5
    with pytest.raises(oryx.OryxError, match="scored in no environment"):
        _ = run.score
