"""PyMARL's episode batches, `[E, T, ...]`: HDF5, npz, a folder of npy files, or of several batches.

Episodes are padded to one length; `filled` says what is real. It counts what was seen after the
last action too, so it has one step more than there are actions. Time-outs are marked as terminated:
see `Options.time_limit`. The files of a folder (`part_2.h5` before `part_10.h5`) must have one
layout, and become one dataset.
"""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from oryx_marl.data._derive import Arrays, Derivation
from oryx_marl.data.dataset import Dataset
from oryx_marl.data.sources._container import Sliced, has_episode_axis, is_container, open_arrays
from oryx_marl.data.sources.base import ActionOptions, explained, natural
from oryx_marl.data.sources.flat import PART_BYTES, pick, require_arrays
from oryx_marl.errors import OryxError

NAMES = {
    "observations": ("obs", "observations"),
    "actions": ("actions",),
    "rewards": ("reward", "rewards"),
    "terminals": ("terminated", "terminals", "dones"),
    "filled": ("filled",),
    "action_mask": ("avail_actions", "action_mask", "legals", "legal"),
    "state": ("state",),
}
NEEDED = ("observations", "actions", "rewards")


@dataclass(frozen=True)
class Options(ActionOptions):
    """Of PyMARL's batches, which are known by the names of their arrays."""


def recognises(path: Path) -> bool:
    """Whether arrays begin with episodes and steps, in a file or the first of a folder."""
    files = _find_files(path)
    if not files:
        return False
    with explained(files[0]), open_arrays(files[0]) as arrays:
        return has_episode_axis(arrays)


def read(path: Path, name: str, options: Options) -> Iterator[Dataset]:
    """The episodes of all files in their order, in parts of about 64 MiB."""
    files = _find_files(path) or [path]
    origin: dict[str, Any] = {}
    if len(files) > 1:
        origin |= {"files": [file.name for file in files[:50]], "num_files": len(files)}
    derivation = Derivation(name, origin, options.actions)
    longest, terminal_lengths, first = 0, [], None
    for file in files:
        with _open_batch(file) as (found, lengths):
            first = first or (file.name, _layout(found))
            _require_same_layout(*first, _layout(found))
            longest = max(longest, _longest(found))
            terminal_lengths.append(lengths[_terminated_at(found, lengths - 1)])
            for chunk in _chunks(found, len(lengths)):
                derivation.add(_flatten(found, chunk, lengths[chunk], 0))
    limit = longest if options.time_limit is None else options.time_limit
    timeouts = int((np.concatenate(terminal_lengths) == limit).sum())
    origin |= {"time_limit": limit, "timeouts_not_terminal": timeouts}
    for file in files:
        with _open_batch(file) as (found, lengths):
            for chunk in _chunks(found, len(lengths)):
                starts = np.append(0, np.cumsum(lengths[chunk])[:-1])
                yield derivation.finish(_flatten(found, chunk, lengths[chunk], limit), starts)


def _find_files(path: Path) -> list[Path]:
    """The file itself, a folder of npy files, or the files of a folder in their natural order."""
    if is_container(path):
        return [path]
    if not path.is_dir():
        return []
    files = sorted((file for file in path.iterdir() if is_container(file)), key=_by_name)
    for file in files:
        if file.is_symlink():
            raise OryxError(f"{file} is a link, which is not followed; copy it here")
    return files


def _by_name(file: Path) -> list[tuple[int, int, str]]:
    return natural(file.name)


@contextmanager
def _open_batch(file: Path) -> Iterator[tuple[dict[str, Sliced], Int[np.ndarray, "E"]]]:
    """The arrays of a file by our names, and the lengths of its episodes; faults name the file."""
    with explained(file), open_arrays(file) as arrays:
        found = pick(arrays, NAMES)
        require_arrays(found, arrays, NEEDED)
        _require_axes(found)
        yield found, _episode_lengths(found)


def _layout(found: Mapping[str, Sliced]) -> dict[str, tuple[int, ...] | int]:
    """What all files of a folder have in common: the arrays, and their axes but episodes, steps."""
    shapes: dict[str, tuple[int, ...] | int] = {
        key: tuple(array.shape[2:]) for key, array in found.items()
    }
    return {**shapes, "steps after the last action": _has_extra_step(found)}


def _require_same_layout(
    first: str, expected: dict[str, tuple[int, ...] | int], layout: dict[str, tuple[int, ...] | int]
) -> None:
    """Raises unless a file looks like the first of its folder."""
    for key in {**expected, **layout}:
        if expected.get(key) != layout.get(key):
            raise OryxError(
                f"it differs from {first} in {key}: {layout.get(key, 'not there')} against "
                f"{expected.get(key, 'not there')}; import folders of one layout only"
            )


