"""A Vault on disk as a view: nothing is returned that was not compared with its hash."""

import hashlib
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np

from oryx_marl.data import vault
from oryx_marl.data._derive import Derivation
from oryx_marl.data._foreign import ORIGIN, ForeignVault
from oryx_marl.data._store import Store, to_dtype
from oryx_marl.data.dataset import ArrayInfo, to_bytes
from oryx_marl.data.view import MOST_ROWS, MOST_VALUES, Arrays
from oryx_marl.types import Spec

PIECE_BYTES = 2**23
"""Bytes that are hashed at a time where an array is verified before it is read."""
CACHE_BYTES = 2**25
"""Decoded chunks that are kept, since the next rows often lie in the same ones."""


class VaultView:
    """The rows of a vault, ours or one that flashbax or OG-MARL wrote.

    Ours are compared with their hashes: while they are read in order, from row 0 on, otherwise in a
    pass of its own before the first read. A foreign vault has no hashes; its Spec and its episodes
    are derived from all its rows when it is opened.
    """

    def __init__(self, folder: Path) -> None:
        document = vault.read_document(folder)
        store = Store(folder, CACHE_BYTES)
        with vault.explained(folder):
            if document.get("oryx_marl") is None:
                vault.require_foreign(folder, store)
                self._rows: _OwnRows | _ForeignRows = _ForeignRows(folder, document, store)
            else:
                entry = vault.check_entry(folder, document, store)
                self._rows = _OwnRows(folder, entry, store)
            self.spec: Spec = self._rows.spec
            self.name: str = self._rows.name
            self.origin: dict[str, Any] = self._rows.origin
            self.num_rows: int = self._rows.num_rows
            self.episode_starts: np.ndarray = self._rows.episode_starts
            self.layout: dict[str, ArrayInfo] = self._rows.layout
            self.content_sha256: str | None = self._rows.content_sha256
            """Hash of the description, and so of all hashes in it; None of a foreign vault."""

    def read(self, start: int, stop: int, names: Collection[str] | None = None) -> Arrays:
        """Rows from `start` to before `stop` of all arrays, or of those of `names` that exist."""
        return self._rows.read(start, stop, names)

    def read_final(self, first: int, last: int) -> np.ndarray | None:
        """Final observations of the episodes from `first` to before `last`, if there are any."""
        return self._rows.read_final(first, last)

    def verify(self, names: Collection[str] | None = None) -> None:
        """Raises unless these arrays are stored as they were written; once for each array."""
        self._rows.verify(names)


class _OwnRows:
    """Arrays with a hash for each block of rows."""

    def __init__(self, folder: Path, entry: dict[str, Any], store: Store) -> None:
        self.spec, self.name = Spec.from_dict(entry["spec"]), entry["name"]
        self.origin, self.num_rows = entry["origin"], entry["rows"]
        self.content_sha256: str = entry["sha256"]
        self._arrays = {name: _StoredArray(folder, store, entry, name) for name in entry["arrays"]}
        self.layout = {name: array.info for name, array in self._arrays.items()}
        starts = self._arrays["episode_starts"]
        self.episode_starts = starts.read(0, starts.info.shape[0])
        self._per_row = [name for name in self._arrays if name in vault.SHARED_NAMES]

    def read(self, start: int, stop: int, names: Collection[str] | None) -> Arrays:
        wanted = [name for name in self._per_row if names is None or name in names]
        return {name: self._arrays[name].read(start, stop) for name in wanted}

    def read_final(self, first: int, last: int) -> np.ndarray | None:
        final = self._arrays.get("final_observations")
        return None if final is None else final.read(first, last)

    def verify(self, names: Collection[str] | None) -> None:
        for name, array in self._arrays.items():
            if names is None or name in names:
                array.verify()


