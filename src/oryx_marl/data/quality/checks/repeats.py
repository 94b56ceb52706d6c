"""Rows and episodes that were logged twice, told from agents that stand still and from small tasks.

A row that is the same as the one before is no fault in itself: nobody moved. It contradicts the log
where the same actions in the same situation first lead to no change and then to one: the step was
logged twice. A situation that changes by itself, unseen, looks the same, so such pairs count only
where they are more than chance and long waits explain. Episodes repeat where a task has few
starts; those of a file that was read twice stand in the order of their originals.
"""

import hashlib
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool

from oryx_marl.data.dataset import to_bytes
from oryx_marl.data.quality.issues import MOST_PLACES, Place, Places
from oryx_marl.data.view import Chunk, View

SITUATION = ("observations", "state")
COMPARED = ("observations", "actions", "rewards", "state")
"""What two rows, or episodes, must have in common to count as the same."""
FEW_SHARE, FEW = 0.01, 3
"""Episodes that repeat by chance in a large task: at most this share, or so many."""
ROW, EPISODE, SMALL = "row occurs twice in a row", "episode occurs twice", "few different episodes"


class _Equal(NamedTuple):
    """Whether each row equals the one before it in the same episode."""

    situation: Bool[np.ndarray, "R"]
    actions: Bool[np.ndarray, "R"]
    all: Bool[np.ndarray, "R"]


class Repeats:
    """Each row between the one before and the one after; each episode by its hash."""

    def __init__(self, view: View) -> None:
        self.places = Places()
        self._before: dict[str, np.ndarray] = {}
        self._pending: Place | None = None
        """The last row seen, where it is the same as the one before and that is not."""
        self._was_equal = False
        """Of the last row seen."""
        self._num_waits = self._num_still = self._num_changed = self._num_changed_alike = 0
        self._hashes: dict[str, Any] = {}
        self._digests = np.zeros(len(view.episode_starts), np.uint64)
        """A hash of each episode: 64 bits, so that all of them fit into memory."""

    def see(self, chunk: Chunk) -> None:
        arrays = {n: array for n, array in chunk.data.arrays().items() if n in COMPARED}
        self._see_rows(chunk, self._compare(chunk, arrays), ", ".join(arrays))
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
        # Were it chance that an unchanged situation meets the actions of the step before, it would
        # meet them as often as a changed one does.
        alike = self._num_changed_alike / max(1, self._num_changed)
        expected = self._num_still * alike / max(1e-9, 1 - alike)
        if self.places.counts.get(ROW, 0) <= max(self._num_waits, expected + 3 * expected**0.5):
            self.places.forget(ROW)
        self._tell_episodes()

    def _compare(self, chunk: Chunk, arrays: dict[str, np.ndarray]) -> _Equal:
        """Each row beside the one before, which may be of the chunk before."""
        equal = {}
        for name, array in arrays.items():
            before = np.concatenate([self._before.get(name, array[:1]), array[:-1]])
            equal[name] = (array == before).reshape(len(array), -1).all(axis=1) & ~chunk.is_first
            self._before[name] = array[-1:].copy()
        situation = np.logical_and.reduce([equal[name] for name in SITUATION if name in equal])
        return _Equal(situation, equal["actions"], np.logical_and.reduce(list(equal.values())))

    def _see_rows(self, chunk: Chunk, equal: _Equal, names: str) -> None:
        """Finds the rows that are the same as the one before, and followed by a change."""
        is_changed = ~equal.situation & ~chunk.is_first
        if self._pending is not None and is_changed[0]:
            self.places.add(ROW, self._pending)
        was_equal = np.append(self._was_equal, equal.all[:-1])
        is_single = equal.all & ~was_equal
        mask = is_single & np.append(is_changed[1:], False)
        what = f"{names} are those of the step before, but what follows is not"
        self.places.add_mask(ROW, chunk, mask, lambda *_: (None, what))
        self._pending = Place(what, *chunk.locate(len(mask) - 1)) if is_single[-1] else None
        self._was_equal = bool(equal.all[-1])
        self._num_waits += int((equal.all & was_equal).sum())
        self._num_still += int((equal.situation & ~equal.actions).sum())
        self._num_changed += int(is_changed.sum())
        self._num_changed_alike += int((is_changed & equal.actions).sum())

    def _tell_episodes(self) -> None:
        """Episodes that are the same as an earlier one."""
        order = np.argsort(self._digests, kind="stable")
        in_order = self._digests[order]
        is_first = np.append(True, in_order[1:] != in_order[:-1])
        # Equal digests stand together, in the order of their episodes.
        first_of = order[np.maximum.accumulate(np.where(is_first, np.arange(len(order)), 0))]
        original = np.empty_like(order)
        original[order] = first_of
        copies = np.flatnonzero(original != np.arange(len(order)))
        if not copies.size:
            return
        follows = np.append(False, np.diff(original) == 1)
        follows[1:] &= original[:-1] != np.arange(len(order) - 1)
        is_rare = copies.size <= max(FEW, FEW_SHARE * len(order))
        if not is_rare and 2 * follows[copies].sum() < copies.size:
            what = f"{copies.size:,} of {len(order):,} episodes are the same as an earlier one"
            self.places.add(SMALL, Place(what))
            return
        for number, copy in enumerate(copies[:MOST_PLACES]):
            what = f"it is the same as episode {original[copy]}, step by step"
            stands_for = max(1, len(copies) - MOST_PLACES + 1) if number == 0 else 1
            self.places.add(EPISODE, Place(what, int(copy)), stands_for)
        self.places.totals[EPISODE] = len(order)


make = Repeats