def _chunks(found: Mapping[str, Sliced], episodes: int) -> list[slice]:
    """Episodes that together take about 64 MiB."""
    size = sum(math.prod(array.shape[1:]) * array.dtype.itemsize for array in found.values())
    count = max(1, PART_BYTES // max(size, 1))
    return [slice(at, at + count) for at in range(0, episodes, count)]


def _flatten(
    found: Mapping[str, Sliced], chunk: slice, lengths: Int[np.ndarray, "E"], limit: int
) -> Arrays:
    """Some episodes one after another, without padding."""
    episodes = np.repeat(np.arange(len(lengths)), lengths)
    starts = np.append(0, np.cumsum(lengths)[:-1])
    steps = np.arange(len(episodes)) - np.repeat(starts, lengths)
    raw = {key: np.asarray(array[chunk]) for key, array in found.items() if key != "filled"}
    arrays = {key: array[episodes, steps] for key, array in raw.items()}
    if _has_extra_step(found):
        arrays["final_observations"] = raw["observations"][np.arange(len(lengths)), lengths]
    rows, agents = arrays["observations"].shape[:2]
    flags = arrays.get("terminals", np.zeros(rows, bool)) != 0
    flags = flags.reshape(rows, -1)
    terminals = np.broadcast_to(flags, (rows, agents)).copy()
    last = starts + lengths - 1
    terminals[last[lengths == limit]] = False
    truncations = np.zeros_like(terminals)
    truncations[last] = ~terminals[last]
    return {**arrays, "terminals": terminals, "truncations": truncations}


def _require_axes(found: Mapping[str, Sliced]) -> None:
    """Raises unless all arrays have as many episodes, and steps but for one."""
    observations = found["observations"]
    if len(observations.shape) < 4:
        raise OryxError(
            f"observations have shape {observations.shape}, but episodes, steps, agents and "
            "features are needed"
        )
    episodes, steps = observations.shape[:2]
    for key, array in found.items():
        is_short = len(array.shape) < 2
        if is_short or array.shape[0] != episodes or array.shape[1] not in (steps, steps - 1):
            raise OryxError(
                f"{key} has shape {array.shape}, but observations begin with {episodes} episodes "
                f"and {steps} steps"
            )


def _episode_lengths(found: Mapping[str, Sliced]) -> Int[np.ndarray, "E"]:
    """Actions of each episode."""
    episodes = found["observations"].shape[0]
    if "filled" in found:
        filled = _flags(found["filled"])
        counts = filled.sum(axis=1)
        if not (filled == (np.arange(filled.shape[1]) < counts[:, None])).all():
            raise OryxError("filled has gaps: the real steps of an episode must come first")
        lengths = counts - _has_extra_step(found)
    else:
        ended = _flags(found["terminals"]) if "terminals" in found else np.zeros((episodes, 1))
        lengths = np.where(ended.any(axis=1), ended.argmax(axis=1) + 1, _longest(found))
    if not episodes or lengths.min() < 1:
        raise OryxError(f"episode {int(lengths.argmin()) if episodes else 0} has no step")
    if lengths.max() > min(found[key].shape[1] for key in NEEDED):
        raise OryxError("filled counts more steps than there are actions")
    return lengths.astype(np.int64)


def _longest(found: Mapping[str, Sliced]) -> int:
    """Actions of the longest episode for which there is room."""
    room = found["observations"].shape[1] - _has_extra_step(found)
    return min(found["actions"].shape[1], room)


def _has_extra_step(found: Mapping[str, Sliced]) -> int:
    """1 if `filled`, and the axis of steps, count what was seen after the last action."""
    if "filled" not in found or "terminals" not in found:
        one_less = found["actions"].shape[1] < found["observations"].shape[1]
        return int(one_less or "filled" in found)
    filled, ended = _flags(found["filled"]).sum(axis=1), _flags(found["terminals"])
    beyond = (filled - ended.argmax(axis=1) - 1)[ended.any(axis=1)]
    if not beyond.size or (beyond == 1).all():
        return 1
    if (beyond == 0).all():
        return 0
    episode = int(np.flatnonzero(ended.any(axis=1))[np.flatnonzero(beyond != 1)[0]])
    raise OryxError(
        f"filled and terminated do not fit: episode {episode} has {int(filled[episode])} filled "
        f"steps, but ends at step {int(ended[episode].argmax())}"
    )


def _terminated_at(
    found: Mapping[str, Sliced], steps: Int[np.ndarray, "E"]
) -> Bool[np.ndarray, "E"]:
    """Whether each episode is terminal at a step."""
    if "terminals" not in found:
        return np.zeros(len(steps), bool)
    return _flags(found["terminals"])[np.arange(len(steps)), steps]


def _flags(array: Sliced) -> Bool[np.ndarray, "E T"]:
    """One flag per episode and step: that of all agents together."""
    flags = np.asarray(array[:]) != 0
    return flags.reshape(*flags.shape[:2], -1).all(axis=-1)
