"""Files that are replaced in one go, so that a kill leaves the old content or the new one."""

import io
import json
import os
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

    With `draft_per_process` several processes may write the same file: the last one wins. Without
    it a draft that a kill has left behind is overwritten by the next.
    """
    mark = f".{os.getpid()}" if draft_per_process else ""
    draft = path.with_name(f"{path.name}{mark}.partial")
    with explain(path, advice):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with draft.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        except OSError:
            draft.unlink(missing_ok=True)
            raise


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
