"""Checkpoints: written atomically through orbax, and never read back different from what was
written (every array carries its SHA-256).

    <folder>/<update>              a checkpoint that is whole and on the disk
    <folder>/<update>.replaced     one that makes room for another of the same update; it counts as
                                   long as that is not in its place
    <folder>/<update>.partial, <update>.dropped     neither: the next save removes them
"""

import hashlib
import json
import logging
import math
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import orbax.checkpoint as ocp
import tensorstore as ts

from oryx_marl import files, limits, reading
from oryx_marl.errors import OryxError
from oryx_marl.trees import flatten, unflatten

PARTIAL, REPLACED, DROPPED = ".partial", ".replaced", ".dropped"
"""How the names of folders end that are no checkpoint yet, are about to go, or go."""


@contextmanager
def _quiet() -> Iterator[None]:
    """Orbax logs each step, and each failure with a stack; its exceptions are what we report."""
    logger = logging.getLogger("absl")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def _orbax() -> ocp.Checkpointer:
    """A writer that waits for no other process."""
    own = jax.process_index()
    options = ocp.options.MultiprocessingOptions(own, {own}, barrier_sync_key_prefix=str(own))
    handler = ocp.PyTreeCheckpointHandler(multiprocessing_options=options)
    return ocp.Checkpointer(handler, multiprocessing_options=options)


class Checkpoint(NamedTuple):
    """A pytree of arrays and what belongs to it, as of one update."""

    update: int
    tree: Any
    extra: dict[str, Any]


def save(folder: Path, checkpoint: Checkpoint, keep: int = 2) -> None:
    """Writes the checkpoint beside earlier ones and then drops all but the newest `keep`.

    It is on the disk, with all names, before an earlier one goes. If writing fails, the earlier
    ones are untouched and an OryxError says why.
    """
    arrays = flatten(jax.device_get(checkpoint.tree))
    notes = {
        "update": checkpoint.update,
        "extra": checkpoint.extra,
        "arrays": {name: _fingerprint(array) for name, array in arrays.items()},
    }
    final = folder / str(checkpoint.update)
    draft = folder / f"{checkpoint.update}{PARTIAL}"
    try:
        files.make_folder(folder)
        _tidy(folder)
        with _quiet(), _orbax() as writer:
            writer.save(draft.absolute() / "state", arrays)
        (draft / "notes.json").write_text(json.dumps({**notes, "seal": _seal(notes)}))
        files.sync_tree(draft)
        _put_in_place(draft, final)
    except (OSError, ValueError, RuntimeError) as error:
        shutil.rmtree(draft, ignore_errors=True)
        raise OryxError(
            f"could not write checkpoint {final}: {_first_line(error)}; earlier checkpoints are "
            "untouched; make room, then resume the run"
        ) from error
    outdated = updates(folder)[:-keep]
    for old in outdated:
        _drop(_place(folder, old))
    if outdated:
        files.sync(folder)


def _tidy(folder: Path) -> None:
    """Ends what a kill has interrupted: no half checkpoint, and none under a second name."""
    for entry in sorted(folder.iterdir()):
        update, ending = entry.stem, entry.suffix
        if not _is_update(update) or ending not in (PARTIAL, REPLACED, DROPPED):
            continue
        if ending == REPLACED and not (folder / update).exists():
            entry.rename(folder / update)
            files.sync(folder)
        else:
            shutil.rmtree(entry, ignore_errors=True)


def _put_in_place(draft: Path, final: Path) -> None:
    """Names a checkpoint; one of the same update is found under one of its names until then."""
    replaced = final.with_name(final.name + REPLACED)
    if final.exists():
        final.rename(replaced)
    draft.rename(final)
    files.sync(final.parent)
    shutil.rmtree(replaced, ignore_errors=True)


def _drop(path: Path) -> None:
    """Removes a checkpoint, which at no time is a part of one."""
    dropped = path.with_name(f"{path.stem}{DROPPED}")
    shutil.rmtree(dropped, ignore_errors=True)
    try:
        path.rename(dropped)
    except OSError:  # it stays as it is
        return
    shutil.rmtree(dropped, ignore_errors=True)


