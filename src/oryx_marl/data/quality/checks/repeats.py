"""Rows and episodes that occur twice."""

import hashlib
from typing import Any

import numpy as np

from oryx_marl.data.dataset import to_bytes
from oryx_marl.data.quality.issues import Place, Places
from oryx_marl.data.view import Rows, Stretch

COMPARED = ("observations", "actions", "rewards", "state")
"""What two rows, or episodes, must have in common to count as the same."""


class Repeats:
    """Each row beside the one before; each episode by its hash."""

    def __init__(self, rows: Rows) -> None:
        self.places = Places()
        self._before: dict[str, np.ndarray] = {}
        self._hashes: dict[str, Any] = {}
        self._first_with: dict[bytes, int] = {}

    def see(self, stretch: Stretch) -> None:
        arrays = {n: array for n, array in stretch.data.arrays().items() if n in COMPARED}
        same = ~stretch.is_first
        for name, array in arrays.items():
            before = np.concatenate([self._before.get(name, array[:1]), array[:-1]])
            same &= (array == before).reshape(len(array), -1).all(axis=1)
            self._before[name] = array[-1:]
        self.places.add_mask(
            "row occurs twice in a row",
            stretch,
            same,
            lambda *_: (None, f"{', '.join(arrays)} are those of the step before"),
        )
        starts = stretch.data.episode_starts
        stops = np.append(starts[1:], stretch.data.num_rows)
        for number, (start, stop) in enumerate(zip(starts, stops, strict=True)):
            if number > 0 or stretch.first_step == 0:
                self._hashes = {name: hashlib.blake2b(digest_size=16) for name in arrays}
            for name, array in arrays.items():
                self._hashes[name].update(to_bytes(array[start:stop]))
            if stretch.is_last[stop - 1]:
                self._compare(stretch.first_episode + number)

    def end(self) -> None:
        pass

    def _compare(self, episode: int) -> None:
        """A complete episode with those before."""
        key = b"".join(part.digest() for part in self._hashes.values())
        first = self._first_with.setdefault(key, episode)
        if first != episode:
            place = Place(f"it is the same as episode {first}, step by step", episode)
            self.places.add("episode occurs twice", place)


make = Repeats
