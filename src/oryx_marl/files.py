"""Files that are replaced in one go: a kill, or a loss of power, leaves the old or the new content.

What is reported as written is on the disk, and so are its name and those of new folders above it.
"""

import errno
import io
import json
import os
import stat
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from oryx_marl.errors import OryxError

ADVICE = "Make room and resume the run, or choose another folder (out)"
"""What to do when a file of a run cannot be written."""


@contextmanager
def explain(path: Path, advice: str = ADVICE) -> Iterator[None]:
    """Turns a failed write into an error that says what to do."""
    try:
        yield
    except OSError as error:
        raise OryxError(
            f"cannot write {path}: {error.strerror or error}; what was saved before is untouched. "
            f"{advice}"
        ) from error


def write_bytes(
    path: Path, content: bytes, advice: str = ADVICE, draft_per_process: bool = False
) -> None:
    """Replaces a file by way of a draft beside it; folders that are missing are made.

    With `draft_per_process` several processes and threads may write the same file: the last one
    wins. Without it a draft that a kill has left behind is overwritten by the next.
    """
    mark = f".{os.getpid()}-{threading.get_ident()}" if draft_per_process else ""
    draft = path.with_name(f"{path.name}{mark}.partial")
    with explain(path, advice):
        make_folder(path.parent)
        try:
            with draft.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        except BaseException:  # also where the user interrupts
            draft.unlink(missing_ok=True)
            raise
        put_in_place(draft, path)


def put_in_place(draft: Path, path: Path) -> None:
    """Gives a synced draft its name, over what has it so far; removes the draft if that fails."""
    try:
        draft.replace(path)
    except BaseException:
        if draft.is_file():
            draft.unlink(missing_ok=True)
        raise
    sync(path.parent)


def make_folder(folder: Path) -> list[Path]:
    """Makes a folder and those above it that are missing, and syncs their names; the new ones."""
    missing = []
    for place in (folder, *folder.parents):
        if place.exists():
            break
        missing.append(place)
    folder.mkdir(parents=True, exist_ok=True)
    for place in reversed(missing):
        sync(place.parent)
    return missing


def sync(path: Path) -> None:
    """Waits until a file's content, or the names of a folder's entries, are on the disk."""
    if os.name == "nt" and path.is_dir():  # folders cannot be opened there
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        # Some file systems have nothing to sync of a folder, and say so.
        if error.errno != errno.EINVAL or not stat.S_ISDIR(os.fstat(handle).st_mode):
            raise
    finally:
        os.close(handle)


def sync_tree(folder: Path) -> None:
    """Waits until all files of a folder, and their names, are on the disk."""
    for parent, _, names in os.walk(folder, topdown=False):
        for name in names:
            sync(Path(parent) / name)
        sync(Path(parent))


def write_text(
    path: Path, text: str, advice: str = ADVICE, draft_per_process: bool = False
) -> None:
    """Replaces a text file, in UTF-8."""
    write_bytes(path, text.encode(), advice, draft_per_process)


def write_json(
    path: Path, value: Any, advice: str = ADVICE, draft_per_process: bool = False
) -> None:
    """Replaces a JSON file."""
    write_text(path, json.dumps(value, indent=1), advice, draft_per_process)


def write_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Replaces a compressed .npz file."""
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)
    write_bytes(path, content.getvalue())
