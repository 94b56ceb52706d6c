"""The TensorStore side of a Vault: named zarr arrays `[1, R, ...]` in one OCDBT database."""

import contextlib
import hashlib
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import tensorstore as ts

from oryx_marl import limits
from oryx_marl.data.dataset import ArrayInfo, to_bytes

BLOCK_ROWS = 65_536
"""Rows that are written, and hashed, at a time; fewer where rows are wide."""
BLOCK_BYTES = 2**27
"""Most that the blocks of all arrays together have."""
CHUNK_BYTES = 2**20
COMMIT_BYTES = 2**27
"""Most that is held back to be written in one go: few files, bounded memory."""
GROWING_ROWS = 10**13
"""Length that flashbax gives the time axis, so that it can append; the index says what is used."""
MOST_ROWS = np.iinfo(np.int32).max
"""Most rows that can be counted in the index, whose type flashbax chose."""


class Store:
    """One database in a folder. Arrays are read into host memory, never onto an accelerator."""

    def __init__(self, folder: Path, cache_bytes: int = 0) -> None:
        # A context of its own, so that no earlier state of the folder is remembered. Syncing is
        # left to whoever writes, who does it once at the end.
        cache = {"total_bytes_limit": cache_bytes}
        self._context = ts.Context({"file_io_sync": False, "cache_pool": cache})
        self._database: dict[str, Any] = {
            "driver": "ocdbt",
            "base": {"driver": "file", "path": f"{folder.absolute()}/"},
        }
        self._transaction = ts.Transaction()
        self._pending_bytes = 0
        self._opened: dict[str, Any] = {}

    def names(self) -> list[str]:
        """The arrays that are there."""
        keys = ts.KvStore.open(self._database, context=self._context).result().list().result()
        return sorted({key.decode().split("/")[0] for key in keys})

    def num_bytes(self) -> int:
        """Size of all files."""
        files = Path(self._database["base"]["path"]).rglob("*")
        return sum(file.stat().st_size for file in files if file.is_file())

    def create(
        self, name: str, block: np.ndarray, level: int, block_rows: int = BLOCK_ROWS
    ) -> tuple[Any, list[int]]:
        """A new array that can grow, still empty, made for its first block; and its chunk shape."""
        rows = _choose_chunk_rows(block, block_rows)
        chunks = [1, rows, *(max(1, size) for size in block.shape[1:])]
        metadata = {"chunks": chunks, "compressor": {"id": "zstd", "level": level}}
        shape = (1, GROWING_ROWS, *block.shape[1:])
        return self._open(name, shape, block.dtype.name, metadata=metadata, create=True), chunks

    def write(self, array: Any, start: int, block: np.ndarray) -> None:
        """Rows of an array from `start` on, there once `commit` was called."""
        if self._pending_bytes + block.nbytes > COMMIT_BYTES:
            self.commit()
        if array.transaction is not self._transaction:
            array = array.with_transaction(self._transaction)
        array[0, start : start + len(block)].write(block).result()
        self._pending_bytes += block.nbytes

    def write_index(self, rows: int) -> None:
        """The number of rows, where flashbax looks for it."""
        index = self._open("vault_index", (1,), "int32", create=True)
        index.write(np.array([rows], np.int32)).result()

    def commit(self) -> None:
        """Puts into files what was written so far."""
        self._transaction.commit_sync()
        self._transaction, self._pending_bytes = ts.Transaction(), 0

    def abandon(self) -> None:
        """Forgets what was not committed; afterwards nothing more is put into files."""
        self._transaction.abort()
        if self._transaction.commit_started:  # it was interrupted, but goes on by itself
            with contextlib.suppress(Exception):
                self._transaction.future.result()

    def read_index(self) -> int:
        """The number of rows."""
        # The chunk shape is demanded so that a damaged one cannot ask for endless memory.
        index = self._open("vault_index", (1,), "int32", metadata={"chunks": [1]}, open=True)
        return int(index.read().result()[0])

    def read(
        self, name: str, shape: tuple[int, ...], dtype: str, chunks: list[int], start: int = 0
    ) -> np.ndarray:
        """Rows `start` to `shape[0]` of an array of which everything is known; TensorStore raises
        if it differs."""
        if name not in self._opened:
            stored = (1, GROWING_ROWS, *shape[1:])
            self._opened[name] = self._open(
                name, stored, dtype, metadata={"chunks": chunks}, open=True
            )
            _require_chunks(name, self._opened[name])
        return np.asarray(self._opened[name][0, start : shape[0]].read().result())

    def read_unknown(self, name: str, stop: int, start: int = 0) -> np.ndarray:
        """Rows of an array of which only the name is known."""
        if name not in self._opened:
            self._opened[name] = self._open(name, None, None, open=True)
            _require_chunks(name, self._opened[name])
        array = self._opened[name]
        if array.rank < 2 or array.shape[0] != 1 or array.shape[1] < stop:
            raise ValueError(f"array {name} has shape {array.shape}, not (1, {stop} or more, ...)")
        return np.asarray(array[0, start:stop].read().result())

    def _open(
        self, name: str, shape: tuple[int, ...] | None, dtype: str | None, **options: Any
    ) -> Any:
        spec = {"driver": "zarr", "kvstore": {**self._database, "path": name}, **options}
        dtype_ = None if dtype is None else ts.dtype(dtype)
        transaction = self._transaction if "create" in options else None
        return ts.open(
            spec, shape=shape, dtype=dtype_, context=self._context, transaction=transaction
        ).result()


