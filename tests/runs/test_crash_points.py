"""A kill at any call that changes files leaves a run, a dataset or a document that opens.

The calls are counted in this process; from the k-th on all of them raise, as if it were dead.
"""

import builtins
import io
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import orbax.checkpoint as ocp
import pytest

from oryx_marl.algorithms import bc
from oryx_marl.data import catalog, vault
from oryx_marl.data.dataset import Dataset
from oryx_marl.data.record.segments import Recorder
from oryx_marl.data.subsample import whole_episodes
from oryx_marl.runs import checkpoint
from oryx_marl.runs.checkpoint import Checkpoint
from oryx_marl.runs.documents import Evaluation, MarlEval, MetricRow, SecondsSpent
from oryx_marl.runs.folder import Run

CALLS = ("rename", "replace", "unlink", "rmdir", "mkdir", "fsync", "open")
ORDER = ("spec.json", "dataset.json", "config.json")
LIKE = {"weights": np.zeros(40)}


class Killed(BaseException):
    """Nothing that is run afterwards changes a file any more."""


@contextmanager
def killed_at(monkeypatch: pytest.MonkeyPatch, last: int) -> Iterator[list[str]]:
    """The calls so far; the one of that number and all later ones do not happen."""
    seen: list[str] = []

    def count(name: str) -> None:
        seen.append(name)
        if len(seen) > last:
            raise Killed(name)

    def wrap(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            changes = name != "open" or arguments[1] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            if changes:
                count(name)
            return real(*arguments, **options)

        return call

    def open_(file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        if set(mode) & set("wax+"):
            count("open for writing")
        return real_open(file, mode, *arguments, **options)

    real_open, save = io.open, ocp.Checkpointer.save
    with monkeypatch.context() as patch:
        for name in CALLS:
            patch.setattr(os, name, wrap(name, getattr(os, name)))
        patch.setattr(io, "open", open_)
        patch.setattr(builtins, "open", open_)
        patch.setattr(ocp.Checkpointer, "save", wrap("orbax", save))
        with suppress(Killed):
            yield seen


def every_point(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    prepare: Callable[[Path], None],
    act: Callable[[Path], None],
    check: Callable[[Path, bool], None],
) -> int:
    """Kills `act` at each of its calls; `check(place, is_done)` looks at what is left."""
    last = 0
    while True:
        place = folder / str(last)
        prepare(place)
        with killed_at(monkeypatch, last) as seen:
            act(place)
        is_done = len(seen) <= last
        check(place, is_done)
        if is_done:
            return last
        shutil.rmtree(place)
        last += 1


def tree(value: float) -> dict[str, np.ndarray]:
    return {"weights": np.full(40, float(value))}


@pytest.mark.parametrize("update", [0, 10, 20])
@pytest.mark.slow
def test_checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, update: int) -> None:
    """Also one that replaces another of the same update, and one that makes an older one go."""
    before = {0: [0], 10: [0, 10], 20: [0, 10]}[update]

    def prepare(place: Path) -> None:
        for each in before:
            checkpoint.save(place, Checkpoint(each, tree(each), {}))

    def act(place: Path) -> None:
        checkpoint.save(place, Checkpoint(update, tree(-1), {}))

    def check(place: Path, is_done: bool) -> None:
        found = checkpoint.restore(place, LIKE)
        assert found.tree["weights"][0] in ((-1,) if is_done else (before[-1], -1))
        if len(before) == 2:  # an earlier one is never a half
            for each in checkpoint.updates(place):
                checkpoint.restore(place, LIKE, each)
        checkpoint.save(place, Checkpoint(30, tree(30), {}))  # it goes on, and tidies up
        assert checkpoint.restore(place, LIKE).update == 30
        assert all(entry.name.isdecimal() for entry in place.iterdir())

    assert every_point(monkeypatch, tmp_path, prepare, act, check) >= 8


def test_documents_and_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def evaluations(value: float) -> MarlEval:
        steps = {"step_0": {"step_count": 10, "return": [value]}}
        return MarlEval({"env": {"task": {"bc": {"seed_0": steps}}}})

    def write(place: Path, value: float) -> None:
        run = Run(place)
        run.write(SecondsSpent(value))
        run.write(evaluations(value))
        run.rewind(MetricRow, 10)
        run.append(MetricRow(20, value, {}))
        run.append(Evaluation(20, value, np.ones((1, 1))))

    def check(place: Path, is_done: bool) -> None:
        run = Run(place)
        known = (2.0,) if is_done else (1.0, 2.0)
        assert run.read(SecondsSpent).seconds in known
        assert run.read(MarlEval).by_seed("bc")["0"].by_update[10].tolist()[0] in known
        assert [row.update for row in run.rows(MetricRow)] in ([], [20])
        write(place, 3.0)
        assert run.read(MarlEval).by_seed("bc")["0"].by_update[10].tolist() == [3.0]

    prepare = lambda place: write(place, 1.0)  # noqa: E731
    assert every_point(monkeypatch, tmp_path, prepare, lambda place: write(place, 2.0), check) > 15


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return whole_episodes(catalog.open("tmaze/planner-expert"), 20, 0)


def test_datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dataset: Dataset) -> None:
    def check(place: Path, is_done: bool) -> None:
        folder = place / "a.vlt" / "b"
        if is_done or folder.exists():
            assert vault.read(folder).fingerprint() == dataset.fingerprint()
        else:
            vault.write(dataset, folder)
        assert [each.name for each in folder.parent.iterdir() if each.suffix != ".lock"] == ["b"]

    act = lambda place: vault.write(dataset, place / "a.vlt" / "b")  # noqa: E731
    points = every_point(monkeypatch, tmp_path, lambda place: place.mkdir(), act, check)
    assert points >= 8


