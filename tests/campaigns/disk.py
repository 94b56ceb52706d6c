"""A disk that is full, at every 32 kB of the work: a sentence, and all that was there before opens.

On a small tmpfs where mounting is allowed; else files may not grow beyond a size.
"""

import contextlib
import resource
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from tests.campaigns import jobs, results
from tests.campaigns.jobs import Job
from tests.campaigns.lab import Campaign, fork, run

STEP = 32 * 2**10
ROOM = 64 * 2**20
"""What is given after a failure, so that the work can end."""
LONGEST = 240.0


class Disk(NamedTuple):
    """A place whose size can be chosen."""

    place: Path
    is_mounted: bool

    def limit(self, size: int) -> None:
        """From now on there is so much room for all files; without a mount, for each of them."""
        if self.is_mounted:
            words = ["mount", "-o", f"remount,size={size}", str(self.place)]
            subprocess.run(words, check=True, capture_output=True)

    def prepare(self, size: int) -> Callable[[], None]:
        """What a child does first."""
        if self.is_mounted:
            return lambda: None
        return lambda: _limit_files(size)


def _limit_files(size: int) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


@contextlib.contextmanager
def _mounted(place: Path) -> Iterator[Disk]:
    place.mkdir(parents=True, exist_ok=True)
    words = ["mount", "-t", "tmpfs", "-o", f"size={ROOM}", "tmpfs", str(place)]
    try:
        is_mounted = subprocess.run(words, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        is_mounted = False
    try:
        yield Disk(place, is_mounted)
    finally:
        if is_mounted:
            subprocess.run(["umount", "-l", str(place)], check=False)


def _report(folder: Path) -> list[str]:
    return ["report", str(folder / "run")]


def _train_without_page(folder: Path) -> None:
    jobs.TRAIN.start(folder)
    (folder / "run" / "report.html").unlink()


REPORT = Job(
    "page",
    _report,
    _report,
    lambda folder: {"page": results.hash_json((folder / "run" / "report.html").read_text())},
    _train_without_page,
)
NAMES = ("train", "resume", "import", "export parquet", "export minari", "export vault", "page")


def campaign(found: Campaign) -> None:
    """Each job with ever more room, until it succeeds; `count` is the most steps of each."""
    by_name = {job.name: job for job in (*jobs.JOBS, REPORT)}
    with _mounted(found.folder / "disk") as disk:
        if not disk.is_mounted:
            found.notes.append("mounting is not allowed: the size of single files is limited")
        for name in NAMES:
            if found.wants(name) and not found.is_over():
                _fill(found, by_name[name], disk)


def _fill(found: Campaign, job: Job, disk: Disk) -> None:
    log, prepared = found.folder / "log", found.folder / job.name.replace(" ", "-")
    prepared.mkdir()
    made = run(lambda: job.prepare(prepared), log, LONGEST)
    disk.limit(ROOM)
    work = jobs.copy(prepared, disk.place / "work")
    before = _used(work)
    whole = run(lambda: job.start(work), log, LONGEST)
    digest = run(lambda: job.digest(work), log, LONGEST)
    if (made.kind, whole.kind, digest.kind) != ("ok", "ok", "ok"):
        found.fail("cannot be done", job=job.name, told=f"{made} {whole} {digest}")
        return
    largest = _used(work) * 2
    step = max(4096, min(STEP, (_used(work) - before) // 8))  # small work in smaller steps
    sizes = list(range(before, max(largest, before + 2 * step), step))
    if not disk.is_mounted:
        sizes = list(range(STEP // 16, STEP, STEP // 8)) + list(range(STEP, largest, STEP))
    for size in sizes[: found.count]:
        if found.is_over():
            return
        jobs.copy(prepared, work)
        if _run_full(found, job, disk, work, size, digest.value):
            return


def _used(folder: Path) -> int:
    """As tmpfs counts it: whole pages, and a page for each folder."""
    pages = 1 + sum(-(-path.stat().st_size // 4096) or 1 for path in folder.rglob("*"))
    return 4096 * pages


def _run_full(
    found: Campaign, job: Job, disk: Disk, work: Path, size: int, expected: jobs.Digest
) -> bool:
    """With so much room; whether that was enough."""
    log = found.folder / "log"
    had_run = (work / "run" / "config.json").exists()
    disk.limit(size)
    outcome = fork(lambda send: job.start(work), log, disk.prepare(size)).wait(LONGEST)
    needed = {"job": job.name, "size": size, "of": "disk" if disk.is_mounted else "file"}
    found.counts["tried"] += 1
    found.counts[f"tried: {job.name}"] += 1
    is_right = found.judge(outcome, **needed)
    if left := [str(path.relative_to(work)) for path in work.rglob("*.partial*")]:
        found.fail("left behind", left=left, **needed)
    if had_run:
        opened = run(lambda: results.of_run(work / "run") and None, log, LONGEST)
        if opened.kind != "ok" and job.name == "page":
            found.fail("the earlier state is lost", told=opened.value, **needed)
    disk.limit(ROOM)
    if is_right:
        ended = run(lambda: (job.resume(work), job.digest(work))[1], log, LONGEST)
        if ended.kind != "ok" or ended.value != expected:
            found.fail("cannot go on with more room", told=str(ended)[:900], **needed)
        else:
            found.counts["ended equal with more room"] += 1
    return outcome.kind == "ok"
