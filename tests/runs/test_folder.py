"""The policies of a run: from their files if those are current, else from the newest checkpoint."""

import os
import shutil
import threading
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from oryx_marl import experiment
from oryx_marl.algorithms import bc, sable
from oryx_marl.data import catalog
from oryx_marl.data.subsample import whole_episodes
from oryx_marl.envs import base
from oryx_marl.envs.tmaze import TMaze
from oryx_marl.errors import OryxError, UnknownNameError
from oryx_marl.experiment import EvaluationSettings, Experiment
from oryx_marl.locks import LockedError
from oryx_marl.networks.recurrent import RecurrentConfig
from oryx_marl.networks.sable import NetworkConfig
from oryx_marl.policy import artifact
from oryx_marl.report import page
from oryx_marl.runs import checkpoint
from oryx_marl.runs.documents import RunConfig, SpecDocument
from oryx_marl.runs.folder import Run, load_policy
from oryx_marl.training.loop import TrainSettings

CONFIG = bc.Config(network=RecurrentConfig(8, 8), batch_size=4, sequence_length=4)
ONLINE = sable.Config(network=NetworkConfig(width=8), num_envs=4, rollout_length=8, minibatches=2)
SCORES = EvaluationSettings(episodes=4, episodes_while_training=4, replays=0)


def work(out: Path, updates: int) -> Experiment:
    logged = whole_episodes(catalog.open("tmaze/planner-expert"), 300, 0)
    train = TrainSettings(updates, 2, log_every=2, evaluate_every=2, checkpoint_every=2)
    return Experiment("bc", CONFIG, logged, out, train, SCORES)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("finished") / "run"
    experiment.run(work(out, 4))
    return out


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Run:
    """A copy that a test may spoil."""
    return Run(shutil.copytree(finished, tmp_path / "run"))


@pytest.fixture(scope="module")
def online(tmp_path_factory: pytest.TempPathFactory) -> Run:
    out = tmp_path_factory.mktemp("online") / "run"
    train = TrainSettings(2, 1, log_every=2, evaluate_every=2, checkpoint_every=2)
    experiment.run(Experiment("sable", ONLINE, TMaze(), out, train, SCORES))
    return Run(out)


def files_of(run: Run) -> dict[str, Path]:
    return {which: run.folder / "policy" / f"{which}.npz" for which in ("last", "best")}


def same(one: Any, other: Any) -> bool:
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(np.array_equal(x, y) for x, y in pairs)


@pytest.mark.parametrize("which", ["last", "best"])
def test_file_and_checkpoint_hold_the_same_policy(run: Run, which: str) -> None:
    from_file = run.policy(which)
    files_of(run)[which].unlink()
    from_checkpoint = run.policy(which)
    assert from_file.sha256 == from_checkpoint.sha256  # over everything
    assert from_file.origin == from_checkpoint.origin
    assert from_file.origin["learned_from"] == "tmaze/planner-expert"
    assert same(from_file.weights, from_checkpoint.weights)


def test_a_policy_file_is_enough(run: Run) -> None:
    expected = run.policy()
    for update in checkpoint.updates(run.checkpoints):
        (run.checkpoints / str(update)).rename(run.folder / f"gone-{update}")
    assert run.policy().sha256 == expected.sha256
    files_of(run)["best"].unlink()
    with pytest.raises(OryxError, match="no checkpoint"):
        run.policy("best")


