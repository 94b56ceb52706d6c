"""What all campaigns share: children that may die, what came of them, and counts.

The parent imports the package but never lets it work: it stays without threads, so that children
can be forked from it in a moment instead of importing JAX each.
"""

import contextlib
import io
import json
import os
import random
import resource
import select
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from oryx_marl.errors import OryxError, OryxWarning

LONGEST = 20.0
"""Seconds after which a child that says nothing hangs."""
MOST_MEMORY = 2 * 2**30
"""Bytes that a child may take beyond what it had at first."""
ADDRESS_SPACE = 16 * 2**30
"""Bytes that a child can ask for at all, so that the machine survives what a campaign finds."""
BAD = ("traceback", "abort", "hang", "memory")
"""What no child may end with."""
PAGE = os.sysconf("SC_PAGE_SIZE")

Send = Callable[[Any], None]


class Outcome(NamedTuple):
    """What came of a child."""

    kind: str
    """ok, refused (with a sentence), killed (by us), or one of `BAD`."""
    value: Any = None
    """What the work returned, or the text that it ended with."""
    peak: int = 0
    """Most bytes of memory beyond those at first."""


@dataclass
class Child:
    """A forked process; every value that it sends is one message."""

    pid: int
    pipe: int
    log: Path
    outcome: Outcome | None = None
    _was_killed: bool = False
    _buffer: bytes = b""
    _first_rss: int = 0
    _peak: int = 0
    _result: dict[str, Any] | None = None

    def kill(self) -> None:
        """SIGKILL, now."""
        self._was_killed = True
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def is_running(self) -> bool:
        """Whether there is no outcome yet; takes what was sent so far."""
        for _ in self.messages(longest=0.0, give_up=False):
            pass
        return self.outcome is None

    def wait(self, longest: float = LONGEST, most_memory: int = MOST_MEMORY) -> Outcome:
        """The outcome, once there is one."""
        for _ in self.messages(longest, most_memory):
            pass
        assert self.outcome is not None
        return self.outcome

    def messages(
        self, longest: float = LONGEST, most_memory: int = MOST_MEMORY, give_up: bool = True
    ) -> Iterator[Any]:
        """What is sent, until the child ends, or is silent for too long, or takes too much."""
        since = time.monotonic()
        while self.outcome is None:
            ready, _, _ = select.select([self.pipe], [], [], min(0.02, longest))
            piece = os.read(self.pipe, 2**20) if ready else b""
            if ready and not piece:
                self._end()
                return
            *lines, self._buffer = (self._buffer + piece).split(b"\n")
            for line in lines:
                since = time.monotonic()
                message = json.loads(line)
                if "sent" in message:
                    yield message["sent"]
                else:
                    self._result = message
            self._peak = peak = max(self._peak, self._rss() - self._first_rss)
            if peak > most_memory:
                self._stop(Outcome("memory", f"{peak / 2**30:.1f} GB", peak))
            elif time.monotonic() - since > longest:
                if not give_up:
                    return
                self._stop(Outcome("hang", f"silent for {longest:g} s", peak))

    def _rss(self) -> int:
        with contextlib.suppress(OSError, IndexError, ValueError):
            found = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * PAGE
            self._first_rss = self._first_rss or found
            return found
        return 0

    def _stop(self, outcome: Outcome) -> None:
        self.kill()
        os.waitpid(self.pid, 0)
        os.close(self.pipe)
        self.outcome = outcome

    def _end(self) -> None:
        result, peak = self._result, self._peak
        _, status = os.waitpid(self.pid, 0)
        os.close(self.pipe)
        if self._was_killed and os.WIFSIGNALED(status):
            self.outcome = Outcome("killed", None, peak)
        elif result is None:
            number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
            self.outcome = Outcome("abort", f"signal or status {number}: {self.last_words()}", peak)
        else:
            self.outcome = Outcome(result["kind"], result["value"], max(peak, result["peak"]))

    def last_words(self) -> str:
        """The end of what it printed."""
        return self.log.read_text(errors="replace")[-1500:] if self.log.exists() else ""


