"""A Dataset on disk: a flashbax Vault with OG-MARL's names, whose every byte is checked.

    <folder>/manifest.ocdbt, d/     TensorStore's database
    <folder>/metadata.json          flashbax's description, and ours under the key `oryx_marl`

A vault appears under its name only when it is complete. What cannot be trusted is never returned.
"""

import contextlib
import hashlib
import json
import math
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from oryx_marl import files, limits, locks, reading, renamed, texts
from oryx_marl.data._foreign import read_foreign
from oryx_marl.data._store import (
    MOST_ROWS,
    GrowingArray,
    Store,
    choose_block_rows,
    hash_rows,
    to_dtype,
)
from oryx_marl.data.dataset import ArrayInfo, Dataset, name_in_files
from oryx_marl.data.view import View, chunk_rows, chunks
from oryx_marl.errors import OryxError
from oryx_marl.types import Spec

FORMAT = 1
FLASHBAX_VERSION = 1.2
METADATA = "metadata.json"
PARTIAL = ".partial"

SHARED_NAMES = {
    "observations": "observations.",
    "actions": "actions.",
    "rewards": "rewards.",
    "terminals": "terminals.",
    "truncations": "truncations.",
    "action_mask": "infos.legals.",
    "state": "infos.state.",
    "agent_mask": "infos.present.",
}
"""Our arrays that flashbax and OG-MARL know, and the names they go by there."""
OWN_NAMES = {"episode_starts": "episode_starts.", "final_observations": "final_observations."}
"""Arrays that are not one per step: beside the tree that flashbax reads, which ignores them."""


def write(dataset: Dataset, folder: Path, level: int = 3) -> Path:
    """Stores a dataset in a new folder, whole or not at all; `level` is zstd's, 1 to 22."""
    return write_parts([dataset], folder, level)


def write_parts(parts: Iterable[Dataset], folder: Path, level: int = 3) -> Path:
    """Stores the episodes of all parts, one after another, as one dataset, like `write`.

    Only one part is held at a time. Name and Spec are those of the first part; the origin is that
    of the last, so that a maker can add what is known only at the end.
    """
    with _drafting(folder, level) as draft:
        for part in parts:
            draft.add(part)
            del part  # or it would be held while the next one is made
    return folder


def write_view(
    view: View,
    folder: Path,
    name: str | None = None,
    origin: dict[str, Any] | None = None,
    report: Callable[[int], None] = lambda rows: None,
) -> Path:
    """Stores a view, like `write`; only a chunk is held at a time, however long an episode is.

    A name and an origin may replace those of the view. `report` is told the rows so far.
    """
    if view.num_rows > MOST_ROWS:
        raise OryxError(
            f"dataset '{view.name}' has {view.num_rows:,} rows, but {MOST_ROWS:,} is the most that "
            "can be stored as one"
        )
    with _drafting(folder, level=3) as draft:
        origin = view.origin if origin is None else origin
        draft.begin(name or view.name, origin, view.spec, view.layout)
        for chunk in chunks(view):
            report(chunk.first_row)
            draft.append(chunk.arrays, len(chunk.is_last))
        size = chunk_rows(view)
        for first in range(0, len(view.episode_starts), size):
            last = min(first + size, len(view.episode_starts))
            arrays = {"episode_starts": view.episode_starts[first:last]}
            final = view.read_final(first, last)
            draft.append(arrays if final is None else {**arrays, "final_observations": final})
    return folder


def read(folder: Path) -> Dataset:
    """The dataset that `write` stored, after all of it was compared with its hashes.

    A vault that flashbax or OG-MARL wrote has neither hashes nor Spec: its Spec and its episodes
    are derived from shapes and from the ends of the agents (see `_foreign.py`).
    """
    document = read_document(folder)
    store = Store(folder)
    with explained(folder):
        if document.get("oryx_marl") is not None:
            return _read_checked(folder, check_entry(folder, document, store), store)
        require_foreign(folder, store)
        return read_foreign(store, document["structure_shape"], name_of(folder))


def require_foreign(folder: Path, store: Store) -> None:
    """Raises if a vault without our key was ours."""
    if OWN_NAMES["episode_starts"] in store.names():
        raise damaged(folder, f"{METADATA} has lost its key 'oryx_marl'")