class _StoredArray:
    """One array of our vaults; each block's hash is compared once the block was read."""

    def __init__(self, folder: Path, store: Store, entry: dict[str, Any], name: str) -> None:
        self._folder, self._store, self._known = folder, store, entry["arrays"][name]
        self._stored_name = {**vault.SHARED_NAMES, **vault.OWN_NAMES}[name]
        self._block_rows: int = entry["block_rows"]
        self.info = ArrayInfo(to_dtype(self._known["dtype"]), tuple(self._known["shape"]))
        self._length = self.info.shape[0]
        self._is_verified = False
        self._restart()

    def read(self, start: int, stop: int) -> np.ndarray:
        """Rows from one to before another."""
        if not self._is_verified and start == 0:
            self._restart()
        elif start != self._position:
            self.verify()
        values = self._fetch(start, stop)
        if not self._is_verified:
            self._compare(values)
        return values

    def verify(self) -> None:
        """Reads and compares all that was not read in order yet."""
        size = max(1, PIECE_BYTES // max(1, self.info.row_bytes))
        while not self._is_verified:
            stop = min(self._position + size, self._length)
            self._compare(self._fetch(self._position, stop))

    def _restart(self) -> None:
        self._position, self._hash = 0, hashlib.sha256()

    def _fetch(self, start: int, stop: int) -> np.ndarray:
        known = self._known
        with vault.explained(self._folder, f"array {self._stored_name}"):
            shape = (stop, *known["shape"][1:])
            return self._store.read(
                self._stored_name, shape, known["dtype"], known["chunks"], start
            )

    def _compare(self, values: np.ndarray) -> None:
        """Takes in the rows from `_position` on; raises where a complete block was altered."""
        taken = 0
        while taken < len(values):
            block = self._position // self._block_rows
            end = min((block + 1) * self._block_rows, self._length)
            piece = values[taken : taken + end - self._position]
            self._hash.update(to_bytes(piece))
            self._position += len(piece)
            taken += len(piece)
            if self._position == end:
                if self._hash.hexdigest() != self._known["sha256"][block]:
                    self._restart()  # nothing counts as verified, whoever asks next
                    rows = f"{block * self._block_rows} to {end - 1}"
                    what = f"array {self._stored_name}, rows {rows} (SHA-256 differs)"
                    raise vault.damaged(self._folder, what)
                self._hash = hashlib.sha256()
        self._is_verified = self._position == self._length


class _ForeignRows:
    """Arrays without hashes or Spec; it is derived from all of them in a pass of its own."""

    content_sha256 = None

    def __init__(self, folder: Path, document: dict[str, Any], store: Store) -> None:
        self._folder = folder
        self.name, self.origin = vault.name_of(folder), ORIGIN
        self._source = ForeignVault(store, document["structure_shape"], self.name)
        self.num_rows = self._source.rows
        self._derivation = Derivation(self.name, ORIGIN)
        first = self._source.read(0, 1)
        self._derivation.add(first)
        values = sum(array.size for array in first.values())
        size = max(1, min(MOST_ROWS, MOST_VALUES // values))
        for start in range(0, self.num_rows, size):
            self._derivation.add(self._source.read(start, min(start + size, self.num_rows)))
        self.spec = self._derivation.spec
        self.episode_starts = self._source.episode_starts()
        self.layout = {
            name: ArrayInfo(array.dtype, (self.num_rows, *array.shape[1:]))
            for name, array in self.read(0, 1, None).items()
        }
        starts = self.episode_starts
        self.layout["episode_starts"] = ArrayInfo(starts.dtype, starts.shape)

    def read(self, start: int, stop: int, names: Collection[str] | None) -> Arrays:
        with vault.explained(self._folder):
            raw = self._source.read(start, stop)
            arrays: Arrays = self._derivation.finish(raw, np.array([0])).arrays()
        del arrays["episode_starts"]
        return {name: array for name, array in arrays.items() if names is None or name in names}

    def read_final(self, first: int, last: int) -> None:
        return None

    def verify(self, names: Collection[str] | None) -> None:
        """There is nothing to compare with."""
