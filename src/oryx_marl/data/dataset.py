"""What a dataset is: flat host arrays over logged steps, episodes one after another."""

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Int, Num

from oryx_marl.errors import OryxError
from oryx_marl.types import Spec

PER_EPISODE = ("episode_starts", "final_observations")
"""Arrays with one entry per episode; all others have one per logged step."""


class ArrayInfo(NamedTuple):
    """Type and shape of an array."""

    dtype: np.dtype
    shape: tuple[int, ...]

    @property
    def row_size(self) -> int:
        """Numbers in one row."""
        return int(np.prod(self.shape[1:], dtype=np.int64))

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return self.row_size * self.dtype.itemsize


@dataclass(frozen=True, eq=False)
class Dataset:
    """Logged steps of whole episodes and the Spec that describes them."""

    spec: Spec
    observations: Num[np.ndarray, "R N O"]
    actions: Num[np.ndarray, "R N"] | Num[np.ndarray, "R N A"]
    rewards: Num[np.ndarray, "R N"]
    terminals: Bool[np.ndarray, "R N"]
    """The task ended after this step; shared endings are broadcast to all agents."""
    truncations: Bool[np.ndarray, "R N"]
    """The recording ended after this step although the task would have gone on."""
    episode_starts: Int[np.ndarray, "E"]
    """Row of the first step of each episode; the first is 0."""
    action_mask: Bool[np.ndarray, "R N A"] | None = None
    agent_mask: Bool[np.ndarray, "R N"] | None = None
    state: Num[np.ndarray, "R _"] | None = None
    final_observations: Num[np.ndarray, "E N O"] | None = None
    """What each episode's agents saw after its last step."""
    name: str = "unnamed"
    origin: dict[str, Any] = field(default_factory=dict)
    """How it was made: command, seed, versions."""

    def __post_init__(self) -> None:
        rows, starts = self.num_rows, self.episode_starts
        if rows == 0 or starts.size == 0:
            raise OryxError(f"dataset '{self.name}' is empty: it has no logged step")
        if starts[0] != 0 or np.any(np.diff(starts) <= 0) or starts[-1] >= rows:
            raise OryxError(
                f"dataset '{self.name}': episode_starts must begin with 0, increase and stay "
                f"below the number of rows ({rows})"
            )
        expected = self._expected_shapes()
        for name, array in self.arrays().items():
            if array.shape != expected[name]:
                raise OryxError(
                    f"dataset '{self.name}': {name} has shape {array.shape}, "
                    f"but rows and Spec say {expected[name]}"
                )

    def __repr__(self) -> str:
        size = f"{self.num_rows:,} steps, {self.num_episodes:,} episodes"
        return f"Dataset('{self.name}', {self.spec.num_agents} agents, {size})"

    def _expected_shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape that each array must have."""
        spec, rows, episodes = self.spec, self.num_rows, self.num_episodes
        step = (rows, spec.num_agents)
        is_box = spec.action.kind == "box"
        return {
            "observations": (*step, spec.observation_size),
            "actions": (*step, spec.action.size) if is_box else step,
            "rewards": step,
            "terminals": step,
            "truncations": step,
            "episode_starts": (episodes,),
            "action_mask": (*step, spec.action.size),
            "agent_mask": step,
            "state": (rows, spec.state_size),
            "final_observations": (episodes, spec.num_agents, spec.observation_size),
        }

    @property
    def num_rows(self) -> int:
        return len(self.observations)

    @property
    def num_episodes(self) -> int:
        return len(self.episode_starts)

    @property
    def episode_lengths(self) -> np.ndarray:
        """[E] steps of each episode."""
        return np.diff(np.append(self.episode_starts, self.num_rows))

    @property
    def episode_returns(self) -> np.ndarray:
        """[E] sum of each episode's rewards, mean over agents."""
        return np.add.reduceat(self.rewards.mean(axis=1, dtype=np.float64), self.episode_starts)

    def arrays(self) -> dict[str, np.ndarray]:
        """Every array that is there, by name."""
        values = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, np.ndarray)}

    @property
    def layout(self) -> dict[str, ArrayInfo]:
        """Type and shape of every array that is there, by name."""
        return {name: ArrayInfo(array.dtype, array.shape) for name, array in self.arrays().items()}

    def read(
        self, start: int, stop: int, names: Collection[str] | None = None
    ) -> dict[str, np.ndarray]:
        """Rows from `start` to before `stop` of all arrays, or of those of `names` that exist."""
        return {
            name: array[start:stop]
            for name, array in self.arrays().items()
            if name not in PER_EPISODE and (names is None or name in names)
        }

    def read_final(self, first: int, last: int) -> np.ndarray | None:
        """Final observations of the episodes from `first` to before `last`, if there are any."""
        final = self.final_observations
        return None if final is None else final[first:last]

    def verify(self, names: Collection[str] | None = None) -> None:
        """Nothing to do: what is in memory was verified when it was read."""

    def fingerprint(self) -> str:
        """SHA-256 of the arrays and the Spec: equal for equal data, wherever it is stored.

        Computed once, so from then on the arrays of this dataset are read-only.
        """
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        for name, array in self.arrays().items():
            # A view of its own, so that whoever made the array can still write to it.
            frozen = array.view()
            frozen.flags.writeable = False
            object.__setattr__(self, name, frozen)
        arrays = self.arrays()
        return hash_arrays(self.spec, self.layout, lambda name: [arrays[name]])

    def locate(self, row: int) -> tuple[int, int]:
        """(episode, step) of a row."""
        episode = int(np.searchsorted(self.episode_starts, row, side="right")) - 1
        return episode, int(row - self.episode_starts[episode])


class Shard(NamedTuple):
    """Whole episodes of a longer log."""

    episodes: slice
    rows: slice
    starts: np.ndarray
    """Where its episodes start, counted from its first row."""


def split_episodes(starts: np.ndarray, rows: int, part_rows: int) -> Iterator[Shard]:
    """Parts of about `part_rows` rows, at least one episode each, of a log of `rows` rows."""
    first = 0
    while first < len(starts):
        last = max(first + 1, int(np.searchsorted(starts, starts[first] + part_rows)))
        begin, end = int(starts[first]), int(starts[last]) if last < len(starts) else rows
        yield Shard(slice(first, last), slice(begin, end), starts[first:last] - begin)
        first = last


def hash_arrays(
    spec: Spec,
    layout: Mapping[str, ArrayInfo],
    pieces: Callable[[str], Iterable[np.ndarray]],
) -> str:
    """The fingerprint of a dataset, whose arrays may come in pieces, one array after another."""
    digest = hashlib.sha256(json.dumps(spec.to_dict(), sort_keys=True).encode())
    for name in sorted(layout, key=name_in_files):
        dtype, shape = layout[name]
        digest.update(f"{name_in_files(name)} {dtype.name} {shape}".encode())
        for piece in pieces(name):
            digest.update(to_bytes(piece))
    return digest.hexdigest()


def name_in_files(name: str) -> str:
    """The name of an array in fingerprints and files: those of the masks are older than ours."""
    return {"action_mask": "legal", "agent_mask": "present"}.get(name, name)


def to_bytes(array: np.ndarray) -> memoryview:
    """The entries in C order and little-endian: the same bytes on every machine."""
    array = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return array.reshape(-1).view(np.uint8).data
