"""The rows of a dataset stretch by stretch, so that memory stays bounded whatever its size."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from oryx_marl.data import vault
from oryx_marl.data._derive import Derivation
from oryx_marl.data._foreign import ORIGIN, ForeignVault
from oryx_marl.data._store import Store
from oryx_marl.data.dataset import Dataset, to_bytes
from oryx_marl.types import Spec

MOST_VALUES = 2**20
"""Numbers that a stretch holds at most, unless a single row has more."""
MOST_ROWS = 2**16

Arrays = dict[str, Any]
"""Arrays by their names in Dataset."""


class Stretch(NamedTuple):
    """Some rows of a dataset; the first may lie within an episode."""

    data: Dataset
    """These rows alone, without final observations; an episode that goes on begins at row 0."""
    first_row: int
    first_episode: int
    first_step: int
    """Steps that the first row's episode had before it."""
    is_last: Bool[np.ndarray, "R"]
    """Rows with which an episode ends."""

    @property
    def is_first(self) -> Bool[np.ndarray, "R"]:
        """Rows with which an episode begins."""
        begins = np.zeros(self.data.num_rows, bool)
        begins[self.data.episode_starts] = True
        begins[0] = self.first_step == 0
        return begins

    def locate(self, row: int) -> tuple[int, int]:
        """(episode, step), within the whole dataset, of a row of this stretch."""
        episode, step = self.data.locate(row)
        return self.first_episode + episode, step + (self.first_step if episode == 0 else 0)


@dataclass(frozen=True)
class Rows:
    """A dataset of which only parts are held."""

    spec: Spec
    name: str
    origin: dict[str, Any]
    num_rows: int
    episode_starts: Int[np.ndarray, "E"]
    read: Callable[[int, int], Arrays]
    """The arrays of the rows from one to before another; read in order, from row 0 on."""
    read_final: Callable[[int, int], np.ndarray] | None
    """What the agents of episodes from one to before another saw at last."""

    @property
    def most_rows(self) -> int:
        """Rows of a stretch."""
        return _most_rows(self.spec)

    def stretches(self) -> Iterator[Stretch]:
        """All rows, in order."""
        starts, num_rows = self.episode_starts, self.num_rows
        ends = np.append(starts[1:], num_rows) - 1
        for first in range(0, num_rows, self.most_rows):
            stop = min(first + self.most_rows, num_rows)
            episode = int(np.searchsorted(starts, first, side="right")) - 1
            after = int(np.searchsorted(starts, stop))
            is_last = np.zeros(stop - first, bool)
            is_last[ends[episode:after][ends[episode:after] < stop] - first] = True
            data = Dataset(
                spec=self.spec,
                name=self.name,
                episode_starts=np.maximum(starts[episode:after] - first, 0),
                **self.read(first, stop),
            )
            yield Stretch(data, first, episode, first - int(starts[episode]), is_last)

    def parts(self) -> Iterator[Dataset]:
        """Whole episodes, as many as a stretch has rows for but at least one at a time."""
        borders = np.append(self.episode_starts, self.num_rows)
        episode = 0
        while episode < len(self.episode_starts):
            full = np.searchsorted(borders, borders[episode] + self.most_rows, side="right") - 1
            after = max(episode + 1, int(full))
            first, stop = int(borders[episode]), int(borders[after])
            arrays = self.read(first, stop)
            if self.read_final is not None:
                arrays["final_observations"] = self.read_final(episode, after)
            yield Dataset(
                spec=self.spec,
                name=self.name,
                origin=self.origin,
                episode_starts=borders[episode:after] - first,
                **arrays,
            )
            episode = after


