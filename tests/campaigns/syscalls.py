"""What a process does to the files below a folder, call by call, and the states in between.

strace writes down every call of all threads, TensorStore's too. Played back call by call upon a
picture of the folder, they give what the disk holds if the process is killed after each of them.
"""

import ctypes
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tests.campaigns.lab import Child

CALLS = (
    "open,openat,creat,write,pwrite64,writev,pwritev,pwritev2,lseek,fsync,fdatasync,rename,"
    "renameat,renameat2,unlink,unlinkat,mkdir,mkdirat,rmdir,ftruncate,truncate,fallocate,"
    "copy_file_range,sendfile,link,linkat,symlink,symlinkat"
)
LINE = re.compile(r"(\d+\.\d+) (\w+)\((.*)\) += (-?\d+|0x[0-9a-f]+)?(.*)", re.DOTALL)
PR_SET_PTRACER, ANY = 0x59616D61, -1
LONGEST_ATTACH = 20.0

Tree = dict[str, bytes | None]


def is_there() -> bool:
    """Whether strace can be run."""
    return shutil.which("strace") is not None


def allow_tracing() -> None:
    """Lets a process that is no parent trace this one."""
    ctypes.CDLL(None).prctl(PR_SET_PTRACER, ctypes.c_ulong(ANY), 0, 0, 0)


class Call(NamedTuple):
    """One call that changed, or synced, something below the folder."""

    when: float
    name: str
    paths: tuple[str, ...]
    """Below the folder."""
    data: bytes = b""
    number: int = 0
    """File descriptor, position or length, as the call needs."""
    flags: str = ""


def attach(child: Child, target: Path) -> subprocess.Popen:
    """Traces a child that waits; returns once it is traced."""
    words = ["strace", "-q", "-ff", "-ttt", "-y", "-xx", "-s", str(10**8), "-e", f"trace={CALLS}"]
    tracer = subprocess.Popen([*words, "-o", str(target), "-p", str(child.pid)])
    until = time.monotonic() + LONGEST_ATTACH
    while "TracerPid:\t0\n" in Path(f"/proc/{child.pid}/status").read_text():
        if time.monotonic() > until or tracer.poll() is not None:
            raise RuntimeError("strace cannot be attached here")
        time.sleep(0.01)
    return tracer


def read(target: Path, root: Path) -> list[Call]:
    """All calls below `root` in their order."""
    lines = [
        line
        for path in target.parent.glob(f"{target.name}.*")
        for line in path.read_text(errors="replace").splitlines()
    ]
    found = [call for line in lines if (call := _parse(line, str(root.absolute())))]
    return sorted(found, key=lambda call: call.when)


def _parse(line: str, root: str) -> Call | None:
    """A successful call that concerns the folder."""
    match = LINE.match(line)
    if not match or match[4] is None or int(match[4], 0) < 0:
        return None
    when, name, words, value = float(match[1]), match[2], match[3], int(match[4], 0)
    fds = [(int(n), _text(path)) for n, path in re.findall(r"(?<![\w\"])(\d+)<([^>]*)>", words)]
    texts = [bytes.fromhex(text.replace("\\x", "")) for text in re.findall(r'"([^"]*)"', words)]
    if name in ("open", "openat", "creat"):
        opened = re.search(r"<([^>]*)>", match[5])
        path = _text(opened[1]) if opened else ""
        return _below(when, "open", (path,), root, number=value, flags=words)
    if name in ("write", "pwrite64", "writev", "pwritev", "pwritev2"):
        place = int(words.rpartition(", ")[2]) if name == "pwrite64" else -1
        data = b"".join(texts)[:value]
        flags = str(place)
        return _below(when, "write", (fds[0][1],), root, data, fds[0][0], flags)
    if name in ("lseek", "fsync", "fdatasync", "ftruncate"):
        number = int(words.rpartition(", ")[2]) if name == "ftruncate" else fds[0][0]
        kind = "fsync" if name == "fdatasync" else name
        return _below(when, kind, (fds[0][1],), root, number=number, flags=str(value))
    if name in ("sendfile", "copy_file_range"):
        order = fds[:2] if name == "sendfile" else fds[1::-1]
        return _below(when, "copy", tuple(p for _, p in order), root, number=value)
    bases = [_text(base) for base in re.findall(r"(?:AT_FDCWD|\b\d+)<([^>]*)>", words)]
    paths = [text.decode(errors="replace") for text in texts]
    whole = [
        path if path.startswith("/") else f"{bases[min(i, len(bases) - 1)] if bases else ''}/{path}"
        for i, path in enumerate(paths)
    ]
    if "AT_REMOVEDIR" in words:
        name = "rmdir"
    return _below(when, name.removesuffix("2").removesuffix("at"), tuple(whole), root)


def _text(path: str) -> str:
    return bytes.fromhex(path.replace("\\x", "")).decode(errors="replace") if path else ""


