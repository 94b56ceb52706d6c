"""One writer at a time, in processes and threads; a lock dies with who holds it."""

import errno
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from oryx_marl import files, locks
from oryx_marl.errors import OryxError, OryxWarning
from oryx_marl.locks import LockedError

SOURCE = str(Path(locks.__file__).parents[1])
HOLDER = """
import sys, time
from pathlib import Path
from oryx_marl import locks
with locks.hold(Path(sys.argv[1]), "the thing"):
    print("held", flush=True)
    time.sleep(60)
"""


def start(path: Path, program: str = HOLDER) -> Any:
    """Another process that holds the lock."""
    process: Any = subprocess.Popen(
        [sys.executable, "-c", program, str(path)],
        env={**os.environ, "PYTHONPATH": SOURCE},
        stdout=subprocess.PIPE,
        text=True,
    )
    said = process.stdout.readline()
    process.child = int(said) if program == FORKING else None
    return process


def test_the_second_is_told_who_holds_it_until_that_dies(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / ".lock"
    process = start(path)
    with pytest.raises(LockedError, match=rf"the thing is .* process {process.pid} on .* since 20"):
        locks.hold(path, "the thing").__enter__()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert path.exists()  # which means nothing
    with locks.hold(path, "the thing"):
        pass
    assert not path.exists()


def test_nothing_is_left_and_a_thread_may_enter_twice(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / ".lock"
    with locks.hold(path, "it"), locks.hold(path, "it"):
        assert path.exists()
    assert list(tmp_path.iterdir()) == []
    with locks.hold(path, "it"):
        files.write_text(path.parent / "kept", "")
    assert [each.name for each in path.parent.iterdir()] == ["kept"]


def test_threads_exclude_each_other(tmp_path: Path) -> None:
    """Many at once, each waiting for its turn: the file is removed and made again meanwhile."""
    path, inside, most = tmp_path / "folder" / ".lock", [0], [0]
    counted = threading.Lock()

    def work(seed: int) -> None:
        draw = random.Random(seed)
        for _ in range(10):
            with locks.hold(path, "it", wait=30):
                with counted:
                    inside[0] += 1
                    most[0] = max(most[0], inside[0])
                time.sleep(draw.random() / 500)
                with counted:
                    inside[0] -= 1

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]
    assert not path.exists()


FORKING = """
import os, sys, time
from pathlib import Path
from oryx_marl import locks
with locks.hold(Path(sys.argv[1]), "the thing"):
    child = os.fork()
    if child:
        print(child, flush=True)
    time.sleep(60)
"""


def test_a_forked_child_does_not_keep_the_lock(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    process = start(path, FORKING)
    with pytest.raises(LockedError):
        locks.hold(path, "it").__enter__()
    process.kill()
    process.wait()
    try:
        with locks.hold(path, "it", wait=10):  # it may not have begun to run
            os.kill(process.child, 0)  # it lives
    finally:
        os.kill(process.child, signal.SIGKILL)
        process.communicate()


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(locks.fcntl, "flock", refuse)
    told = "cannot be locked: its file system has no locks"
    with pytest.warns(OryxWarning, match=told), locks.hold(tmp_path / ".lock", "it"):
        pass


def test_a_stranger_s_lock_file_is_neither_followed_nor_believed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("notes")
    link, hard = tmp_path / "link", tmp_path / "hard"
    link.symlink_to(tmp_path / "precious")
    hard.hardlink_to(tmp_path / "precious")
    for path in (link, hard):
        with pytest.raises(OryxError, match="is a link, no lock file of ours"):
            locks.hold(path, "it").__enter__()
    assert (tmp_path / "precious").read_text() == "notes"
    path = tmp_path / ".lock"
    process = start(path)
    for content, told in (
        (b"\x1b[31m", "another process"),
        (b'{"pid": "\\u001b[1m", "host": 1, "since": 2, "command": 3}', r"process \[1m on 1"),
    ):
        path.write_bytes(content)
        with pytest.raises(LockedError, match=told) as caught:
            locks.hold(path, "it").__enter__()
        assert "\x1b" not in str(caught.value)
    process.kill()
    process.communicate()
