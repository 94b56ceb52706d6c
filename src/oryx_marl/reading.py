"""JSON and arrays out of files from elsewhere: sizes are compared before memory is taken.

Nothing is ever unpickled or executed. What is wrong with a file raises a ValueError, whatever the
library below would have raised, so that each reader can say what it was reading.
"""

import json
import math
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from oryx_marl import limits, texts
from oryx_marl.errors import OryxError

NPY = ".npy"


def read_json(path: Path) -> Any:
    """The value in a JSON file."""
    limits.require(str(path), path.stat().st_size, limits.JSON_BYTES)
    return parse_json(path.read_bytes())


def parse_json(text: str | bytes, is_strict: bool = True) -> Any:
    """The value of a JSON text; where it is strict, no name occurs twice in an object."""
    if isinstance(text, bytes):
        text = text.decode("utf-8-sig")
    try:
        value = json.loads(text, object_pairs_hook=_to_object if is_strict else None)
    except RecursionError as error:
        raise ValueError(f"it is nested more than {limits.JSON_DEPTH} levels deep") from error
    if text.count("[") + text.count("{") > limits.JSON_DEPTH:
        _require_shallow(value)
    if "\\ud" in text.lower():  # halves of letters, which no file can be written with
        json.dumps(value, ensure_ascii=False).encode()
    return value


def _to_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the entry {texts.shorten(twice)!r} is there twice")
    return found


def _require_shallow(value: Any) -> None:
    """Raises where lists and objects are nested deeper than others can follow."""
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > limits.JSON_DEPTH + 1:
            raise ValueError(f"it is nested more than {limits.JSON_DEPTH} levels deep")
        inner = (each.values() if isinstance(each, dict) else each for each in level)
        level = [one for each in inner for one in each if isinstance(one, dict | list)]
        if depth == 1 and not isinstance(value, dict | list):
            return


class Arrays(Mapping[str, np.ndarray]):
    """The arrays of an open npz file, each read when it is asked for."""

    def __init__(self, archive: zipfile.ZipFile, entries: dict[str, zipfile.ZipInfo]) -> None:
        self._archive, self._entries = archive, entries

    def __getitem__(self, name: str) -> np.ndarray:
        entry = self._entries[name]
        with self._archive.open(entry) as file, told(name):
            require_header(file, entry.file_size)
        with self._archive.open(entry) as file, told(name):
            array = np.lib.format.read_array(file, allow_pickle=False)
            if file.read(1):  # which also compares the checksum of the whole
                raise ValueError("there is more than its header says")
            return array

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


@contextmanager
def open_npz(path: Path) -> Iterator[Arrays]:
    """The arrays of an npz file, if it unpacks to no more than it may."""
    with path.open("rb") as file, told():
        archive = zipfile.ZipFile(file)
        yield Arrays(archive, npz_entries(archive, path))


def load_npz(path: Path) -> dict[str, np.ndarray]:
    """All arrays of an npz file."""
    with open_npz(path) as arrays:
        return dict(arrays)


def npz_entries(archive: zipfile.ZipFile, path: Path) -> dict[str, zipfile.ZipInfo]:
    """The arrays in an npz file by name, once their sizes were compared with the file's."""
    entries = [entry for entry in archive.infolist() if entry.filename.endswith(NPY)]
    limits.require(str(path), len(entries), limits.ARRAYS, "arrays")
    claimed = sum(entry.file_size for entry in entries)
    limits.require_held(str(path), claimed, path.stat().st_size)
    found = {entry.filename.removesuffix(NPY): entry for entry in entries}
    if len(found) < len(entries):
        raise ValueError("it has two arrays of one name")
    return found


def require_header(file: Any, size: int) -> None:
    """Raises unless an npy file of so many bytes holds numbers or texts, as many as it says."""
    version = np.lib.format.read_magic(file)
    read = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    if version not in read:
        raise ValueError(f"its version {version} is not known")
    shape, _, dtype = read[version](file)
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which are never loaded; store plain numbers")
    if any(length < 0 for length in shape):
        raise ValueError(f"its shape is {shape}")
    claimed = math.prod(shape) * dtype.itemsize
    if claimed != size - file.tell():
        raise ValueError(f"it claims {claimed:,} bytes, but has {size - file.tell():,}")


@contextmanager
def told(name: str = "") -> Iterator[None]:
    """Whatever damaged files make the libraries below raise becomes a ValueError."""
    try:
        yield
    except (OryxError, OSError):
        raise
    except Exception as error:
        what = f"{name}: " if name else ""
        raise ValueError(f"{what}{texts.first_line(error)}") from error
