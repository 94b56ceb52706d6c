"""A recurrent state as a row of bytes: in memory, and in what a client carries."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import UInt8


class StateLayout:
    """Where each part of the state lies in the row.

    Args:
        initial_state: the parts by name before the first step, without the axis of the batch.
    """

    def __init__(self, initial_state: Mapping[str, np.ndarray]) -> None:
        self.names = tuple(initial_state)
        self._kinds = [(each.dtype, each.shape) for each in initial_state.values()]
        sizes = [dtype.itemsize * math.prod(shape) for dtype, shape in self._kinds]
        ends = np.cumsum(sizes, dtype=int).tolist()
        self._places = list(zip([0, *ends], ends, strict=False))
        self.size = sum(sizes)
        """Bytes of a row."""
        self.initial = self.pack([each[None] for each in initial_state.values()], 1)[0]
        """[size]: the row before the first step."""

    def describe(self) -> str:
        """All that must be the same for a row to be understood."""
        kinds = (f"{dtype.str}{shape}" for dtype, shape in self._kinds)
        return " ".join(map(" ".join, zip(self.names, kinds, strict=True)))

    def pack(self, parts: Sequence[np.ndarray], count: int) -> UInt8[np.ndarray, "B size"]:
        """Rows of parts [B, ...], B of them, in the order of the names."""
        rows = np.empty((count, self.size), np.uint8)
        for part, (begin, end) in zip(parts, self._places, strict=True):
            rows[:, begin:end] = np.ascontiguousarray(part).reshape(count, -1).view(np.uint8)
        return rows

    def unpack(self, rows: UInt8[np.ndarray, "B size"]) -> list[np.ndarray]:
        """Parts [B, ...] of rows."""
        found = []
        for (begin, end), (dtype, shape) in zip(self._places, self._kinds, strict=True):
            flat = np.ascontiguousarray(rows[:, begin:end])
            # A byte of a foreign row may be neither 0 nor 1, which no bool is.
            part = flat != 0 if dtype.kind == "b" else flat.view(dtype)
            found.append(part.reshape(len(rows), *shape))
        return found
