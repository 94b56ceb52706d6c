"""Runs, a vault and a policy that version 0.1.0 wrote: they open, go on, act and make pages."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import oryx_marl
from oryx_marl import config as configs
from oryx_marl import experiment, registry
from oryx_marl.data import vault
from oryx_marl.data.dataset import Dataset
from oryx_marl.envs import base
from oryx_marl.envs.tmaze import TMaze
from oryx_marl.errors import OryxError
from oryx_marl.experiment import EvaluationSettings, Experiment
from oryx_marl.policy import artifact
from oryx_marl.report import page
from oryx_marl.runs import checkpoint
from oryx_marl.runs.documents import (
    DatasetCard,
    Evaluation,
    MarlEval,
    MetricRow,
    RunConfig,
    SpecDocument,
    Summary,
)
from oryx_marl.runs.folder import Run
from oryx_marl.runs.held_out import HeldOut
from oryx_marl.training.loop import TrainSettings

FIXTURES = Path(__file__).parent.parent / "fixtures" / "v0.1.0"
RUNS = ("run", "run-logs-only", "run-online")


@pytest.fixture(params=RUNS)
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    """A copy of each run, so that nothing changes the fixtures."""
    return Run(shutil.copytree(FIXTURES / request.param, tmp_path / request.param))


def refuse(*arguments: Any) -> None:
    raise AssertionError("the environment was built")


def observations(policy: artifact.PolicyArtifact) -> np.ndarray:
    return np.zeros((policy.spec.num_agents, policy.spec.observation_size), np.float32)


def test_documents_are_read(run: Run) -> None:
    config = run.read(RunConfig)
    assert (config.seeds, config.updates, config.version) == ((0, 1), 4, "0.1.0")
    assert run.read(SpecDocument).spec.num_agents == 2
    assert [row.update for row in run.rows(MetricRow)] == [2, 4]
    if run.folder.name == "run-logs-only":
        assert list(run.rows(Evaluation)) == []
        assert run.read(HeldOut).episodes == 2
        assert not run.has(Summary)
    else:
        (row,) = run.rows(Evaluation)
        assert (row.update, row.returns.shape, row.metrics) == (4, (2, 4), {})
        assert set(run.read(Summary).scores) == {
            (weights, acting) for weights in ("last", "best") for acting in ("sampled", "greedy")
        }
        assert set(run.read(MarlEval).by_seed(config.algorithm)) == {"0", "1"}
    if not config.online:
        assert run.read(DatasetCard).name == config.dataset


def test_documents_lose_nothing_when_they_are_written_again(run: Run) -> None:
    for kind in (RunConfig, SpecDocument, Summary, HeldOut, DatasetCard, MarlEval):
        if not run.has(kind):
            continue
        before = run.read(kind).to_json()
        run.write(run.read(kind))
        assert run.read(kind).to_json() == before


def test_policies_need_no_environment(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """In version 0.1.0 that of an online learner built it, and so needed its packages."""
    monkeypatch.setattr(base, "make", refuse)
    policy = run.policy()
    assert policy.seeds == (0, 1)
    assert policy.origin["update"] == 4
    for leaf in jax.tree.leaves(policy.weights):
        assert leaf.shape[0] == 2
        assert np.isfinite(leaf).all()
    player = oryx_marl.load(run.folder, seed=1)
    assert player.act(observations(policy)).shape == (2,)


def test_weights_are_those_of_the_checkpoint(run: Run) -> None:
    arrays = checkpoint.read(run.checkpoints).tree
    last = artifact.flatten(run.policy("last").weights)
    part = "target" if run.read(RunConfig).algorithm == "oryx" else "network"  # it acts with this
    assert last
    for name, array in last.items():
        np.testing.assert_array_equal(array, arrays[f"learners/{part}/{name}"])
    if run.folder.name == "run-logs-only":
        return
    best = artifact.flatten(run.policy("best").weights)
    assert {f"best/{name}" for name in best} == {n for n in arrays if n.startswith("best/")}
    for name, array in best.items():
        np.testing.assert_array_equal(array, arrays[f"best/{name}"])


def test_without_an_environment_there_is_no_best() -> None:
    with pytest.raises(OryxError, match=r'has no best weights.*which="last"'):
        oryx_marl.load(FIXTURES / "run-logs-only", which="best")


def test_the_policy_file_acts_as_its_run_does() -> None:
    file, run = artifact.load(FIXTURES / "policy.npz"), Run(FIXTURES / "run").policy()
    assert file.seeds == (0,)
    jax.tree.map(np.testing.assert_array_equal, file.weights_of(), run.weights_of(0))
    players = [oryx_marl.load(FIXTURES / name, random_seed=2) for name in ("policy.npz", "run")]
    for _ in range(5):
        one, other = (player.act(observations(run)).tolist() for player in players)
        assert one == other


def test_pages_are_made(run: Run) -> None:
    text = page.write(run.folder).read_text(encoding="utf-8")
    config = run.read(RunConfig)
    assert f"<b>{config.dataset}</b>" in text
    assert "cannot be read" not in text
    assert "oryx-marl 0.1.0 on cpu" in text
    if run.folder.name != "run-logs-only":
        score = run.read(Summary).scores["last", "sampled"]
        assert f'<span class="value">{score.mean:.2f}</span>' in text


def continued(run: Run, updates: int) -> Experiment:
    """The run's own settings, with more updates."""
    config, spec = run.read(RunConfig), run.read(SpecDocument).spec
    names = ("log_every", "evaluate_every", "checkpoint_every", "continue_on_divergence")
    train = TrainSettings(updates, 2, **{name: config.rest[name] for name in names})
    learn_from: Dataset | TMaze = TMaze()
    if not config.online:
        logged = vault.read(FIXTURES / "tmaze.vlt" / "fixture")
        learn_from = replace(logged, spec=spec, name=config.dataset)
    return Experiment(
        config.algorithm,
        configs.from_stored(registry.load("algorithms", config.algorithm).Config, config.config),
        learn_from,
        run.folder,
        train,
        EvaluationSettings(**config.rest["evaluation"]),
    )


@pytest.mark.parametrize(
    "run",
    ["run-logs-only", *(pytest.param(r, marks=pytest.mark.slow) for r in ("run", "run-online"))],
    indirect=True,
)
def test_runs_go_on(run: Run) -> None:
    """And from then on have versions, checksums and policy files."""
    experiment.run(continued(run, 6), resume=True)
    assert [row.update for row in run.rows(MetricRow)] == [2, 4, 6]
    assert run.newest_update() == 6
    assert '"format_version": 1' in (run.folder / "config.json").read_text()
    assert run.policy().origin["update"] == 6
    assert artifact.read_origin(run.folder / "policy" / "last.npz")["update"] == 6
    page.write(run.folder)
