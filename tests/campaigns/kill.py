"""Real SIGKILLs, at moments spread over everything that a command does."""

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

from tests.campaigns import jobs
from tests.campaigns.jobs import Job
from tests.campaigns.lab import Campaign, Child, Outcome, fork, run

SHARES = {"train": 8, "resume": 6, "record": 5, "import": 4, "make": 4}
"""How often a job's turn comes; exports once each."""
MOST_KILLS = 3
"""Of one piece of work, one after another, before it may finish."""
LONGEST = 240.0
STAGES = {
    "checkpoints": "checkpoint",
    "metrics.jsonl": "log",
    "evaluations.jsonl": "evaluation",
    "segments": "recorder",
    "snapshots": "recorder",
    "config.json": "set-up",
    "spec.json": "set-up",
    "dataset.json": "set-up",
    "request.json": "set-up",
    "summary.json": "final files",
    "eval.json": "final files",
    "replay.npz": "final files",
    "policy": "final files",
    "report.html": "final files",
}


class Watcher:
    """Counts what changes in a folder, which tells the stages of the work apart."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._sizes = dict(_sizes(self._folder))
        self.changes = 0
        self.stage = "start"

    def look(self) -> None:
        """Takes in what is new."""
        found = dict(_sizes(self._folder))
        if found == self._sizes:
            return
        new = [name for name, size in found.items() if self._sizes.get(name) != size]
        self.changes += max(1, len(new))
        if new:
            self.stage = _stage(new[-1])
            if self.stage == "checkpoint" and "metrics.jsonl" not in str(found):
                self.stage = "compile"
        self._sizes = found


def _sizes(folder: str) -> Iterator[tuple[str, int]]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    yield entry.path, 0
                    yield from _sizes(entry.path)
                else:
                    yield entry.path, entry.stat(follow_symlinks=False).st_size
    except FileNotFoundError:  # it went while we looked
        return


def _stage(path: str) -> str:
    parts = [part.removesuffix(".partial") for part in Path(path).parts]
    return next((STAGES[part] for part in reversed(parts) if part in STAGES), "data")


def campaign(found: Campaign) -> None:
    """Kills, goes on, compares; `count` is the number of kills."""
    chosen = [job for job in jobs.JOBS if found.wants(job.name)]
    turns = [job for job in chosen for _ in range(SHARES.get(job.name, 1))]
    found.random("order").shuffle(turns)
    known = {job.name: _know(found, job) for job in chosen}
    for trial in range(10 * found.count):
        if found.counts["killed"] >= found.count or found.is_over():
            break
        job = turns[trial % len(turns)]
        if (about := known[job.name]) is not None:
            _try(found, job, trial, *about)


def _know(found: Campaign, job: Job) -> tuple[Path, jobs.Digest, int, float] | None:
    """The prepared folder, the result of unbroken work, its changes and its time."""
    place = found.folder / job.name.replace(" ", "-")
    prepared, whole, log = place / "prepared", place / "whole", found.folder / "log"
    prepared.mkdir(parents=True, exist_ok=True)
    made = run(lambda: job.prepare(prepared), log, LONGEST)
    jobs.copy(prepared, whole)
    watcher, began = Watcher(whole), time.monotonic()
    child = fork(lambda send: job.start(whole), log)
    while child.is_running():
        watcher.look()
        time.sleep(0.001)
    seconds, words = time.monotonic() - began, child.last_words()
    digest = run(lambda: job.digest(whole), log, LONGEST)
    if (made.kind, child.outcome and child.outcome.kind, digest.kind) != ("ok", "ok", "ok"):
        found.fail("cannot be done unbroken", job=job.name, told=f"{made} {words} {digest}")
        return None
    return prepared, digest.value, watcher.changes, seconds


def _try(
    found: Campaign,
    job: Job,
    trial: int,
    prepared: Path,
    expected: jobs.Digest,
    changes: int,
    seconds: float,
) -> None:
    """One piece of work that is killed some times and then ends."""
    random, log = found.random(trial), found.folder / "log"
    place = jobs.copy(prepared, found.folder / "killed")
    told = []
    for number in range(random.randint(1, MOST_KILLS)):
        child = fork(lambda send, n=number: (job.resume if n else job.start)(place), log)
        stage = _kill_at_random(child, Watcher(place), random, changes, seconds)
        assert child.outcome is not None
        told.append(f"{stage}: {child.outcome.kind}")
        if child.outcome.kind == "ok":
            break
        found.counts["tried"] += 1
        if child.outcome.kind == "killed":
            found.counts["killed"] += 1
            found.counts[f"killed: {job.name}"] += 1
            found.counts[f"killed in {stage}"] += 1
        else:
            _lose(found, job, trial, told, child.outcome)
            return
    ended = run(lambda: job.resume(place), log, LONGEST)
    if ended.kind != "ok":
        _lose(found, job, trial, told, ended)
        return
    digest = run(lambda: job.digest(place), log, LONGEST)
    if digest.kind != "ok":
        _lose(found, job, trial, told, digest)
    elif digest.value != expected:
        names = [name for name in expected if digest.value.get(name) != expected[name]]
        found.fail("ended different", job=job.name, trial=trial, stages=told, differing=names)
    else:
        found.counts["ended equal"] += 1
        left = [path.name for path in place.rglob("*.partial")]
        if left or (place / "data" / "brief.vlt" / "replay.recording").exists():
            found.counts["equal, but with leftovers"] += 1
    shutil.rmtree(place, ignore_errors=True)


def _lose(found: Campaign, job: Job, trial: int, stages: list[str], last: Outcome) -> None:
    kind = last.kind if last.kind in ("traceback", "abort", "hang", "memory") else "lost"
    found.fail(kind, job=job.name, trial=trial, stages=stages, told=last.value)


def _kill_at_random(
    child: Child, watcher: Watcher, random: Random, changes: int, seconds: float
) -> str:
    """Waits for a random number of changes, then a moment more, and kills; says at which stage."""
    wanted = random.randint(1, max(1, changes))
    delay = random.choice((0.0, random.uniform(0, 0.02), random.uniform(0, 0.2)))
    if random.random() < 0.3:  # nothing changes on the disk while it compiles
        wanted, delay = 0, random.uniform(0, seconds)
    began = time.monotonic()
    while child.is_running() and watcher.changes < wanted:
        watcher.look()
        if time.monotonic() - began > LONGEST:
            break
        time.sleep(0.0005)
    until = time.monotonic() + delay
    while child.is_running() and time.monotonic() < until:
        watcher.look()
        time.sleep(0.001)
    watcher.look()
    child.kill()
    child.wait(LONGEST)
    return watcher.stage
