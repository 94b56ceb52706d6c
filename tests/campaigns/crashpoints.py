"""Every call that writes a checkpoint, a dataset or a document, as the last one before a kill.

Two ways: from Python, a real SIGKILL before and after each event that the interpreter reports; and
where strace is there, the state of the disk after each call of all threads, played back.
"""

import hashlib
import json
import os
import re
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.campaigns import jobs, results, syscalls
from tests.campaigns.jobs import Job
from tests.campaigns.lab import Campaign, Child, fork, perform, run
from tests.campaigns.results import Digest

LONGEST = 240.0
BATCH = 40
"""States that one child opens: what is compiled for the first serves all."""
REPLACEABLE = re.compile(r"\.lock$|(^|/)report\.html$|\.partial$")
"""Files that no later start relies on."""
DRAFT = re.compile(r"\.(partial|unpacking)(/|$)")
"""Files that nobody opens before they, or their folder, get another name."""
EVENTS = {"open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate"}


def _keep_first_checkpoint(folder: Path) -> None:
    """A run that was killed just after its first checkpoint."""
    words = jobs.TRAIN.begin(folder)
    jobs.command([*words[:-1], "4"])  # checkpoints of updates 0 and 4 alone, both of which stay
    run_folder = folder / "run"
    shutil.rmtree(run_folder / "checkpoints" / "4")
    for path in run_folder.iterdir():
        if path.name in ("config.json", "spec.json", "dataset.json", "checkpoints"):
            continue
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert [path.name for path in (run_folder / "checkpoints").iterdir()] == ["0"]


def _from_first(folder: Path) -> list[str]:
    return ["train", "--resume", str(folder / "run")]


FROM_ZERO = Job(
    "resume from 0", _from_first, _from_first, jobs.TRAIN.digest, _keep_first_checkpoint
)
JOBS = (FROM_ZERO, *jobs.JOBS)


def campaign(found: Campaign) -> None:
    """Records each job once and opens every state in between; `count` is the most for each job."""
    for job in JOBS:
        if found.wants(job.name) and not found.is_over():
            _enumerate(found, job)


def _enumerate(found: Campaign, job: Job) -> None:
    place = found.folder / job.name.replace(" ", "-")
    prepared, whole, log = place / "prepared", place / "work", found.folder / "log"
    prepared.mkdir(parents=True, exist_ok=True)
    made = run(lambda: job.prepare(prepared), log, LONGEST)
    before = results.of_tree(prepared)
    calls, told = _record(job, prepared, whole, place / "trace", log)
    digest = run(lambda: job.digest(whole), log, LONGEST)
    if (made.kind, told, digest.kind) != ("ok", "ok", "ok"):
        found.fail("cannot be done unbroken", job=job.name, told=f"{made} {told} {digest}")
        return
    if calls is None:
        found.notes.append(f"{job.name}: only what Python reports is a crash point: no strace")
    else:
        _open_states(found, job, calls, before, whole, digest.value)
    _kill_from_python(found, job, prepared, whole, digest.value)


def _record(
    job: Job, prepared: Path, whole: Path, trace: Path, log: Path
) -> tuple[list[syscalls.Call] | None, str]:
    """The calls of the unbroken work, and how it ended."""
    jobs.copy(prepared, whole)
    wait, go = os.pipe()

    def work(send: Any) -> None:
        syscalls.allow_tracing()
        os.read(wait, 1)
        job.start(whole)

    child, tracer = fork(work, log), None
    try:
        if syscalls.is_there():
            tracer = syscalls.attach(child, trace)
    except RuntimeError:
        tracer = None
    os.write(go, b"x")
    outcome = child.wait(LONGEST)
    os.close(wait)
    os.close(go)
    if tracer is None:
        return None, outcome.kind
    tracer.wait()
    calls = syscalls.read(trace, whole)
    for path in trace.parent.glob(f"{trace.name}.*"):
        path.unlink()
    return calls, outcome.kind if outcome.kind == "ok" else str(outcome)


def _open_states(
    found: Campaign,
    job: Job,
    calls: list[syscalls.Call],
    before: syscalls.Tree,
    whole: Path,
    expected: Digest,
) -> None:
    """Goes on from each state; all must end equal."""
    played = syscalls.Replay(dict(before))
    for call in calls:
        played.play(call)
    if played.tree != results.of_tree(whole):
        found.fail("the playback differs from what was written", job=job.name)
        return
    for name in syscalls.unsynced(calls, before):
        if not REPLACEABLE.search(name) and name != ".":
            found.fail("not synced before success is reported", job=job.name, path=name)
    writing = [call for call in calls if call.name not in ("lseek",)]
    found.counts["calls"] += len(writing)
    found.counts[f"calls: {job.name}"] += len(writing)
    states = list(_distinct(calls, before))
    found.counts["distinct states"] += len(states)
    random = found.random(job.name)
    if len(states) > found.count:
        states = sorted(random.sample(states, found.count), key=lambda state: state[0])
    _resume_all(found, job, states, expected)


