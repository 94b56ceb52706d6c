"""Named arrays in an HDF5 file, an npz file or a folder of npy files, read in slices.

Nothing of a file is ever executed or unpickled, and no file but the given one is read.
"""

import contextlib
import math
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from oryx_marl import limits, reading, texts
from oryx_marl.data.sources.base import require
from oryx_marl.errors import OryxError

HDF5 = (".h5", ".hdf5", ".hdf")
DEEPEST = 8
"""Groups within each other that are looked into."""


@runtime_checkable
class Sliced(Protocol):
    """An array of which slices can be read."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> np.dtype: ...

    def __getitem__(self, rows: Any) -> Any: ...


def is_container(path: Path) -> bool:
    """Whether the name of a file, or what is in a folder, says that arrays are there."""
    if path.is_dir():
        return any(path.glob("*.npy"))
    return path.suffix.lower() in (*HDF5, ".npz")


def has_episode_axis(arrays: Mapping[str, Sliced]) -> bool:
    """Whether arrays begin with episodes, then steps, as PyMARL's do; else with steps alone."""
    return "filled" in arrays or ("obs" in arrays and len(arrays["obs"].shape) == 4)


@contextlib.contextmanager
def open_arrays(path: Path) -> Iterator[Mapping[str, Sliced]]:
    """The arrays by name; a name of several parts is cut to the last where all share the first."""
    if path.is_dir():
        yield _open_folder(path)
    elif path.suffix.lower() == ".npz":
        with tempfile.TemporaryDirectory(prefix="oryx-") as folder:
            yield _open_npz(path, Path(folder))
    else:
        with open_hdf5(path) as file:
            arrays = file.arrays()
            parents = {name.rpartition("/")[0] for name in arrays}
            cut = {name.rpartition("/")[2]: array for name, array in arrays.items()}
            yield cut if len(parents) == 1 else arrays


@contextlib.contextmanager
def open_hdf5(path: Path) -> "Iterator[Hdf5]":
    """An HDF5 file for reading."""
    h5py = require("h5py")
    with h5py.File(path, "r") as file:
        yield Hdf5(file, path)


class Hdf5:
    """An open HDF5 file, of which only what lies in it, and is reached one way, is ever opened."""

    def __init__(self, file: Any, path: Path) -> None:
        self._file, self._held = file, path.stat().st_size
        self._groups: set[Any] = set()
        self._num_objects = 0
        self._claimed = 0

    def __len__(self) -> int:
        return len(self._file)

    def names(self) -> list[str]:
        """What stands at the top."""
        return list(self._file)

    def arrays(self, name: str | None = None) -> dict[str, Any]:
        """All arrays by name, or those below a group at the top."""
        if name is None:
            return dict(self._walk(self._file, ""))
        group = self._open(self._file, name, name)
        if not isinstance(group, require("h5py").Group):
            raise OryxError(f"{name} is no group")
        return dict(self._walk(group, f"{name}/"))

    def _walk(self, group: Any, prefix: str, depth: int = 0) -> Iterator[tuple[str, Any]]:
        h5py = require("h5py")
        if depth > DEEPEST:
            raise OryxError(f"group {texts.shorten(prefix)} is nested too deeply")
        place = h5py.h5o.get_info(group.id).addr
        if place in self._groups:  # a few kilobytes of such links make a walk without end
            raise OryxError(f"group {texts.shorten(prefix)} is there under two names")
        self._groups.add(place)
        for name in group:
            where = f"{prefix}{name}"
            entry = self._open(group, name, where)
            if isinstance(entry, h5py.Group):
                yield from self._walk(entry, f"{where}/", depth + 1)
            elif isinstance(entry, h5py.Dataset) and entry.dtype.kind in "biuf" and entry.ndim:
                self._require_array(entry, where)
                yield where, entry

    def _open(self, group: Any, name: str, where: str) -> Any:
        """An entry of a group; links, and data in other files, are refused."""
        h5py = require("h5py")
        self._num_objects += 1
        limits.require("the file", self._num_objects, limits.HDF5_OBJECTS, "groups and arrays")
        if not isinstance(group.get(name, getlink=True), h5py.HardLink):
            raise OryxError(f"{where} is a link to elsewhere, which is not followed; copy it here")
        entry = group[name]
        if isinstance(entry, h5py.Dataset) and (entry.is_virtual or entry.external):
            raise OryxError(f"{where} lies in another file, which is not opened; copy it here")
        return entry

    def _require_array(self, entry: Any, where: str) -> None:
        """Raises where an array claims more than it, its chunks or the file can hold."""
        itemsize = entry.dtype.itemsize
        stored = min(entry.id.get_storage_size(), self._held)
        claimed = math.prod(entry.shape) * itemsize
        limits.require_held(where, claimed, stored)
        if entry.chunks is not None:
            chunk = math.prod(entry.chunks) * itemsize
            limits.require(f"a chunk of {where}", chunk, limits.CHUNK_BYTES)
            limits.require_held(f"a chunk of {where}", chunk, self._held)
        self._claimed += claimed
        limits.require_held("all arrays together", self._claimed, self._held)


def _open_folder(folder: Path) -> dict[str, np.ndarray]:
    """The npy files of a folder, mapped into memory."""
    files = sorted(folder.glob("*.npy"))
    limits.require(str(folder), len(files), limits.ARRAYS, "arrays")
    for file in files:
        if file.is_symlink():
            raise OryxError(f"{file.name} is a link, which is not followed; copy it here")
    return {file.stem: _map(file, file.name) for file in files}


def _open_npz(path: Path, folder: Path) -> dict[str, np.ndarray]:
    """The arrays of an npz file, unpacked into a folder under names of our own."""
    arrays = {}
    with zipfile.ZipFile(path) as archive:
        entries = reading.npz_entries(archive, path)
        size = sum(entry.file_size for entry in entries.values())
        if size > shutil.disk_usage(folder).free:
            raise OryxError(f"unpacked it has {size / 1e9:,.1f} GB, more than there is space for")
        for number, (name, entry) in enumerate(entries.items()):
            file = folder / f"{number}.npy"
            with archive.open(entry) as source, file.open("wb") as target:
                shutil.copyfileobj(source, target, 2**20)
            arrays[name] = _map(file, name)
    return arrays


def _map(file: Path, name: str) -> np.ndarray:
    """An npy file in memory, page by page as it is read."""
    # A pickled one is refused here, and one that claims more than the file has.
    with file.open("rb") as stream, reading.told(name):
        reading.require_header(stream, file.stat().st_size)
    return np.load(file, mmap_mode="r", allow_pickle=False)