def fork(
    work: Callable[[Send], Any], log: Path, prepare: Callable[[], None] = lambda: None
) -> Child:
    """Lets a child do `work(send)`; what it returns, or raises, is its outcome."""
    sys.stdout.flush()
    sys.stderr.flush()
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX warns of forks, but it does nothing in the parent
        pid = os.fork()
    if pid:
        os.close(write)
        child = Child(pid, read, log)
        child._rss()
        return child
    os.close(read)
    _live(work, write, log, prepare)
    raise AssertionError("a child never returns")


def run(work: Callable[[], Any], log: Path, longest: float = 120.0) -> Outcome:
    """The outcome of `work()` in a child."""
    return fork(lambda send: work(), log).wait(longest)


def _live(work: Callable[[Send], Any], write: int, log: Path, prepare: Callable[[], None]) -> None:
    """The life of a child."""
    status = 1
    try:
        output = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.stdout = io.TextIOWrapper(os.fdopen(1, "wb", closefd=False), line_buffering=True)
        sys.stderr = io.TextIOWrapper(os.fdopen(2, "wb", closefd=False), line_buffering=True)
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
        prepare()
        before = _peak()

        def put(message: dict[str, Any]) -> None:
            content = json.dumps(message).encode() + b"\n"
            while content:
                content = content[os.write(write, content) :]

        kind, value = perform(lambda: work(lambda each: put({"sent": each})), log)
        put({"kind": kind, "value": value, "peak": _peak() - before})
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def perform(work: Callable[[], Any], log: Path | None = None) -> tuple[str, Any]:
    """How work ends: ok with its value, refused with a sentence, or with a traceback."""
    try:
        return "ok", work()
    except OryxError as error:
        return "refused", str(error)
    except SystemExit as stop:
        words = "" if log is None else log.read_text(errors="replace")[-3000:]
        if stop.code in (0, None):
            return "ok", None
        return ("traceback" if "Traceback (most recent" in words else "refused"), words
    except BaseException:
        return "traceback", traceback.format_exc()[-3000:]


def _peak() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def command(words: list[str]) -> Any:
    """Runs a command of the package in this process."""
    from oryx_marl.cli import main

    return main.main(words)


@contextlib.contextmanager
def catching() -> Iterator[list[str]]:
    """The warnings for people that were given meanwhile."""
    told: list[str] = []
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        yield told
    told += [str(each.message) for each in found if issubclass(each.category, OryxWarning)]


@dataclass
class Campaign:
    """One campaign while it runs: its randomness, its folder, its counts."""

    name: str
    seed: int
    count: int
    minutes: float
    folder: Path
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    spent: Counter[str] = field(default_factory=Counter)
    """Seconds by what they were spent on."""
    only: str = ""
    """Parts of the names of subjects or jobs that are tried, between commas."""
    began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)

    def random(self, *numbers: Any) -> random.Random:
        """Randomness of one trial, so that it can be done again alone."""
        return random.Random(repr((self.name, self.seed, *numbers)))

    def wants(self, name: str) -> bool:
        """Whether a subject or job of this name is tried."""
        return any(part in name for part in self.only.split(","))

    def is_over(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() - self.began > 60 * self.minutes

    def fail(self, what: str, **needed: Any) -> None:
        """A must-not: what is needed to do it again is written down."""
        self.counts[f"! {what}"] += 1
        entry = {"what": what, "campaign": self.name, "seed": self.seed}
        self.failures.append({**entry, **{name: _short(each) for name, each in needed.items()}})
        sys.stderr.write(f"{self.name}: {what}: {json.dumps(needed, default=str)[:600]}\n")

    def judge(self, outcome: Outcome, **needed: Any) -> bool:
        """Counts an outcome; False for one that may not be."""
        self.counts[outcome.kind] += 1
        if outcome.kind in BAD:
            self.fail(outcome.kind, told=outcome.value, **needed)
        self.counts["largest memory (MB)"] = max(
            self.counts["largest memory (MB)"], outcome.peak // 2**20
        )
        return outcome.kind not in BAD

    def to_json(self) -> dict[str, Any]:
        return {
            "campaign": self.name,
            "seed": self.seed,
            "seconds": round(time.monotonic() - self.began, 1),
            "counts": dict(self.counts),
            "seconds spent": {name: round(each, 1) for name, each in self.spent.items()},
            "notes": self.notes,
            "failures": self.failures,
        }


def _short(value: Any) -> Any:
    return value[-1500:] if isinstance(value, str) else value