def name_of(folder: Path) -> str:
    """The name that a folder's place gives a dataset."""
    return f"{folder.absolute().parent.name.removesuffix('.vlt')}/{folder.name}"


def describe(folder: Path) -> dict[str, Any]:
    """Name, origin, rows and Spec as they were stored, without reading the arrays."""
    document = read_document(folder)
    with explained(folder):
        entry = document.get("oryx_marl", {})
        return {key: entry[key] for key in ("name", "origin", "rows", "spec") if key in entry}


def is_vault(folder: Path) -> bool:
    """Whether a folder is, or was before it was damaged, a complete vault."""
    has_part = any((folder / part).exists() for part in (METADATA, "manifest.ocdbt"))
    return has_part and not folder.name.endswith(PARTIAL)


@contextlib.contextmanager
def _drafting(folder: Path, level: int) -> Iterator["_Draft"]:
    """A draft that is published at the end; whatever goes wrong, nothing is left of it."""
    with lock(folder):
        if os.path.lexists(folder):
            raise OryxError(f"{folder} is there already; remove it or choose another name")
        draft = _Draft(folder, level)
        try:
            yield draft
            draft.publish()
        except BaseException:  # also where the user interrupts
            draft.discard()
            raise


def lock(folder: Path) -> contextlib.AbstractContextManager[None]:
    """For whoever writes a dataset: nobody else does meanwhile."""
    return locks.hold(locks.beside(folder), f"the dataset {folder}")


