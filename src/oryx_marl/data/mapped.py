"""A dataset of any size as raw files that are mapped into memory: unpacked once, then kept.

    <root>/<key>/<array>.raw     the rows of one array, as they lie in memory
    <root>/fingerprints/<hash>   what it took a pass over all rows to find out

Random windows out of compressed chunks cost a decompression each, out of a memory map a page. The
files are a cache: whatever is missing or has another size is unpacked again, what was not used for
longest goes when room is needed. A file that goes while it is mapped stays readable to whoever has
mapped it.
"""

import contextlib
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import platformdirs

from oryx_marl import files, locks
from oryx_marl.data import view as views
from oryx_marl.data.dataset import PER_EPISODE, ArrayInfo, Dataset, to_bytes
from oryx_marl.data.vault_view import VaultView
from oryx_marl.data.view import View
from oryx_marl.errors import OryxError

VARIABLE = "ORYX_UNPACKED"
"""Environment variable: another folder for the files."""
MOST_VARIABLE = "ORYX_UNPACKED_BYTES"
"""Environment variable: most bytes that are kept there."""
MOST_BYTES = 2**38
FINGERPRINTS = "fingerprints"
PARTIAL = ".partial"
LONGEST_WAIT = 24 * 3600.0
"""Seconds to wait for another process that unpacks the same."""

Report = Callable[[int], None]


def root() -> Path:
    """The folder of all unpacked datasets."""
    told = os.environ.get(VARIABLE, "")
    return Path(told) if told else platformdirs.user_cache_path("oryx-marl") / "unpacked"


def num_bytes(layout: Mapping[str, ArrayInfo]) -> int:
    """Of all arrays, as they lie in memory."""
    return sum(info.row_bytes * info.shape[0] for info in layout.values())


def fingerprint(view: View) -> str:
    """That of the dataset; of a vault of ours it is computed once and remembered."""
    known = view.content_sha256 if isinstance(view, VaultView) else None
    if known is None:
        return views.fingerprint(view)
    path = root() / FINGERPRINTS / known
    with contextlib.suppress(OSError):
        told = path.read_text(encoding="ascii", errors="replace")
        if len(told) == 64:
            return told
    found = views.fingerprint(view)
    with contextlib.suppress(OryxError):  # a cache that cannot be written is no reason to stop
        files.write_text(path, found, draft_per_process=True)
    return found


def unpack(view: View, mark: str, report: Report = lambda rows: None) -> Dataset:
    """The view as a Dataset whose arrays are files, mapped read-only.

    Args:
        view: what is unpacked, unless that was done before.
        mark: tells its content apart from that of every other view.
        report: is told the rows so far.
    """
    layout = view.layout
    key = hashlib.sha256(f"{mark} {sorted(layout.items())}".encode()).hexdigest()[:32]
    folder = root() / key
    advice = f"make room, or name another folder with {VARIABLE}"
    if not _is_whole(folder, layout):
        what = f"the unpacked dataset {folder}"
        with locks.hold(locks.beside(folder), what, advice, LONGEST_WAIT):
            if not _is_whole(folder, layout):
                _write(view, folder, advice, report)
    with contextlib.suppress(OSError):
        os.utime(folder)  # it was used
    arrays = {name: _map(folder / f"{name}.raw", info) for name, info in layout.items()}
    return Dataset(spec=view.spec, name=view.name, origin=view.origin, **arrays)


def _is_whole(folder: Path, layout: Mapping[str, ArrayInfo]) -> bool:
    """Whether every file is there and has its size; the folder has its name once it is complete."""
    try:
        return all(
            (folder / f"{name}.raw").stat().st_size == info.row_bytes * info.shape[0]
            for name, info in layout.items()
        )
    except OSError:
        return False


def _map(path: Path, info: ArrayInfo) -> np.ndarray:
    dtype = info.dtype.newbyteorder("<")
    if 0 in info.shape:  # nothing can be mapped of an empty file
        return np.empty(info.shape, dtype)
    # A plain array over the map: arithmetic on it gives plain arrays, not maps.
    return np.asarray(np.memmap(path, dtype, "r", shape=info.shape))


def _write(view: View, folder: Path, advice: str, report: Report) -> None:
    needed = num_bytes(view.layout)
    draft = folder.with_name(folder.name + PARTIAL)
    with files.explain(folder, advice):
        files.make_folder(folder.parent)
        for old in (folder, draft):
            shutil.rmtree(old, ignore_errors=True)
        _make_room(folder.parent, needed)
        try:
            draft.mkdir()
            _write_arrays(view, draft, report)
            files.sync_tree(draft)
            draft.rename(folder)
        except BaseException:  # also where the user interrupts
            shutil.rmtree(draft, ignore_errors=True)
            raise
        files.sync(folder.parent)


def _write_arrays(view: View, folder: Path, report: Report) -> None:
    with contextlib.ExitStack() as stack:
        opened = {
            name: stack.enter_context((folder / f"{name}.raw").open("wb")) for name in view.layout
        }
        for chunk in views.chunks(view):
            for name, values in chunk.arrays.items():
                opened[name].write(to_bytes(values))
            report(chunk.first_row + len(chunk.is_last))
        for name, values in _per_episode(view):
            opened[name].write(to_bytes(values))


def _per_episode(view: View) -> Iterator[tuple[str, np.ndarray]]:
    """Arrays with one entry per episode, in pieces."""
    starts, final = PER_EPISODE
    yield starts, view.episode_starts
    if final not in view.layout:
        return
    size = views.chunk_rows(view)
    for first in range(0, len(view.episode_starts), size):
        found = view.read_final(first, min(first + size, len(view.episode_starts)))
        assert found is not None
        yield final, found


def _make_room(folder: Path, needed: int) -> None:
    """Removes what was not used for longest, as far as is needed; raises if that is too little."""
    most = int(os.environ.get(MOST_VARIABLE, "") or MOST_BYTES)
    if needed > most:
        raise OryxError(
            f"unpacked, the dataset has {needed:,} bytes, more than the {most:,} that may be kept "
            f"in {folder}; allow more with {MOST_VARIABLE}, or subsample it"
        )
    kept = sorted(_unpacked(folder), key=lambda each: each.stat().st_mtime)
    sizes = {each: sum(file.stat().st_size for file in each.iterdir()) for each in kept}
    while kept and (sum(sizes.values()) + needed > most or shutil.disk_usage(folder).free < needed):
        oldest = kept.pop(0)
        del sizes[oldest]
        own = locks.beside(oldest.with_name(oldest.name.removesuffix(PARTIAL)))
        with contextlib.suppress(locks.LockedError), locks.hold(own, f"{oldest}"):
            shutil.rmtree(oldest, ignore_errors=True)  # nobody is writing it
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise OryxError(
            f"to train from disk the dataset is unpacked to {needed:,} bytes, but {folder} has "
            f"only {free:,} free; make room, name another folder with {VARIABLE}, or subsample it"
        )


def _unpacked(folder: Path) -> list[Path]:
    """Complete datasets, and what kills have left of others."""
    return [each for each in folder.iterdir() if each.is_dir() and each.name != FINGERPRINTS]
