"""The TensorStore side of a Vault: named zarr arrays `[1, R, ...]` in one OCDBT database."""

from pathlib import Path
from typing import Any

import numpy as np
import tensorstore as ts

BLOCK_ROWS = 65_536
"""Rows that are written, and hashed, at a time."""
CHUNK_BYTES = 2**20
COMMIT_BYTES = 2**28
"""Most that is held back to be written in one go: few files, bounded memory."""
GROWING_ROWS = 10**13
"""Length that flashbax gives the time axis, so that it can append; the index says what is used."""


class Store:
    """One database in a folder. Arrays are read into host memory, never onto an accelerator."""

    def __init__(self, folder: Path) -> None:
        # A context of its own, so that no earlier state of the folder is remembered. Syncing is
        # left to whoever writes, who does it once at the end.
        self._context = ts.Context({"file_io_sync": False})
        self._database = {
            "driver": "ocdbt",
            "base": {"driver": "file", "path": f"{folder.absolute()}/"},
        }
        self._transaction = ts.Transaction()
        self._pending_bytes = 0

    def names(self) -> list[str]:
        """The arrays that are there."""
        keys = ts.KvStore.open(self._database, context=self._context).result().list().result()
        return sorted({key.decode().split("/")[0] for key in keys})

    def write(self, name: str, array: np.ndarray, level: int) -> list[int]:
        """A new array that can grow, holding `array` once `commit` was called; its chunk shape."""
        chunks = [1, _choose_chunk_rows(array), *(max(1, size) for size in array.shape[1:])]
        metadata = {"chunks": chunks, "compressor": {"id": "zstd", "level": level}}
        shape = (1, GROWING_ROWS, *array.shape[1:])
        target = self._open(name, shape, array.dtype.name, metadata=metadata, create=True)
        for start in range(0, len(array), BLOCK_ROWS):
            block = array[start : start + BLOCK_ROWS]
            if self._pending_bytes + block.nbytes > COMMIT_BYTES:
                self.commit()
            writer = target.with_transaction(self._transaction)
            writer[0, start : start + len(block)].write(block).result()
            self._pending_bytes += block.nbytes
        return chunks

    def write_index(self, rows: int) -> None:
        """The number of rows, where flashbax looks for it."""
        index = self._open("vault_index", (1,), "int32", create=True)
        index.with_transaction(self._transaction).write(np.array([rows], np.int32)).result()

    def commit(self) -> None:
        """Puts into files what was written so far."""
        self._transaction.commit_sync()
        self._transaction, self._pending_bytes = ts.Transaction(), 0

    def read_index(self) -> int:
        """The number of rows."""
        # The chunk shape is demanded so that a damaged one cannot ask for endless memory.
        index = self._open("vault_index", (1,), "int32", metadata={"chunks": [1]}, open=True)
        return int(index.read().result()[0])

    def read(self, name: str, shape: tuple[int, ...], dtype: str, chunks: list[int]) -> np.ndarray:
        """`[R, ...]` of an array of which everything is known; TensorStore raises if it differs."""
        stored = (1, GROWING_ROWS, *shape[1:])
        array = self._open(name, stored, dtype, metadata={"chunks": chunks}, open=True)
        return np.asarray(array[0, : shape[0]].read().result())

    def read_unknown(self, name: str, rows: int) -> np.ndarray:
        """`[R, ...]` of an array of which only the name is known."""
        array = self._open(name, None, None, open=True)
        if array.rank < 2 or array.shape[0] != 1 or array.shape[1] < rows:
            raise ValueError(f"array {name} has shape {array.shape}, not (1, {rows} or more, ...)")
        return np.asarray(array[0, :rows].read().result())

    def _open(
        self, name: str, shape: tuple[int, ...] | None, dtype: str | None, **options: Any
    ) -> Any:
        spec = {"driver": "zarr", "kvstore": {**self._database, "path": name}, **options}
        dtype_ = None if dtype is None else ts.dtype(dtype)
        return ts.open(spec, shape=shape, dtype=dtype_, context=self._context).result()


def _choose_chunk_rows(array: np.ndarray) -> int:
    """Rows of about 1 MiB: a power of two, so that no chunk lies in two blocks."""
    row_bytes = max(1, array.nbytes // len(array))
    fitting = min(max(1, CHUNK_BYTES // row_bytes), BLOCK_ROWS)
    needed = 1 << (len(array) - 1).bit_length()
    return min(1 << (fitting.bit_length() - 1), needed)
