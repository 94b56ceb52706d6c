"""Datasets of any size, read piece by piece: the View protocol, and what works on every view.

A `Dataset` in memory is a view, `VaultView` is one on disk, and an `EpisodeSubset` is some episodes
of another view. Memory is bounded by the size of a chunk; what is known of every episode (where it
starts, its return) is kept whole.
"""

import itertools
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Int, Num

from oryx_marl.data.dataset import PER_EPISODE, ArrayInfo, Dataset, hash_arrays
from oryx_marl.errors import OryxError
from oryx_marl.types import Spec

MOST_VALUES = 2**20
"""Numbers that a chunk holds at most, unless a single row has more."""
MOST_ROWS = 2**16
"""Rows that a chunk holds at most."""
GAP_BYTES = 2**16
"""Bytes that take about as long to read as it takes to begin another read."""

Arrays = dict[str, Any]
"""Arrays by their names in Dataset."""


@runtime_checkable
class View(Protocol):
    """A dataset of which parts can be read."""

    @property
    def spec(self) -> Spec: ...

    @property
    def name(self) -> str: ...

    @property
    def origin(self) -> dict[str, Any]: ...

    @property
    def num_rows(self) -> int: ...

    @property
    def episode_starts(self) -> np.ndarray:
        """[E] row of the first step of each episode."""

    @property
    def layout(self) -> dict[str, ArrayInfo]:
        """Type and shape of every array that is there, by name, those per episode included."""

    def read(self, start: int, stop: int, names: Collection[str] | None = None) -> Arrays:
        """Rows from `start` to before `stop` of all arrays, or of those of `names` that exist."""

    def read_final(self, first: int, last: int) -> np.ndarray | None:
        """Final observations of the episodes from `first` to before `last`, if there are any."""

    def verify(self, names: Collection[str] | None = None) -> None:
        """Raises unless these arrays are stored as they were written.

        Reading all rows in order verifies too. Whoever reads only some rows calls this first.
        """


AnyView = TypeVar("AnyView", Dataset, View)
"""What gives a Dataset for a Dataset, and a view for any other view."""


@dataclass(frozen=True, eq=False)
class Chunk:
    """Consecutive rows of a view; the first may lie within an episode."""

    spec: Spec
    name: str
    arrays: Arrays
    """The rows of the arrays that were asked for."""
    episode_starts: Int[np.ndarray, "E"]
    """Where episodes start, counted from the first row; one that goes on starts at row 0."""
    first_row: int
    first_episode: int
    first_step: int
    """Steps that the first row's episode had before it."""
    is_last: Bool[np.ndarray, "R"]
    """Rows with which an episode ends."""

    @cached_property
    def data(self) -> Dataset:
        """These rows as a dataset without final observations; needs all arrays."""
        return Dataset(
            spec=self.spec, name=self.name, episode_starts=self.episode_starts, **self.arrays
        )

    @property
    def is_first(self) -> Bool[np.ndarray, "R"]:
        """Rows with which an episode begins."""
        begins = np.zeros(len(self.is_last), bool)
        begins[self.episode_starts] = True
        begins[0] = self.first_step == 0
        return begins

    def locate(self, row: int) -> tuple[int, int]:
        """(episode, step), within the whole view, of a row of this chunk."""
        episode = int(np.searchsorted(self.episode_starts, row, side="right")) - 1
        before = self.first_step if episode == 0 else 0
        return self.first_episode + episode, int(row - self.episode_starts[episode]) + before