def of_dataset(dataset: Dataset) -> Rows:
    """The rows of a dataset in memory."""
    arrays = dataset.arrays()
    final = arrays.pop("final_observations", None)
    arrays.pop("episode_starts")
    return Rows(
        spec=dataset.spec,
        name=dataset.name,
        origin=dataset.origin,
        num_rows=dataset.num_rows,
        episode_starts=dataset.episode_starts,
        read=lambda start, stop: {name: array[start:stop] for name, array in arrays.items()},
        read_final=None if final is None else lambda start, stop: final[start:stop],
    )


def of_vault(folder: Path) -> Rows:
    """The rows of a vault on disk; ours are compared with their hashes as they are read."""
    document = vault.read_document(folder)
    store = Store(folder)
    with vault.explained(folder):
        if document.get("oryx_marl") is None:
            vault.require_foreign(folder, store)
            return _of_foreign(folder, document, store)
        entry = vault.check_entry(folder, document, store)
        arrays = {name: _Verified(folder, store, entry, name) for name in entry["arrays"]}
        starts = arrays.pop("episode_starts")
        final = arrays.pop("final_observations", None)
        return Rows(
            spec=Spec.from_dict(entry["spec"]),
            name=entry["name"],
            origin=entry["origin"],
            num_rows=entry["rows"],
            episode_starts=starts.read(0, starts.length),
            read=lambda start, stop: {n: array.read(start, stop) for n, array in arrays.items()},
            read_final=None if final is None else final.read,
        )


class _Verified:
    """One array of our vaults, read in order; each block's hash is compared once it is complete."""

    def __init__(self, folder: Path, store: Store, entry: dict[str, Any], name: str) -> None:
        self._folder, self._store, self._known = folder, store, entry["arrays"][name]
        self._stored_name = {**vault.SHARED_NAMES, **vault.OWN_NAMES}[name]
        self._block_rows: int = entry["block_rows"]
        self._position, self._hash = 0, hashlib.sha256()
        self.length: int = self._known["shape"][0]

    def read(self, start: int, stop: int) -> np.ndarray:
        if start == 0:  # from the beginning again
            self._position, self._hash = 0, hashlib.sha256()
        assert start == self._position, "rows must be read in order"
        known = self._known
        with vault.explained(self._folder, f"array {self._stored_name}"):
            shape = (stop, *known["shape"][1:])
            values = self._store.read(
                self._stored_name, shape, known["dtype"], known["chunks"], start
            )
        while self._position < stop:
            block = self._position // self._block_rows
            end = min((block + 1) * self._block_rows, self.length)
            piece = values[self._position - start : min(end, stop) - start]
            self._hash.update(to_bytes(piece))
            self._position += len(piece)
            if self._position == end:
                if self._hash.hexdigest() != known["sha256"][block]:
                    rows = f"{block * self._block_rows} to {end - 1}"
                    what = f"array {self._stored_name}, rows {rows} (SHA-256 differs)"
                    raise vault.damaged(self._folder, what)
                self._hash = hashlib.sha256()
        return values


def _of_foreign(folder: Path, document: dict[str, Any], store: Store) -> Rows:
    """The rows of a vault without a Spec; it is derived from all of them in a pass of its own."""
    name = vault.name_of(folder)
    source = ForeignVault(store, document["structure_shape"], name)
    derivation = Derivation(name, ORIGIN)
    derivation.add(source.read(0, 1))
    size = _most_rows(derivation.spec)
    for start in range(0, source.rows, size):
        derivation.add(source.read(start, min(start + size, source.rows)))

    def read(start: int, stop: int) -> Arrays:
        with vault.explained(folder):
            arrays = derivation.finish(source.read(start, stop), np.array([0])).arrays()
        del arrays["episode_starts"]
        return arrays

    starts = source.episode_starts()
    return Rows(derivation.spec, name, ORIGIN, source.rows, starts, read, None)


def _most_rows(spec: Spec) -> int:
    """Rows of a stretch."""
    values = spec.num_agents * (spec.observation_size + spec.action.size) + spec.state_size
    return max(1, min(MOST_ROWS, MOST_VALUES // values))
