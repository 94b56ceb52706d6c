"""Arrays over all steps, `[R, N, ...]`: HDF5, npz, or a folder of npy files.

Episodes are told by `episode_starts` [E], by `episode` [R], or else by the ends of the agents.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from oryx_marl.data._derive import Arrays, Derivation, derive_episode_starts, per_agent
from oryx_marl.data.dataset import Dataset, Shard, split_episodes
from oryx_marl.data.sources._container import Sliced, has_episode_axis, is_container, open_arrays
from oryx_marl.data.sources.base import ActionOptions, explained
from oryx_marl.errors import OryxError

NAMES = {
    "observations": ("observations", "observation", "obs"),
    "actions": ("actions", "action", "acs"),
    "rewards": ("rewards", "reward", "rews"),
    "terminals": ("terminals", "terminal", "terminated", "dones", "done"),
    "truncations": ("truncations", "truncation", "truncated", "timeouts"),
    "action_mask": (
        "action_mask",
        "legal",
        "legals",
        "avail_actions",
        "infos.legals",
        "infos/legals",
    ),
    "state": ("state", "states", "share_obs", "infos.state", "infos/state"),
    "agent_mask": ("agent_mask", "present", "infos.present", "infos/present"),
    "final_observations": ("final_observations",),
}
"""What the arrays may be called."""
NEEDED = ("observations", "actions", "rewards")
PART_BYTES = 2**26


@dataclass(frozen=True)
class Options(ActionOptions):
    """Of flat arrays, which are known by their names."""


def recognises(path: Path) -> bool:
    """Whether there are arrays that begin with steps and agents."""
    if not is_container(path):
        return False
    with explained(path), open_arrays(path) as arrays:
        return "observations" in pick(arrays, NAMES) and not has_episode_axis(arrays)


def read(path: Path, name: str, options: Options) -> Iterator[Dataset]:
    """The episodes, in parts of about 64 MiB."""
    with open_arrays(path) as arrays:
        found = pick(arrays, NAMES)
        require_arrays(found, arrays, NEEDED)
        rows = found["observations"].shape[0]
        for key, array in found.items():
            if key != "final_observations" and array.shape[0] != rows:
                raise OryxError(
                    f"{key} has {array.shape[0]:,} rows, but observations have {rows:,}"
                )
        starts = _episode_starts(arrays, found, rows)
        derivation = Derivation(name, {}, options.actions)
        parts = list(split_episodes(starts, rows, _part_rows(found, rows)))
        for part in parts:
            derivation.add(_cut(found, part))
        for part in parts:
            yield derivation.finish(_cut(found, part), part.starts)


def pick(arrays: Mapping[str, Sliced], names: Mapping[str, tuple[str, ...]]) -> dict[str, Sliced]:
    """The arrays that are known, by our names."""
    found = {}
    for key, others in names.items():
        known = [other for other in others if other in arrays]
        if len(known) > 1:
            raise OryxError(f"{' and '.join(known)} are both there; leave one of them out")
        if known:
            found[key] = arrays[known[0]]
    return found


def require_arrays(
    found: Mapping[str, Sliced], arrays: Mapping[str, Sliced], needed: tuple[str, ...]
) -> None:
    """Raises unless all needed arrays are there and hold numbers."""
    if missing := [key for key in needed if key not in found]:
        there = ", ".join(f"{name} {tuple(array.shape)}" for name, array in arrays.items())
        raise OryxError(f"it has no {', '.join(missing)}; it has: {there or 'no array at all'}")
    for key, array in found.items():
        if array.dtype.kind not in "biuf" or not array.shape:
            raise OryxError(f"{key} is {array.dtype} of shape {array.shape}, not a list of numbers")


def _part_rows(found: Mapping[str, Sliced], rows: int) -> int:
    """Rows that together take about 64 MiB."""
    size = sum(math.prod(array.shape) * array.dtype.itemsize for array in found.values())
    return max(1, PART_BYTES * rows // max(size, 1))


def _cut(found: Mapping[str, Sliced], part: Shard) -> Arrays:
    """The rows of some episodes; where no end was logged, the recording ended."""
    arrays = {
        key: np.asarray(array[part.episodes if key == "final_observations" else part.rows])
        for key, array in found.items()
    }
    step = arrays["observations"].shape[:2]
    arrays.setdefault("terminals", np.zeros(step, bool))
    if "truncations" not in arrays:
        ends = np.append(part.starts[1:], step[0]) - 1
        truncations = np.zeros(step, bool)
        truncations[ends] = ~per_agent(arrays["terminals"] != 0, step)[ends]
        arrays["truncations"] = truncations
    return arrays


def _episode_starts(
    arrays: Mapping[str, Sliced], found: Mapping[str, Sliced], rows: int
) -> np.ndarray:
    """Where episodes begin."""
    if "episode_starts" in arrays:
        starts = np.asarray(arrays["episode_starts"][:]).astype(np.int64).reshape(-1)
    elif "episode" in arrays:
        ids = np.asarray(arrays["episode"][:]).reshape(-1)
        if len(ids) != rows:
            raise OryxError(f"episode has {len(ids):,} rows, but observations have {rows:,}")
        starts = np.append(0, np.flatnonzero(ids[1:] != ids[:-1]) + 1)
    else:
        flags = [
            np.asarray(found[key][:]) != 0 for key in ("terminals", "truncations") if key in found
        ]
        if not flags:
            raise OryxError(
                "nothing tells where episodes begin: there is neither episode_starts, nor episode, "
                "nor terminals"
            )
        agents = found["observations"].shape[1]
        ended = np.logical_or.reduce([per_agent(flag, (rows, agents)) for flag in flags])
        starts = derive_episode_starts(ended)
    if not starts.size or starts[0] != 0 or (np.diff(starts) <= 0).any() or starts[-1] >= rows:
        raise OryxError(f"episode_starts must begin with 0, increase and stay below {rows:,}")
    return starts
