"""The work that is killed, filled up and doubled: small trainings, recordings, imports, exports."""

import csv
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.campaigns import results
from tests.campaigns.lab import command
from tests.campaigns.results import Digest

from oryx_marl.runs.documents import RunConfig
from oryx_marl.runs.folder import Run

SIZE = "--batch-size 2 --sequence-length 2 --linear-width 4 --recurrent-width 4 --seeds 1"
SCORES = "--episodes 2 --episodes-while-training 2 --replays 1"
TIMES = "--log-every 1 --evaluate-every 2 --checkpoint-every 2"
DATA = "tmaze/planner-expert"
PLUGIN = Path(__file__).parent / "recording.py"


@dataclass(frozen=True)
class Job:
    """Work in a folder that can be stopped anywhere and done again."""

    name: str
    begin: Callable[[Path], list[str]]
    """The words of the command."""
    again: Callable[[Path], list[str] | None]
    """The words after it was stopped; None if all is there already."""
    digest: Callable[[Path], Digest]
    """What the finished work holds."""
    prepare: Callable[[Path], None] = lambda folder: None
    """Makes what must be there before."""

    def start(self, folder: Path) -> None:
        """Does the work for the first time, in this process."""
        command(self.begin(folder))

    def resume(self, folder: Path) -> None:
        """Goes on with it, or repeats it, in this process."""
        words = self.again(folder)
        if words is not None:
            command(words)


def _train(folder: Path, updates: int = 4) -> list[str]:
    words = ["train", "bc", DATA, "--out", str(folder / "run"), "--updates", str(updates)]
    return [*words, *f"{SIZE} {SCORES} {TIMES}".split()]


def _train_again(folder: Path) -> list[str]:
    if not Run(folder / "run").has(RunConfig):
        return _train(folder)
    return ["train", "--resume", str(folder / "run")]


def _extend(folder: Path) -> list[str]:
    return ["train", "--resume", str(folder / "run"), "--updates", "6"]


def _record(folder: Path) -> list[str]:
    words = ["data", "make", "brief/replay", "--root", str(folder / "data")]
    return [*words, "--plugin", str(PLUGIN)]


def _record_again(folder: Path) -> list[str] | None:
    if (folder / "data" / "brief.vlt" / "replay").exists():
        return None
    is_begun = (folder / "data" / "brief.vlt" / "replay.recording").exists()
    return [*_record(folder), *(["--resume"] if is_begun else [])]


def _record_digest(folder: Path) -> Digest:
    home = folder / "data" / "brief.vlt"
    run = home / "replay.training" / "run"
    if not run.exists():  # killed after the dataset was there: the training is where it was
        run = home / "replay.recording" / "run"
    found = results.of_run(run) if run.exists() else {}
    dataset = results.of_vault(home / "replay")
    return {**{f"run {name}": each for name, each in found.items()}, **dataset}


def write_log(path: Path, episodes: int = 200, length: int = 10, seed: int = 0) -> Path:
    """A CSV of two agents."""
    rng = random.Random(seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["episode", "step", "agent", "obs_0", "obs_1", "action", "reward", "done"])
        for episode in range(episodes):
            for step in range(length):
                for agent in ("red", "blue"):
                    seen = [round(rng.random(), 4), round(rng.random(), 4)]
                    acted, is_last = rng.randrange(3), int(step == length - 1)
                    rows.writerow([episode, step, agent, *seen, acted, rng.randrange(2), is_last])
    return path


def _import(folder: Path) -> list[str]:
    source, root = folder / "source" / "log.csv", folder / "data"
    return ["data", "import", str(source), "depot/week", "--root", str(root)]


def _make(folder: Path) -> list[str]:
    words = ["data", "make", "tmaze/planner-mixed", "--rows", "400"]
    return [*words, "--root", str(folder / "data")]


def _export(to: str, folder: Path) -> list[str]:
    stored, target = folder / _stored("depot", "week"), folder / "out" / f"made.{to}"
    return ["data", "export", str(stored), str(target), "--to", to]


def _unless(path: str, words: Callable[[Path], list[str]]) -> Callable[[Path], list[str] | None]:
    """The same words again, if nothing is there under the final name."""
    return lambda folder: None if (folder / path).exists() else words(folder)


def _stored(family: str, name: str) -> str:
    return f"data/{family}.vlt/{name}"


def _make_export(to: str) -> Job:
    target = f"out/made.{to}"
    digest = results.of_vault if to == "vault" else results.of_export
    return Job(
        f"export {to}",
        lambda folder: _export(to, folder),
        _unless(target, lambda folder: _export(to, folder)),
        lambda folder: digest(folder / target),
        _prepare_export,
    )


def _prepare_log(folder: Path, episodes: int = 200) -> None:
    write_log(folder / "source" / "log.csv", episodes)


def _prepare_export(folder: Path) -> None:
    _prepare_log(folder, episodes=60)
    command(_import(folder))


TRAIN = Job("train", _train, _train_again, lambda folder: results.of_run(folder / "run"))
EXTEND = Job(
    "resume",
    _extend,
    _extend,
    lambda folder: results.of_run(folder / "run"),
    lambda folder: command(_train(folder)),
)
RECORD = Job("record", _record, _record_again, _record_digest)
IMPORT = Job(
    "import",
    _import,
    _unless(_stored("depot", "week"), _import),
    lambda folder: results.of_vault(folder / _stored("depot", "week")),
    _prepare_log,
)
MAKE = Job(
    "make",
    _make,
    _unless(_stored("tmaze", "planner-mixed"), _make),
    lambda folder: results.of_vault(folder / _stored("tmaze", "planner-mixed")),
)
JOBS = (TRAIN, EXTEND, RECORD, IMPORT, MAKE, *map(_make_export, ("parquet", "minari", "vault")))


def copy(source: Path, target: Path) -> Path:
    """A fresh copy of a prepared folder."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
    return target
