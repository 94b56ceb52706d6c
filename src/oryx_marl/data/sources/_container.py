"""Named arrays in an HDF5 file, an npz file or a folder of npy files, read in slices.

Nothing of a file is ever executed or unpickled, and no file but the given one is read.
"""

import contextlib
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from oryx_marl.data.sources.base import require
from oryx_marl.errors import OryxError

HDF5 = (".h5", ".hdf5", ".hdf")
MOST_ARRAYS = 10_000
MOST_COMPRESSED = 1_100
"""How much smaller HDF5's compression can make an array."""


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
            arrays = dict(walk_hdf5(file))
            parents = {name.rpartition("/")[0] for name in arrays}
            cut = {name.rpartition("/")[2]: array for name, array in arrays.items()}
            yield cut if len(parents) == 1 else arrays


@contextlib.contextmanager
def open_hdf5(path: Path) -> Iterator[Any]:
    """An HDF5 file for reading."""
    h5py = require("h5py")
    with h5py.File(path, "r") as file:
        yield file


def walk_hdf5(group: Any, prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """All arrays below a group. Links and data in other files are refused."""
    h5py = require("h5py")
    if depth > 8:
        raise OryxError(f"group {prefix} is nested too deeply")
    for name in group:
        where = f"{prefix}{name}"
        if not isinstance(group.get(name, getlink=True), h5py.HardLink):
            raise OryxError(f"{where} is a link to elsewhere, which is not followed; copy it here")
        entry = group[name]
        if isinstance(entry, h5py.Group):
            yield from walk_hdf5(entry, f"{where}/", depth + 1)
        elif isinstance(entry, h5py.Dataset):
            if entry.is_virtual or entry.external:
                raise OryxError(f"{where} lies in another file, which is not opened; copy it here")
            if entry.dtype.kind in "biuf" and entry.ndim:
                if entry.nbytes > MOST_COMPRESSED * entry.id.get_storage_size() + 2**20:
                    raise OryxError(f"{where} claims {entry.nbytes:,} bytes, but has hardly any")
                yield where, entry


def _open_folder(folder: Path) -> dict[str, np.ndarray]:
    """The npy files of a folder, mapped into memory."""
    files = sorted(folder.glob("*.npy"))[:MOST_ARRAYS]
    for file in files:
        if file.is_symlink():
            raise OryxError(f"{file.name} is a link, which is not followed; copy it here")
    return {file.stem: _map(file) for file in files}


def _open_npz(path: Path, folder: Path) -> dict[str, np.ndarray]:
    """The arrays of an npz file, unpacked into a folder under names of our own."""
    arrays = {}
    with zipfile.ZipFile(path) as archive:
        entries = [entry for entry in archive.infolist() if entry.filename.endswith(".npy")]
        size = sum(entry.file_size for entry in entries)
        if size > shutil.disk_usage(folder).free or len(entries) > MOST_ARRAYS:
            raise OryxError(
                f"unpacked it has {len(entries)} arrays and {size / 1e9:,.1f} GB, more than there "
                "is space for"
            )
        for number, entry in enumerate(entries):
            file = folder / f"{number}.npy"
            with archive.open(entry) as source, file.open("wb") as target:
                shutil.copyfileobj(source, target, 2**20)
            arrays[entry.filename.removesuffix(".npy")] = _map(file)
    return arrays


def _map(file: Path) -> np.ndarray:
    """An npy file in memory, page by page as it is read."""
    try:
        # A pickled one is refused here, and one that claims more than the file has.
        return np.load(file, mmap_mode="r", allow_pickle=False)
    except ValueError as error:
        if "Python objects" in str(error) or "pickle" in str(error):
            raise OryxError(
                f"{file.name} holds Python objects, which are never loaded; store plain numbers"
            ) from error
        raise