class GrowingArray:
    """A new array in a Store: takes rows in any portions, writes and hashes them in blocks."""

    def __init__(
        self, store: Store, name: str, like: ArrayInfo, block_rows: int, level: int
    ) -> None:
        self._store, self._name, self._level = store, name, level
        self._block_rows = block_rows
        self._held = np.empty((0, *like.shape[1:]), like.dtype.newbyteorder("="))
        self._num_held = 0
        self._num_written = 0
        self._array: Any = None
        self._chunks: list[int] = []
        self._hashes: list[str] = []

    @property
    def dtype(self) -> np.dtype:
        return self._held.dtype

    def append(self, rows: np.ndarray) -> None:
        """Adds rows after those before; what does not fill a block is copied and held back."""
        while len(rows):
            if self._num_held == 0 and len(rows) >= self._block_rows:
                taken = self._block_rows
                self._write(rows[:taken].astype(self.dtype, copy=False))
            else:
                taken = min(len(rows), self._block_rows - self._num_held)
                self._hold(rows[:taken])
            rows = rows[taken:]

    def finish(self) -> dict[str, Any]:
        """Writes what is still held back; what is needed to read and to check the array."""
        if self._num_held:
            self._flush()
        return {
            "shape": [self._num_written, *self._held.shape[1:]],
            "dtype": self.dtype.name,
            "chunks": self._chunks,
            "sha256": self._hashes,
        }

    def _hold(self, rows: np.ndarray) -> None:
        """Copies rows into the block that is being filled."""
        filled = self._num_held + len(rows)
        if filled > len(self._held):
            longer = min(max(filled, 2 * len(self._held)), self._block_rows)
            # In place, so that it is never there twice; no view of it is left from before.
            self._held.resize((longer, *self._held.shape[1:]), refcheck=False)
        self._held[self._num_held : filled] = rows
        self._num_held = filled
        if filled == self._block_rows:
            self._flush()

    def _flush(self) -> None:
        self._write(self._held[: self._num_held])
        self._num_held = 0

    def _write(self, block: np.ndarray) -> None:
        if self._array is None:  # the first block is full, or all there is: it decides the chunks
            self._array, self._chunks = self._store.create(
                self._name, block, self._level, self._block_rows
            )
        self._store.write(self._array, self._num_written, block)
        self._hashes.append(hash_rows(block))
        self._num_written += len(block)


def hash_rows(rows: np.ndarray) -> str:
    """SHA-256 of rows, the same on every machine."""
    return hashlib.sha256(to_bytes(rows)).hexdigest()


def choose_block_rows(arrays: Iterable[ArrayInfo]) -> int:
    """Rows of which the blocks of all arrays together have at most BLOCK_BYTES: a power of two."""
    row_bytes = sum(array.row_bytes for array in arrays)
    fitting = max(1, BLOCK_BYTES // max(1, row_bytes))
    return min(BLOCK_ROWS, 1 << (fitting.bit_length() - 1))


def _require_chunks(name: str, array: Any) -> None:
    """Raises if a chunk, or a row, of an array is larger than may be decoded at once."""
    itemsize = array.dtype.numpy_dtype.itemsize
    chunk = math.prod(array.chunk_layout.read_chunk.shape) * itemsize
    limits.require(f"a chunk of array {name}", chunk, limits.CHUNK_BYTES)
    limits.require(
        f"a row of array {name}", math.prod(array.shape[2:]) * itemsize, limits.CHUNK_BYTES
    )


def to_dtype(name: str) -> np.dtype:
    """The type of an array in memory, by the name that it is stored with."""
    return ts.dtype(name).numpy_dtype


def _choose_chunk_rows(block: np.ndarray, block_rows: int) -> int:
    """Rows of about 1 MiB: a power of two, so that no chunk lies in two blocks."""
    row_bytes = max(1, block.nbytes // len(block))
    fitting = min(max(1, CHUNK_BYTES // row_bytes), block_rows)
    needed = 1 << (len(block) - 1).bit_length()
    return min(1 << (fitting.bit_length() - 1), needed)