def updates(folder: Path) -> list[int]:
    """Updates of which there is a complete checkpoint, ascending."""
    if not folder.is_dir():
        return []
    names = {entry.name.removesuffix(REPLACED) for entry in folder.iterdir()}
    return sorted(int(name) for name in names if _is_update(name))


def _is_update(name: str) -> bool:
    return name.isascii() and name.isdecimal()


def _place(folder: Path, update: int) -> Path:
    """Where the checkpoint of an update lies."""
    final = folder / str(update)
    replaced = final.with_name(final.name + REPLACED)
    return replaced if not final.exists() and replaced.exists() else final


def restore(folder: Path, like: Any, update: int | None = None) -> Checkpoint:
    """The newest checkpoint (or that of one update) in the structure of `like`, arrays on the host.

    Raises an OryxError if there is none, if any file is damaged, or if it does not fit `like`.
    """
    found = read(folder, update=update)
    path = _place(folder, found.update)
    return found._replace(tree=unflatten(found.tree, like, path))


def read(folder: Path, parts: tuple[str, ...] = (), update: int | None = None) -> Checkpoint:
    """The newest checkpoint (or that of one update) as arrays by name.

    Nothing need be known of its structure. With `parts` only the arrays of those branches of the
    tree are read and checked: the state of environments can be much larger than a policy.
    """
    found = updates(folder)
    if not found or (update is not None and update not in found):
        which = "" if update is None else f" of update {update}"
        raise OryxError(f"there is no checkpoint{which} in {folder}")
    chosen = found[-1] if update is None else update
    path = _place(folder, chosen)
    try:
        notes = reading.read_json(path / "notes.json")
        if notes.pop("seal") != _seal(notes):
            raise ValueError("notes.json was altered")
        marks = {
            name: mark
            for name, mark in notes["arrays"].items()
            if not parts or name.split("/")[0] in parts
        }
        arrays = _read_arrays(path / "state", marks)
        damaged = [n for n, mark in marks.items() if _fingerprint(arrays[n]) != mark]
        if damaged:
            raise ValueError(f"array {damaged[0]} was altered")
        return Checkpoint(int(notes["update"]), arrays, notes["extra"])
    except limits.LimitError:
        raise
    except Exception as error:  # orbax and tensorstore raise whatever their parsers raise
        earlier = [str(u) for u in found if u != chosen]
        hint = f"delete it to continue from update {earlier[-1]}" if earlier else "train again"
        raise OryxError(f"checkpoint {path} is damaged ({_first_line(error)}): {hint}") from error


def _read_arrays(state: Path, names: Iterable[str]) -> dict[str, np.ndarray]:
    """Arrays as orbax stores them: zarr in an OCDBT database.

    Read without orbax, which asks for every array's description a second time. No memory is taken
    before it is known that the arrays claim no more than the files can hold.
    """
    context = ts.Context({"cache_pool": {"total_bytes_limit": 0}})
    database = {"driver": "ocdbt", "base": {"driver": "file", "path": f"{state.absolute()}/"}}
    opening = {
        name: ts.open(
            {"driver": "zarr", "kvstore": {**database, "path": name}}, open=True, context=context
        )
        for name in names
    }
    opened = {name: future.result() for name, future in opening.items()}
    claimed = sum(_claimed_bytes(array) for array in opened.values())
    if claimed > limits.LEAST_BYTES:
        held = sum(file.stat().st_size for file in state.rglob("*") if file.is_file())
        limits.require_held(str(state.parent), claimed, held, limits.MOST_TIMES_STORED)
    promised = {name: array.read() for name, array in opened.items()}
    return {name: np.asarray(future.result()) for name, future in promised.items()}


def _claimed_bytes(array: Any) -> int:
    """Memory that reading an array takes: its chunks are decoded whole."""
    chunk = array.chunk_layout.read_chunk.shape or ()  # none of a single number
    values = max(math.prod(array.shape), math.prod(chunk))
    return values * array.dtype.numpy_dtype.itemsize


def _fingerprint(array: Any) -> str:
    array = np.ascontiguousarray(array)
    head = f"{array.dtype.str} {array.shape} ".encode()
    return hashlib.sha256(head + array.tobytes()).hexdigest()


def _seal(notes: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(notes, sort_keys=True).encode()).hexdigest()


def _first_line(error: Exception) -> str:
    if "No space left" in str(error):
        return "no space left on the device"
    line = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {line[:300]}"