def _below(
    when: float,
    name: str,
    paths: tuple[str, ...],
    root: str,
    data: bytes = b"",
    number: int = 0,
    flags: str = "",
) -> Call | None:
    """The call with paths as seen from the folder, if it is about something in it."""
    if not any(path == root or path.startswith(f"{root}/") for path in paths):
        return None
    inside = tuple(path.removeprefix(root).lstrip("/") for path in paths)
    return Call(when, name, inside, data, number, flags)


@dataclass
class Replay:
    """A picture of the folder on which calls are played back."""

    tree: Tree
    unsynced: set[str] = field(default_factory=set)
    """Files, and folders whose entries changed, that are not on the disk for certain."""
    _places: dict[int, int] = field(default_factory=dict)

    def play(self, call: Call) -> bool:
        """One call; whether the folder is another one now."""
        before = dict(self.tree)
        getattr(self, f"_{call.name}", self._unknown)(call)
        return before != self.tree

    def _unknown(self, call: Call) -> None:
        raise ValueError(f"{call.name} is not known to the playback")

    def _open(self, call: Call) -> None:
        path = call.paths[0]
        self._places[call.number] = 0
        if path not in self.tree and "O_CREAT" in call.flags:
            self._put(path, b"")
        elif "O_TRUNC" in call.flags and self.tree.get(path):
            self.tree[path] = b""
            self.unsynced.add(path)
        if "O_APPEND" in call.flags:
            self._places[call.number] = -1

    def _write(self, call: Call) -> None:
        path, old = call.paths[0], self.tree.get(call.paths[0])
        if old is None:
            return  # it was removed while it was open
        told = int(call.flags)
        place = told if told >= 0 else self._places.get(call.number, 0)
        if told < 0 and place >= 0:
            self._places[call.number] = place + len(call.data)
        place = len(old) if place < 0 else place
        old = old.ljust(place, b"\0")
        self.tree[path] = old[:place] + call.data + old[place + len(call.data) :]
        self.unsynced.add(path)

    def _copy(self, call: Call) -> None:
        target, source = call.paths
        content = self.tree.get(source)
        if content is not None and self.tree.get(target) is not None:
            start = len(self.tree[target] or b"")
            self.tree[target] = (self.tree[target] or b"") + content[start : start + call.number]
            self.unsynced.add(target)

    def _lseek(self, call: Call) -> None:
        if self._places.get(call.number, 0) >= 0:
            self._places[call.number] = int(call.flags)

    def _fsync(self, call: Call) -> None:
        self.unsynced.discard(call.paths[0] or ".")

    def _ftruncate(self, call: Call) -> None:
        old = self.tree.get(call.paths[0])
        if old is not None:
            self.tree[call.paths[0]] = old[: call.number].ljust(call.number, b"\0")
            self.unsynced.add(call.paths[0])

    def _rename(self, call: Call) -> None:
        old, new = call.paths
        moved = {name: self.tree[name] for name in self.tree if _is_in(name, old)}
        for name in [name for name in self.tree if _is_in(name, old) or _is_in(name, new)]:
            del self.tree[name]
        names = {name: new + name[len(old) :] for name in moved}
        self.tree |= {names[name]: content for name, content in moved.items()}
        self.unsynced = {names.get(n, n) for n in self.unsynced if n in names or not _is_in(n, new)}
        self.unsynced |= {_parent(old), _parent(new)}

    def _unlink(self, call: Call) -> None:
        self.tree.pop(call.paths[0], None)
        self.unsynced.discard(call.paths[0])  # that a removal may be undone harms nobody

    _rmdir = _unlink

    def _mkdir(self, call: Call) -> None:
        self._put(call.paths[0], None)

    def _put(self, path: str, content: bytes | None) -> None:
        if path:
            self.tree[path] = content
            self.unsynced |= {path, _parent(path)}


def states(calls: list[Call], before: Tree) -> Iterator[tuple[int, Call, Tree, bool]]:
    """Number and call, the folder after it, and whether the call has changed it.

    A write into a file with its final name may also be cut in half.
    """
    replay = Replay(dict(before))
    for number, call in enumerate(calls):
        if call.name == "write" and len(call.data) > 1:
            torn = Replay(dict(replay.tree), set(), dict(replay._places))
            if torn.play(call._replace(data=call.data[: len(call.data) // 2])):
                yield number, call._replace(name="half a write"), dict(torn.tree), True
        changed = replay.play(call)
        yield number, call, dict(replay.tree), changed


def unsynced(calls: list[Call], before: Tree) -> list[str]:
    """What the process had not synced when it ended."""
    replay = Replay(dict(before))
    for call in calls:
        replay.play(call)
    return sorted(name for name in replay.unsynced if name == "." or name in replay.tree)


def describe(call: Call) -> str:
    """For the list of failures."""
    size: Any = f" {len(call.data)} bytes" if call.data else ""
    return f"{call.name} {' -> '.join(call.paths)}{size}"


def _is_in(name: str, folder: str) -> bool:
    return name == folder or name.startswith(f"{folder}/")


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "."