def test_recordings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shape = (2, 3, 1)
    ends = np.zeros(shape, bool)
    ends[:, -1] = True
    steps = {
        "observations": np.ones((*shape, 4), np.float32),
        "final_observations": np.ones((*shape, 4), np.float32),
        "actions": np.zeros(shape, np.int64),
        "rewards": np.ones(shape, np.float32),
        "terminals": ends,
        "truncations": np.zeros(shape, bool),
    }

    def prepare(place: Path) -> None:
        recorder = Recorder(place)
        for update in (1, 2):
            recorder.append(update, steps)

    def act(place: Path) -> None:
        recorder = Recorder(place)
        recorder.rewind(1)
        recorder.append(2, steps)
        recorder.append(3, steps)

    def check(place: Path, is_done: bool) -> None:
        assert Recorder(place).num_rows in ((18,) if is_done else (6, 12, 18))
        recorder = Recorder(place)
        recorder.rewind(1)
        recorder.append(2, steps)
        assert recorder.num_rows == 12

    assert every_point(monkeypatch, tmp_path, prepare, act, check) >= 8


def test_a_run_is_resumed_from_its_first_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dataset: Dataset
) -> None:
    """That of update 0 was removed and written again, so that a kill there lost the run."""
    from oryx_marl import experiment
    from oryx_marl.experiment import EvaluationSettings, Experiment
    from oryx_marl.networks.recurrent import RecurrentConfig
    from oryx_marl.training import loop
    from oryx_marl.training.loop import TrainSettings

    config = bc.Config(network=RecurrentConfig(8, 8), batch_size=4, sequence_length=4)
    train = TrainSettings(2, 1, log_every=1, evaluate_every=0, checkpoint_every=1)
    scores = EvaluationSettings(episodes=2, episodes_while_training=2, replays=0)
    work = Experiment("bc", config, dataset, tmp_path / "first", train, scores)
    with monkeypatch.context() as patch:
        patch.setattr(loop, "_advance", _die)
        with pytest.raises(Killed):
            experiment.run(work)
    assert checkpoint.updates(tmp_path / "first" / "checkpoints") == [0]
    times = {name: (tmp_path / "first" / name).stat().st_mtime_ns for name in ORDER}
    assert sorted(times, key=lambda name: times[name]) == list(ORDER)  # with the last it is a run
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "save", _die)
        patch.setattr(loop, "_advance", _stop)
        with pytest.raises(KeyboardInterrupt):  # and not at a second write of update 0
            experiment.run(work, resume=True)
    assert experiment.run(work, resume=True).run.newest_update() == 2


def _die(*_: Any) -> None:
    raise Killed


def _stop(*_: Any) -> None:
    raise KeyboardInterrupt