def test_a_run_that_trains_on_leaves_no_outdated_policy(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped before its end, it acts with the newest checkpoint, and the old files are gone."""
    outdated = run.policy()

    def stop(*arguments: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(experiment, "_keep_policies", stop)
    with pytest.raises(KeyboardInterrupt):
        experiment.run(work(run.folder, 6), resume=True)
    assert not any(path.exists() for path in files_of(run).values())
    assert run.policy().origin["update"] == 6
    assert not same(run.policy().weights, outdated.weights)
    monkeypatch.undo()
    experiment.run(work(run.folder, 6), resume=True)
    assert artifact.read_origin(files_of(run)["last"])["update"] == 6


def test_a_file_of_another_update_is_not_used(run: Run) -> None:
    kept = files_of(run)["last"].read_bytes()
    experiment.run(work(run.folder, 6), resume=True)
    expected = run.policy()
    files_of(run)["last"].write_bytes(kept)  # as if restored from an old copy
    assert run.policy().sha256 == expected.sha256


def test_a_damaged_policy_file_is_named(run: Run) -> None:
    path = files_of(run)["last"]
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(
        OryxError, match=r"last\.npz is damaged.*remove .*last\.npz: then the checkpoint"
    ):
        run.policy()
    path.unlink()
    assert run.policy().origin["update"] == 4


def test_another_spec_is_refused(run: Run) -> None:
    spec = run.read(SpecDocument).spec
    run.write(SpecDocument(type(spec)(**{**vars(spec), "agents": ("x", "y")})))
    with pytest.raises(OryxError, match=r"spec\.json does not fit this run"):
        run.policy()


@pytest.mark.parametrize("has_file", [True, False])
def test_an_online_learners_policy_needs_no_environment(
    online: Run, monkeypatch: pytest.MonkeyPatch, has_file: bool
) -> None:
    """Its checkpoints also hold the state of environments, which nobody need understand."""
    assert any(n.startswith("source_state/") for n in checkpoint.read(online.checkpoints).tree)

    def refuse(*arguments: Any) -> None:
        raise AssertionError("the environment was built")

    monkeypatch.setattr(base, "make", refuse)
    if not has_file:
        for path in files_of(online).values():
            path.unlink()
    for which in ("last", "best"):
        policy = online.policy(which)
        assert policy.name == "sable"
        assert policy.origin["update"] == 2


def test_only_what_is_asked_for_is_read(online: Run) -> None:
    found = checkpoint.read(online.checkpoints, ("best_return", "best")).tree
    assert {name.split("/")[0] for name in found} == {"best", "best_return"}
    everything = checkpoint.read(online.checkpoints).tree
    for name, array in found.items():
        np.testing.assert_array_equal(array, everything[name])


def test_settings_that_differ_are_named(run: Run) -> None:
    config = run.read(RunConfig)
    run.begin(config, resume=True)
    other = RunConfig.from_json({**config.to_json(), "config": {**config.config, "batch_size": 9}})
    with pytest.raises(OryxError, match="was begun with batch_size 4, not 9"):
        run.begin(other, resume=True)
    with pytest.raises(OryxError, match="holds a run already"):
        run.begin(config, resume=False)


def test_a_run_has_one_writer_and_any_readers(run: Run) -> None:
    """A second training is refused before it changes anything; policies and pages are read."""
    before = {path: path.read_bytes() for path in run.folder.rglob("*") if path.is_file()}
    held, done = threading.Event(), threading.Event()

    def write() -> None:
        with run.lock():
            held.set()
            done.wait(60)

    writer = threading.Thread(target=write)
    writer.start()
    held.wait(60)
    try:
        with pytest.raises(
            LockedError, match=f"the run .* is being written by process {os.getpid()}"
        ):
            experiment.run(work(run.folder, 6), resume=True)
        assert run.policy().origin["update"] == 4
        page.write(run.folder)
        (run.folder / "report.html").unlink()
        for path, content in before.items():
            assert path.read_bytes() == content
    finally:
        done.set()
        writer.join()
    assert not (run.folder / ".lock").exists()
    assert experiment.run(work(run.folder, 6), resume=True).run.newest_update() == 6


def test_a_folder_that_is_not_a_run_says_what_to_name(tmp_path: Path) -> None:
    """Such as that of a run's policies, which was a complaint about a missing config.json."""
    policies = tmp_path / "run" / "policy"
    policies.mkdir(parents=True)
    with pytest.raises(UnknownNameError, match=r"is missing, so .* is not the folder of a run"):
        load_policy(policies)
    for name in ("last.npz", "best.npz"):
        (policies / name).write_bytes(b"")
    told = rf"name {policies}/last.npz or {policies}/best.npz, or the run's folder, {tmp_path}/run"
    with pytest.raises(UnknownNameError, match=told):
        load_policy(policies)