class _Draft:
    """A dataset that grows part by part in a folder of another name until it is complete."""

    def __init__(self, folder: Path, level: int) -> None:
        self._folder = folder
        self._partial = folder.with_name(folder.name + PARTIAL)
        self._level = level
        self._store: Store | None = None
        self._arrays: dict[str, GrowingArray] = {}
        self._num_parts = 0
        self._block_rows = 0
        self._layout: Mapping[str, ArrayInfo] = {}
        self._about: dict[str, Any] = {}

    def add(self, part: Dataset) -> None:
        """Appends the episodes of a part."""
        if self._num_parts == 0:
            self.begin(part.name, part.origin, part.spec, part.layout)
        else:
            _require_plain(part.name, "origin", part.origin)
            self._require_fit(part.spec.to_dict(), part.arrays())
        self._num_parts += 1
        arrays = {**part.arrays(), "episode_starts": self._shift_starts(part)}
        self.append(arrays, part.num_rows)
        self._about["origin"] = part.origin

    def begin(
        self, name: str, origin: dict[str, Any], spec: Spec, layout: Mapping[str, ArrayInfo]
    ) -> None:
        """Says what is to be stored."""
        described = spec.to_dict()
        _require_plain(name, "Spec", described)
        _require_plain(name, "origin", origin)
        self._about = {"name": name, "origin": origin, "spec": described, "rows": 0}
        self._block_rows = choose_block_rows(layout.values())
        self._layout = layout

    def append(self, arrays: Mapping[str, np.ndarray], rows: int = 0) -> None:
        """Adds to some arrays, of which so many rows are logged steps."""
        with self._refusal_explained():
            if self._store is None:
                self._open()
            for name, array in arrays.items():
                self._arrays[name].append(array)
        self._about["rows"] += rows

    def publish(self) -> None:
        """Completes the dataset and gives it its name."""
        if self._store is None:
            raise OryxError(f"there is nothing to store in {self._folder}: no part was given")
        _require_plain(self._about["name"], "origin", self._about["origin"])
        with self._refusal_explained():
            entries = {name: array.finish() for name, array in self._arrays.items()}
            self._store.commit()
            self._store.write_index(self._about["rows"])
            self._store.commit()
            document = _describe({**self._about, "block_rows": self._block_rows}, entries)
            (self._partial / METADATA).write_text(json.dumps(document), encoding="utf-8")
            files.sync_tree(self._partial)
            self._partial.rename(self._folder)
            files.sync(self._folder.parent)

    def discard(self) -> None:
        """Removes what was written, unless it was published."""
        if self._store is not None:
            self._store.abandon()
        shutil.rmtree(self._partial, ignore_errors=True)

    def _open(self) -> None:
        """Makes the folder, its database and its arrays."""
        if self._partial.is_dir():  # left behind by a write that was killed
            shutil.rmtree(self._partial)
        self._partial.mkdir(parents=True)
        self._store = store = Store(self._partial)
        for name, info in self._layout.items():
            stored_name = {**SHARED_NAMES, **OWN_NAMES}[name]
            self._arrays[name] = GrowingArray(
                store, stored_name, info, self._block_rows, self._level
            )

    def _shift_starts(self, part: Dataset) -> np.ndarray:
        """Where the episodes of a part start in the whole dataset."""
        rows, starts = self._about["rows"], part.episode_starts
        if rows + part.num_rows > MOST_ROWS:
            raise OryxError(
                f"dataset '{part.name}' has {rows + part.num_rows:,} rows with its part "
                f"{self._num_parts}, but {MOST_ROWS:,} is the most that can be stored as one"
            )
        if rows + int(starts[-1]) > np.iinfo(starts.dtype).max:
            raise OryxError(
                f"part {self._num_parts} of dataset '{part.name}' has an episode from row "
                f"{rows + int(starts[-1]):,} on, too much for episode_starts of type "
                f"{starts.dtype.name}; use int64"
            )
        return starts + starts.dtype.type(rows)

    def _require_fit(self, spec: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        """Raises unless the next part has the Spec, the arrays and the types of the first one."""
        misfits = [
            f"{key} of its Spec is {spec[key]!r}, not {value!r}"
            for key, value in self._about["spec"].items()
            if spec[key] != value
        ]
        misfits += [f"it has no {name}" for name in self._arrays if name not in arrays]
        misfits += [f"it also has {name}" for name in arrays if name not in self._arrays]
        misfits += [
            f"its {name} are {arrays[name].dtype.name}, not {grown.dtype.name}"
            for name, grown in self._arrays.items()
            if name in arrays and arrays[name].dtype.newbyteorder("=") != grown.dtype
        ]
        if misfits:
            raise OryxError(
                f"part {self._num_parts + 1} of dataset '{self._about['name']}' does not fit the "
                f"first: {'; '.join(misfits)}"
            )

    @contextlib.contextmanager
    def _refusal_explained(self) -> Iterator[None]:
        """Whatever the disk refuses becomes an OryxError."""
        try:
            yield
        except (OSError, ValueError) as error:  # TensorStore raises ValueError when full
            raise OryxError(
                f"dataset '{self._about['name']}' could not be written to {self._folder}: "
                f"{texts.first_line(error)}. Nothing was left there. Is there space, and may you "
                "write?"
            ) from error


def _require_plain(name: str, part: str, values: Any) -> None:
    """Raises unless the Spec or the origin of a dataset can be written as JSON."""
    try:
        json.dumps(values)
    except (TypeError, ValueError) as error:
        raise OryxError(
            f"the {part} of dataset '{name}' cannot be stored: {error}; "
            "use plain numbers, texts, lists and tables"
        ) from error


def _describe(about: dict[str, Any], entries: dict[str, Any]) -> dict[str, Any]:
    """What goes into metadata.json."""
    shapes: dict[str, Any] = {}
    dtypes: dict[str, Any] = {}
    for name, known in entries.items():
        if name in SHARED_NAMES:
            *parents, leaf = SHARED_NAMES[name].rstrip(".").split(".")
            shape_at, dtype_at = shapes, dtypes
            for parent in parents:
                shape_at, dtype_at = (
                    shape_at.setdefault(parent, {}),
                    dtype_at.setdefault(parent, {}),
                )
            shape_at[leaf], dtype_at[leaf] = str((1, *known["shape"])), known["dtype"]
    arrays = {name_in_files(name): known for name, known in entries.items()}
    entry = {"format": FORMAT, **about, "arrays": arrays}
    document = {
        "version": FLASHBAX_VERSION,
        "structure_shape": shapes,
        "structure_dtype": dtypes,
        "oryx_marl": entry,
    }
    document = json.loads(json.dumps(document))  # tuples become lists, as they will be when read
    document["oryx_marl"]["sha256"] = _hash_document(document)
    return document


def read_document(folder: Path) -> dict[str, Any]:
    """metadata.json of a complete vault."""
    if folder.name.endswith(PARTIAL):
        raise OryxError(f"{folder} was never finished; delete it and make the dataset again")
    if not folder.is_dir():
        raise OryxError(f"there is no dataset folder {folder}")
    if not is_vault(folder):
        raise OryxError(f"{folder} is not a dataset: it has no {METADATA}")
    with explained(folder, METADATA):
        document = reading.read_json(folder / METADATA)
        if not isinstance(document, dict):
            raise damaged(folder, f"{METADATA} holds no table")
        return document


def check_entry(folder: Path, document: Any, store: Store) -> Any:
    """Our part of metadata.json, once its format, its hash and its rows are known to be right."""
    entry = document["oryx_marl"]
    if entry["format"] != FORMAT:
        raise OryxError(
            f"{folder} has format {entry['format']}, but this version of oryx-marl reads format "
            f"{FORMAT}; install the version that wrote it, or a newer one"
        )
    if entry["sha256"] != _hash_document(document):
        raise damaged(folder, f"{METADATA} was altered (its SHA-256 differs)")
    index = store.read_index()
    if index != entry["rows"]:
        raise damaged(
            folder,
            f"its index says {index} rows, {METADATA} says {entry['rows']}: "
            "was it appended to with another program?",
        )
    arrays = {renamed.branch(name): known for name, known in entry["arrays"].items()}
    entry = {**entry, "arrays": arrays}
    _require_plausible(folder, entry, store)
    return entry


def _require_plausible(folder: Path, entry: dict[str, Any], store: Store) -> None:
    """Raises where the description claims more rows than it has hashes, or the files can hold."""
    claimed = 0
    for name, known in entry["arrays"].items():
        shape, block_rows = known["shape"], entry["block_rows"]
        sizes = (*shape, block_rows, *known["chunks"])
        if not all(type(size) is int and size >= 0 for size in sizes):
            raise damaged(folder, f"{name} has the shape {shape}")
        if block_rows < 1 or len(known["sha256"]) != -(-shape[0] // block_rows):
            hashes = len(known["sha256"])
            raise damaged(folder, f"{name} has {shape[0]:,} rows, but {hashes:,} hashes")
        if name in SHARED_NAMES and shape[0] != entry["rows"]:
            raise damaged(folder, f"{name} has {shape[0]:,} rows, not {entry['rows']:,}")
        claimed += math.prod(shape) * to_dtype(known["dtype"]).itemsize
    if claimed > limits.LEAST_BYTES:
        what = f"the dataset in {folder}"
        limits.require_held(what, claimed, store.num_bytes(), limits.MOST_TIMES_STORED)


def _read_checked(folder: Path, entry: Any, store: Store) -> Dataset:
    """The arrays and the Spec, each compared with its hash."""
    arrays = {}
    for name, known in entry["arrays"].items():
        stored_name = {**SHARED_NAMES, **OWN_NAMES}[name]
        with explained(folder, f"array {stored_name}"):
            shape = tuple(known["shape"])
            array = store.read(stored_name, shape, known["dtype"], known["chunks"])
        size = entry["block_rows"]
        for block, found in enumerate(_hash_blocks(array, size)):
            if found != known["sha256"][block]:
                rows = f"{block * size} to {min((block + 1) * size, len(array)) - 1}"
                raise damaged(folder, f"array {stored_name}, rows {rows} (SHA-256 differs)")
        arrays[name] = array
    spec = Spec.from_dict(entry["spec"])
    return Dataset(spec=spec, name=entry["name"], origin=entry["origin"], **arrays)


def _hash_blocks(array: np.ndarray, block_rows: int) -> list[str]:
    """SHA-256 of each block of rows."""
    starts = range(0, len(array), block_rows)
    return [hash_rows(array[start : start + block_rows]) for start in starts]


def _hash_document(document: dict[str, Any]) -> str:
    """SHA-256 of metadata.json's content, but for the place where this hash itself stands."""
    entry = {key: value for key, value in document["oryx_marl"].items() if key != "sha256"}
    text = json.dumps({**document, "oryx_marl": entry}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


@contextlib.contextmanager
def explained(folder: Path, part: str = "its description") -> Iterator[None]:
    """Whatever damaged files make the libraries below raise becomes an OryxError."""
    try:
        yield
    except OryxError:
        raise
    except Exception as error:
        why = texts.first_line(error)
        raise damaged(folder, f"{part} cannot be read: {why}") from error


def damaged(folder: Path, what: str) -> OryxError:
    return OryxError(
        f"the dataset in {folder} is damaged: {what}. Copy it again from where it came, "
        "or delete it and make it again"
    )
