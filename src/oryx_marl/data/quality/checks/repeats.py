"""Rows and episodes that occur twice."""

import hashlib
from typing import Any

import numpy as np

from oryx_marl.data.dataset import to_bytes
from oryx_marl.data.quality.issues import MOST_PLACES, Place, Places
from oryx_marl.data.view import Chunk, View

COMPARED = ("observations", "actions", "rewards", "state")
"""What two rows, or episodes, must have in common to count as the same."""


class Repeats:
    """Each row beside the one before; each episode by its hash."""

    def __init__(self, view: View) -> None:
        self.places = Places()
        self._before: dict[str, np.ndarray] = {}
        self._hashes: dict[str, Any] = {}
        self._digests = np.zeros(len(view.episode_starts), np.uint64)
        """A hash of each episode: 64 bits, so that all of them fit into memory."""

    def see(self, chunk: Chunk) -> None:
        arrays = {n: array for n, array in chunk.data.arrays().items() if n in COMPARED}
        same = ~chunk.is_first
        for name, array in arrays.items():
            before = np.concatenate([self._before.get(name, array[:1]), array[:-1]])
            same &= (array == before).reshape(len(array), -1).all(axis=1)
            self._before[name] = array[-1:].copy()
        self.places.add_mask(
            "row occurs twice in a row",
            chunk,
            same,
            lambda *_: (None, f"{', '.join(arrays)} are those of the step before"),
        )
        starts = chunk.data.episode_starts
        stops = np.append(starts[1:], chunk.data.num_rows)
        for number, (start, stop) in enumerate(zip(starts, stops, strict=True)):
            if number > 0 or chunk.first_step == 0:
                self._hashes = {name: hashlib.blake2b(digest_size=16) for name in arrays}
            for name, array in arrays.items():
                self._hashes[name].update(to_bytes(array[start:stop]))
            if chunk.is_last[stop - 1]:
                joined = b"".join(part.digest() for part in self._hashes.values())
                digest = hashlib.blake2b(joined, digest_size=8).digest()
                self._digests[chunk.first_episode + number] = int.from_bytes(digest, "little")

    def end(self) -> None:
        order = np.argsort(self._digests, kind="stable")
        in_order = self._digests[order]
        is_first = np.append(True, in_order[1:] != in_order[:-1])
        # Equal digests stand together, in the order of their episodes.
        first_of = np.maximum.accumulate(np.where(is_first, np.arange(len(order)), 0))
        repeats = np.flatnonzero(~is_first)
        repeats = repeats[np.argsort(order[repeats])]
        for number, place in enumerate(repeats[:MOST_PLACES]):
            what = f"it is the same as episode {order[first_of[place]]}, step by step"
            stands_for = max(1, len(repeats) - MOST_PLACES + 1) if number == 0 else 1
            self.places.add("episode occurs twice", Place(what, int(order[place])), stands_for)


make = Repeats