def chunk_rows(view: View, names: Collection[str] | None = None) -> int:
    """Rows of a chunk with all arrays, or with those of `names`."""
    spec, layout = view.spec, view.layout
    if names is None:
        values = spec.num_agents * (spec.observation_size + spec.action.size) + spec.state_size
    else:
        values = sum(layout[name].row_size for name in names if name in layout)
    return max(1, min(MOST_ROWS, MOST_VALUES // max(1, values)))


def chunks(view: View, names: Collection[str] | None = None) -> Iterator[Chunk]:
    """All rows, in order."""
    starts, num_rows = view.episode_starts, view.num_rows
    size = chunk_rows(view, names)
    for first in range(0, num_rows, size):
        stop = min(first + size, num_rows)
        episode = int(np.searchsorted(starts, first, side="right")) - 1
        after = int(np.searchsorted(starts, stop))
        ends = np.append(starts[episode + 1 : after + 1], num_rows)[: after - episode] - 1
        is_last = np.zeros(stop - first, bool)
        is_last[ends[ends < stop] - first] = True
        yield Chunk(
            spec=view.spec,
            name=view.name,
            arrays=view.read(first, stop, names),
            episode_starts=np.maximum(starts[episode:after] - first, 0),
            first_row=first,
            first_episode=episode,
            first_step=first - int(starts[episode]),
            is_last=is_last,
        )


def parts(view: View) -> Iterator[Dataset]:
    """Whole episodes, as many as a chunk has rows for but at least one at a time."""
    for first, last in _episode_ranges(view, chunk_rows(view)):
        start, stop = _rows_of(view, first, last)
        yield Dataset(
            spec=view.spec,
            name=view.name,
            origin=view.origin,
            episode_starts=view.episode_starts[first:last] - start,
            final_observations=view.read_final(first, last),
            **view.read(start, stop),
        )


def load(view: View) -> Dataset:
    """The whole view in memory."""
    if isinstance(view, Dataset):
        return view
    return Dataset(
        spec=view.spec,
        name=view.name,
        origin=view.origin,
        episode_starts=view.episode_starts,
        final_observations=view.read_final(0, len(view.episode_starts)),
        **view.read(0, view.num_rows),
    )


def fingerprint(view: View) -> str:
    """That of the dataset that `load` would give; array by array, so that little is held."""
    if isinstance(view, Dataset):
        return view.fingerprint()

    def pieces(name: str) -> Iterator[np.ndarray]:
        info = view.layout[name]
        size = max(1, min(MOST_VALUES, 8 * MOST_VALUES // max(1, info.row_bytes)))
        for start in range(0, info.shape[0], size):
            stop = min(start + size, info.shape[0])
            if name == "episode_starts":
                yield view.episode_starts[start:stop]
            elif name == "final_observations":
                final = view.read_final(start, stop)
                assert final is not None
                yield final
            else:
                yield view.read(start, stop, (name,))[name]

    return hash_arrays(view.spec, view.layout, pieces)


def episode_lengths(view: View) -> Int[np.ndarray, "E"]:
    """Steps of each episode."""
    return np.diff(np.append(view.episode_starts, view.num_rows))


def episode_returns(view: View) -> Float[np.ndarray, "E"]:
    """Sum of each episode's rewards, mean over agents; reads the rewards alone."""
    if isinstance(view, Dataset):
        return view.episode_returns
    return sum_rewards(view, lambda rewards: rewards.mean(axis=1, dtype=np.float64))


def sum_rewards(
    view: View, of_row: Callable[[Num[np.ndarray, "R N"]], Float[np.ndarray, "R"]]
) -> Float[np.ndarray, "E"]:
    """Sums over each episode of one number per row, made of the rewards of all agents."""
    sums = np.zeros(len(view.episode_starts))
    size = chunk_rows(view, ("rewards",))
    for first, last in _episode_ranges(view, size):
        begin, end = _rows_of(view, first, last)
        # More than once for a single episode that is longer than a chunk.
        for start in range(begin, end, size):
            stop = min(start + size, end)
            values = of_row(view.read(start, stop, ("rewards",))["rewards"])
            starts = np.maximum(view.episode_starts[first:last] - start, 0)
            sums[first:last] += np.add.reduceat(values, starts)
    return sums


class EpisodeSubset:
    """Some episodes of another view, in a given order, of which nothing is read beforehand."""

    def __init__(self, view: View, episodes: Int[np.ndarray, " chosen"]) -> None:
        if not len(episodes):
            raise OryxError(f"dataset '{view.name}' is empty: it has no logged step")
        self._view: View = view
        self._episodes: np.ndarray = episodes
        if isinstance(view, EpisodeSubset):  # so that a read goes through one of them alone
            self._view, self._episodes = view._view, view._episodes[episodes]
        self._firsts = self._view.episode_starts[self._episodes]
        lengths = episode_lengths(view)[episodes]
        starts = np.append(0, np.cumsum(lengths)[:-1])
        self.spec, self.name, self.origin = view.spec, view.name, view.origin
        self.num_rows = int(lengths.sum())
        self.episode_starts: np.ndarray = starts.astype(view.episode_starts.dtype)

    @property
    def layout(self) -> dict[str, ArrayInfo]:
        """Type and shape of every array that is there, by name."""
        counts = dict.fromkeys(PER_EPISODE, len(self._episodes))
        return {
            name: ArrayInfo(dtype, (counts.get(name, self.num_rows), *shape[1:]))
            for name, (dtype, shape) in self._view.layout.items()
        }

    def read(self, start: int, stop: int, names: Collection[str] | None = None) -> Arrays:
        """Rows from `start` to before `stop` of all arrays, or of those of `names` that exist."""
        first = int(np.searchsorted(self.episode_starts, start, side="right")) - 1
        last = int(np.searchsorted(self.episode_starts, stop))
        borders = np.append(self.episode_starts[first:last], stop)
        borders[0] = start
        begins = self._firsts[first:last] + (borders[:-1] - self.episode_starts[first:last])
        self._view.verify(names)
        return _gather(
            begins,
            np.diff(borders),
            lambda begin, end: self._view.read(begin, end, names),
            self._most_gap(names),
        )

    def read_final(self, first: int, last: int) -> np.ndarray | None:
        """Final observations of the episodes from `first` to before `last`, if there are any."""
        if "final_observations" not in self._view.layout:
            return None
        self._view.verify(("final_observations",))
        episodes = self._episodes[first:last]
        return _gather(
            episodes,
            np.ones_like(episodes),
            lambda begin, end: {"final": self._view.read_final(begin, end)},
            self._most_gap(("final_observations",)),
        )["final"]

    def verify(self, names: Collection[str] | None = None) -> None:
        """Raises unless these arrays are stored as they were written."""
        self._view.verify(names)

    def _most_gap(self, names: Collection[str] | None) -> int:
        """Rows that are rather read in vain than left out."""
        infos = self._view.layout.items()
        row_bytes = sum(info.row_bytes for name, info in infos if names is None or name in names)
        return GAP_BYTES // max(1, row_bytes)


def _gather(
    begins: Int[np.ndarray, "ranges"],
    lengths: Int[np.ndarray, "ranges"],
    read: Callable[[int, int], Arrays],
    most_gap: int,
) -> Arrays:
    """What `read(begin, end)` gives for ranges of rows, one after another.

    Ranges that follow each other are read in one go; so are those with a gap between them that is
    short, since a read takes its time however few rows it has.
    """
    gaps = begins[1:] - (begins[:-1] + lengths[:-1])
    is_far = (gaps < 0) | (gaps > np.minimum(most_gap, 4 * lengths[1:]))
    borders = np.concatenate([[0], np.flatnonzero(is_far) + 1, [len(begins)]])
    found: Arrays = {}
    place = 0
    for first, last in itertools.pairwise(borders.tolist()):
        begin, end = int(begins[first]), int(begins[last - 1] + lengths[last - 1])
        arrays, wanted = read(begin, end), lengths[first:last]
        count = int(wanted.sum())
        if count < end - begin:
            before = np.append(0, np.cumsum(wanted)[:-1])
            rows = np.repeat(begins[first:last] - begin - before, wanted) + np.arange(count)
            arrays = {name: values[rows] for name, values in arrays.items()}
        if len(borders) == 2:
            return arrays
        for name, values in arrays.items():
            if name not in found:
                found[name] = np.empty((int(lengths.sum()), *values.shape[1:]), values.dtype)
            found[name][place : place + count] = values
        place += count
    return found


def _episode_ranges(view: View, rows: int) -> Iterator[tuple[int, int]]:
    """(first, after the last) of whole episodes with at most `rows` rows, or of a single one."""
    borders = np.append(view.episode_starts, view.num_rows)
    first = 0
    while first < len(view.episode_starts):
        full = int(np.searchsorted(borders, borders[first] + rows, side="right")) - 1
        last = max(first + 1, full)
        yield first, last
        first = last


def _rows_of(view: View, first: int, last: int) -> tuple[int, int]:
    """(start, stop) of the rows of the episodes from `first` to before `last`."""
    starts = view.episode_starts
    stop = view.num_rows if last == len(starts) else starts[last]
    return int(starts[first]), int(stop)
