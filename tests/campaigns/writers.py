"""Two writers of one run, or of one dataset: exactly one succeeds, and nothing is corrupted."""

import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.campaigns import jobs
from tests.campaigns.jobs import Job
from tests.campaigns.lab import BAD, Campaign, Outcome, Send, fork, perform, run

LONGEST = 240.0
LONGEST_DELAY = 0.4
"""Share of the time of the work by which the second writer may be late."""
PROCESSES = ("train", "resume", "import", "make", "export parquet", "export vault")
THREADS = ("resume", "import")


def campaign(found: Campaign) -> None:
    """`count` rounds, half of them with processes and half with threads."""
    known: dict[str, Any] = {}
    plan = [(name, _in_processes) for name in PROCESSES] + [
        (name, _in_threads) for name in THREADS for _ in range(3)
    ]
    plan = [(name, way) for name, way in plan if found.wants(name)]
    found.random("order").shuffle(plan)
    by_name = {job.name: job for job in jobs.JOBS}
    for number in range(found.count):
        if found.is_over():
            return
        name, way = plan[number % len(plan)]
        if name not in known:
            known[name] = _know(found, by_name[name])
        _round(found, by_name[name], number, way, *known[name])


def _know(found: Campaign, job: Job) -> tuple[Path, jobs.Digest, float]:
    """The prepared folder, the result of one writer, and its time."""
    place, log = found.folder / job.name.replace(" ", "-"), found.folder / "log"
    (place / "prepared").mkdir(parents=True, exist_ok=True)
    made = run(lambda: job.prepare(place / "prepared"), log, LONGEST)
    whole = jobs.copy(place / "prepared", place / "whole")
    run(lambda: job.start(whole), log, LONGEST)  # compiles
    jobs.copy(place / "prepared", whole)
    began = time.monotonic()
    done = run(lambda: job.start(whole), log, LONGEST)
    seconds = time.monotonic() - began
    digest = run(lambda: job.digest(whole), log, LONGEST)
    assert (made.kind, done.kind, digest.kind) == ("ok", "ok", "ok"), (made, done, digest)
    return place / "prepared", digest.value, seconds


Ended = tuple[Outcome, float, float]
"""What came of a writer, when it began and when it ended."""


def _round(
    found: Campaign,
    job: Job,
    number: int,
    way: Callable[[Campaign, Job, Path, float], list[Ended]],
    prepared: Path,
    expected: jobs.Digest,
    seconds: float,
) -> None:
    place, log = jobs.copy(prepared, found.folder / "round"), found.folder / "log"
    delay = found.random(number).choice((0.0, found.random(number, 1).random())) * LONGEST_DELAY
    needed = {"job": job.name, "round": number, "way": way.__name__, "delay": round(delay, 3)}
    ended = way(found, job, place, delay * seconds)
    found.counts["tried"] += 1
    found.counts[f"tried: {job.name}{way.__name__.replace('_', ' ')}"] += 1
    for outcome, _, _ in ended:
        found.judge(outcome, **needed)
    wins = [each for each in ended if each[0].kind == "ok"]
    told = [str(outcome.value)[-600:] for outcome, _, _ in ended]
    if not any(outcome.kind in BAD for outcome, _, _ in ended):
        if not wins:
            found.fail("none succeeded", told=told, **needed)
        elif len(wins) == 2 and _overlap(wins) and job.name == "resume":
            found.fail("both succeeded at the same time", **needed)
        elif len(wins) == 2 and job.name != "resume":
            found.fail("both succeeded", **needed)
    digest = run(lambda: job.digest(place), log, LONGEST)
    if digest.value != expected:
        found.fail("corrupted", told=str(digest)[:800], **needed)
    else:
        found.counts["equal to one writer"] += 1
    if left := [path.name for path in place.rglob("*.partial")]:
        found.fail("left behind", left=left, **needed)
    shutil.rmtree(place, ignore_errors=True)


def _overlap(wins: list[Ended]) -> bool:
    """Whether the second began before the first ended; what comes after may go on."""
    return max(win[1] for win in wins) < min(win[2] for win in wins)


def _in_processes(found: Campaign, job: Job, place: Path, delay: float) -> list[Ended]:
    children, began, ended = [], [], dict[int, float]()
    for number in range(2):
        children.append(fork(lambda send: job.start(place), found.folder / f"log{number}"))
        began.append(time.monotonic())
        time.sleep(delay if number == 0 else 0)
    until = time.monotonic() + LONGEST
    while len(ended) < 2 and time.monotonic() < until:
        for number, child in enumerate(children):
            if number not in ended and not child.is_running():
                ended[number] = time.monotonic()
        time.sleep(0.002)
    return [
        (child.wait(0.1), began[number], ended.get(number, until))
        for number, child in enumerate(children)
    ]


def _in_threads(found: Campaign, job: Job, place: Path, delay: float) -> list[Ended]:
    """Both in one process, through Python."""
    log = found.folder / "log"
    child = fork(lambda send: _run_threads(job, place, delay, send), log)
    messages = [
        (Outcome(kind, told), begun, ended) for kind, told, begun, ended in child.messages(LONGEST)
    ]
    assert child.outcome is not None
    if child.outcome.kind != "ok":
        now = time.monotonic()
        messages += [(child.outcome, now, now)] * (2 - len(messages))
    return messages


def _run_threads(job: Job, place: Path, delay: float, send: Send) -> None:
    lock = threading.Lock()

    def write() -> None:
        began = time.monotonic()
        kind, told = perform(lambda: _write(job, place))
        with lock:
            send([kind, None if kind == "ok" else told, began, time.monotonic()])

    threads = [threading.Thread(target=write) for _ in range(2)]
    threads[0].start()
    time.sleep(delay)
    threads[1].start()
    for thread in threads:
        thread.join()


def _write(job: Job, place: Path) -> None:
    """What the command does, without what may only be done in the main thread."""
    import oryx_marl
    from oryx_marl.data import vault
    from oryx_marl.data.sources import base

    if job.name == "import":
        source, folder = place / "source" / "log.csv", place / "data" / "depot.vlt" / "week"
        vault.write_parts(base.read(source, "depot/week"), folder)
        return
    oryx_marl.resume(place / "run", updates=6, progress=False)
