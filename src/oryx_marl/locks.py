"""One writer at a time: a lock that the kernel holds for a process, and drops when it dies.

The lock is on a small file beside or inside what is written, which says who holds it. A file that
is left behind by a kill means nothing: only the kernel's lock counts. Reading never locks.
"""

import contextlib
import errno
import json
import os
import socket
import stat
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from oryx_marl import files
from oryx_marl.errors import OryxError, OryxWarning

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]

UNSUPPORTED = {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL, errno.ENOSYS}
"""What file systems without locks answer."""
BUSY = {errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES}
PAUSE = 0.02
"""Seconds between two attempts."""
ADVICE = "Is there space, and may you write?"
MOST_VANISHED = 100
"""Times that a folder may go again while it is entered."""
LONGEST = 300
"""Letters of a command that a lock file holds, and that a message shows."""

_descriptors: set[int] = set()
"""Of all locks of this process."""
_own = threading.local()
"""The locks of a thread, so that one operation may be part of another."""


class LockedError(OryxError):
    """Another writer is at work there."""


class _Held(NamedTuple):
    descriptor: int
    made: list[Path]
    """Folders that were missing before."""


def beside(path: Path) -> Path:
    """The lock file of a dataset or file: hidden, and no name that a dataset can have."""
    return path.with_name(f".{path.name}.lock")


@contextlib.contextmanager
def hold(path: Path, what: str, advice: str = ADVICE, wait: float = 0.0) -> Iterator[None]:
    """Holds the lock of a file, which is made for it and goes afterwards.

    Where another process, or another thread of this one, holds it, a LockedError says who; before
    that it is waited for `wait` seconds. A thread that holds it already may go on. Folders that are
    missing are made, and removed if they are still empty at the end.
    """
    place = path.absolute()
    own: set[Path] = _own.__dict__.setdefault("places", set())
    if place in own:
        yield
        return
    held = _acquire(path.absolute(), what, advice, wait)
    own.add(place)
    try:
        yield
    finally:
        own.discard(place)
        _release(place, held)


def _acquire(path: Path, what: str, advice: str, wait: float) -> _Held:
    until = time.monotonic() + wait
    made: list[Path] = []
    vanished = 0
    while True:
        try:
            made = [*made, *(each for each in files.make_folder(path.parent) if each not in made)]
            descriptor = _open(path)
        except OSError as error:
            if isinstance(error, FileNotFoundError) and vanished < MOST_VANISHED:
                vanished += 1  # another writer has removed its empty folder
                continue
            why = error.strerror or error
            raise OryxError(f"{what} could not be written: {path}: {why}. {advice}") from error
        try:
            if _lock(descriptor, path):
                # Who had it before may have removed the file: then this lock is of no file.
                if _is_current(descriptor, path):
                    _sign(descriptor)
                    _descriptors.add(descriptor)
                    return _Held(descriptor, made)
                os.close(descriptor)
                continue
            holder = _read_holder(descriptor)
        except BaseException:
            with contextlib.suppress(OSError):
                os.close(descriptor)
            raise
        os.close(descriptor)
        if time.monotonic() >= until:
            raise LockedError(
                f"{what} is being written by {holder}; wait until that has ended, or stop it. "
                "Nothing was changed"
            )
        time.sleep(PAUSE)


def _open(path: Path) -> int:
    """The lock file, never through a link: a folder from a stranger may have one."""
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
    try:
        descriptor = os.open(path, flags, 0o644)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _strange(path) from error
        raise
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        os.close(descriptor)
        raise _strange(path)
    return descriptor


def _strange(path: Path) -> OryxError:
    return OryxError(f"{path} is a link, no lock file of ours; remove it")


def _lock(descriptor: int, path: Path) -> bool:
    """Whether it is ours now; where there are no locks that is told, and taken for a yes."""
    if fcntl is None:
        _warn(path, "this system has no such locks")
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in BUSY:
            return False
        if error.errno not in UNSUPPORTED:
            raise OryxError(f"{path} cannot be locked: {error.strerror or error}") from error
        _warn(path, f"its file system has no locks ({error.strerror})")
    return True


def _warn(path: Path, why: str) -> None:
    warnings.warn(
        f"{path.parent} cannot be locked: {why}. Make sure that only one process writes there",
        OryxWarning,
        stacklevel=6,
    )


def _is_current(descriptor: int, path: Path) -> bool:
    """Whether the name still means the file that was opened."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False


def _sign(descriptor: int) -> None:
    """Writes down who holds the lock; a full disk is no reason not to hold it."""
    about = {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "since": time.strftime("%Y-%m-%d %H:%M:%S"),
        "command": " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])[:LONGEST],
    }
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.write(descriptor, json.dumps(about).encode())  # from its beginning: it was just opened


def _read_holder(descriptor: int) -> str:
    """Who holds the lock, in words; its file may come from a stranger."""
    try:
        about = json.loads(os.read(descriptor, 4096))
        pid, host, since, command = (
            "".join(letter for letter in str(about[name]) if letter.isprintable())[:LONGEST]
            for name in ("pid", "host", "since", "command")
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return "another process"
    return f"process {pid} on {host} since {since} ({command})"


def _release(path: Path, held: _Held) -> None:
    """Removes the file while it is locked, so that no other's lock is of a file that is gone."""
    if held.descriptor not in _descriptors:  # of the parent of a forked process: not ours
        return
    try:
        with contextlib.suppress(OSError):
            if os.name != "nt" and _is_current(held.descriptor, path):
                path.unlink()
    finally:  # also where the user interrupts
        _descriptors.discard(held.descriptor)
        with contextlib.suppress(OSError):
            os.close(held.descriptor)
    for folder in held.made:
        try:
            folder.rmdir()  # refused unless it is empty
        except OSError:
            return


def _forget_in_child() -> None:
    """A forked child must not keep its parent's locks alive; to close its copies frees nothing."""
    for descriptor in _descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptor)
    _descriptors.clear()
    _own.__dict__.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