def _distinct(
    calls: list[syscalls.Call], before: syscalls.Tree
) -> Iterator[tuple[int, str, syscalls.Tree]]:
    """Each state of the folder once, with the call before it.

    Of a draft only the first state of each doubling of its size counts: what is in it is never
    opened, and HDF5 alone writes thousands of times.
    """
    seen = {_hash(before)}
    for number, call, tree, changed in syscalls.states(calls, before):
        if changed and (mark := _hash(tree)) not in seen:
            seen.add(mark)
            yield number, syscalls.describe(call), tree


def _hash(tree: syscalls.Tree) -> str:
    digest = hashlib.sha256()
    for name, content in sorted(tree.items()):
        size = -1 if content is None else len(content)
        is_draft = DRAFT.search(name) is not None
        digest.update(json.dumps([name, size.bit_length() if is_draft else size]).encode())
        digest.update(b"" if is_draft else content or b"")
    return digest.hexdigest()


def _resume_all(found: Campaign, job: Job, states: list, expected: Digest) -> None:
    """In few children, each of which goes on from many states."""
    place, log = found.folder / "state", found.folder / "log"
    left = list(states)
    while left and not found.is_over():
        batch = left[:BATCH]
        child = fork(lambda send, batch=batch: _resume_some(job, batch, place, log, send), log)
        done = 0
        for message in child.messages(LONGEST):
            number, last, _ = batch[done]
            done += 1
            _judge(found, job, number, last, message, expected)
        assert child.outcome is not None
        if child.outcome.kind != "ok" and done < len(batch):
            number, last, _ = batch[done]
            needed = {"job": job.name, "call": number, "last": last}
            found.judge(child.outcome, **needed)
            done += 1
        left = left[max(done, 1) :]


def _resume_some(job: Job, batch: list, place: Path, log: Path, send: Any) -> None:
    for _, _, tree in batch:
        shutil.rmtree(place, ignore_errors=True)
        results.put_tree(tree, place)
        sys.stdout.flush()
        os.truncate(log, 0)
        os.lseek(1, 0, os.SEEK_SET)
        kind, told = perform(lambda: job.resume(place), log)
        if kind == "ok":
            kind, told = perform(lambda: job.digest(place), log)
        send([kind, told])


def _judge(
    found: Campaign, job: Job, number: int, last: str, message: Any, expected: Digest
) -> None:
    kind, told = message
    needed = {"job": job.name, "call": number, "last": last}
    found.counts["tried"] += 1
    if kind == "ok" and told == expected:
        found.counts["ended equal"] += 1
    elif kind == "ok":
        names = [name for name in expected if told.get(name) != expected[name]]
        found.fail("ended different", differing=names, **needed)
    else:
        found.fail("cannot be resumed" if kind == "refused" else kind, told=told, **needed)


def _kill_from_python(
    found: Campaign, job: Job, prepared: Path, whole: Path, expected: Digest
) -> None:
    """A real SIGKILL at events of the interpreter, of which there are fewer than calls."""
    log = found.folder / "log"
    jobs.copy(prepared, whole)
    counted = fork(lambda send: (_hook(whole, None, send), job.start(whole)), log)
    events = sum(1 for _ in counted.messages(LONGEST))
    found.counts["events of Python"] += events
    wanted = sorted(
        found.random(job.name, "events").sample(range(events), min(events, _most(found)))
    )
    for number in wanted:
        if found.is_over():
            return
        jobs.copy(prepared, whole)
        child: Child = fork(lambda send, n=number: (_hook(whole, n, send), job.start(whole)), log)
        last = list(child.messages(LONGEST))
        found.counts["killed at events of Python"] += 1
        outcome = run(lambda: (job.resume(whole), job.digest(whole))[1], log, LONGEST)
        last_event = str(last[-1]) if last else ""
        message = [outcome.kind, outcome.value]
        _judge(found, job, number, f"event {last_event}", message, expected)


def _most(found: Campaign) -> int:
    """Kills at events of one job: each costs a whole command, so these are a sample."""
    return 1 if found.count < 100 else 8


def _hook(folder: Path, number: int | None, send: Any) -> None:
    """Reports each event below the folder, and kills this process at one of them."""
    count, root = 0, str(folder)

    def look(event: str, arguments: tuple) -> None:
        nonlocal count
        if event not in EVENTS or not str(arguments[0]).startswith(root):
            return
        if event == "open" and not (set(str(arguments[1] or "")) & set("wax+")):
            return
        send(f"{event} {str(arguments[0])[len(root) :]}")
        if count == number:
            os.kill(os.getpid(), signal.SIGKILL)
        count += 1

    sys.addaudithook(look)
