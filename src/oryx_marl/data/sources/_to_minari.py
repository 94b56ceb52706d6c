"""A Dataset as one of Minari's folders; `minari.py` says how they look."""

import io
import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from oryx_marl.data.dataset import Dataset, name_in_files
from oryx_marl.data.sources._sealing import Digest, digested
from oryx_marl.data.sources.base import require
from oryx_marl.errors import OryxError
from oryx_marl.types import Spec

METADATA, DATA = "metadata.json", "main_data.hdf5"
FORMAT = 2
"""Format 1 had no checksums."""
PER_STEP = ("rewards", "terminals", "truncations", "action_mask", "agent_mask", "state")
"""Arrays that our export keeps in `infos`."""


def write_folder(parts: Iterable[Dataset], path: Path) -> None:
    """A folder that Minari opens, and from which `read` makes the same dataset again."""
    h5py = require("h5py")
    path.mkdir(parents=True)
    number, steps, digest = 0, 0, Digest()
    first: Dataset | None = None
    with _Target(path / DATA) as target:
        with h5py.File(target, "w", track_order=True) as file:
            for part in digested(_writable(parts), digest):
                first = first or part
                for episode in range(part.num_episodes):
                    _write_episode(file.create_group(f"episode_{number}"), part, episode, number)
                    target.raise_failure()
                    number += 1
                steps += part.num_rows
        target.raise_failure()
    if first is None:
        raise OryxError("there is nothing to write: no part was given")
    about: dict[str, Any] = {
        "total_episodes": number,
        "total_steps": steps,
        "data_format": "hdf5",
        "jpeg_encoding": False,
        "dataset_id": f"{first.name}-v0",
        "minari_version": "0.5.3",
        **_describe(first),
    }
    about["oryx_marl"]["seal"] = digest.seal(about["oryx_marl"])
    (path / METADATA).write_text(json.dumps(about), encoding="utf-8")


class _Target(io.RawIOBase):
    """A file that a full disk does not break: what cannot be written is kept until it is closed.

    HDF5 crashes the process where its own writes fail, as late as when it is closed.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("w+b", buffering=0)
        self._failure: OSError | None = None

    def raise_failure(self) -> None:
        """Raises if something could not be written."""
        if self._failure is not None:
            raise self._failure

    def write(self, content: Any) -> int:
        view = memoryview(content).cast("B")
        place = self._file.tell()
        try:
            written = 0
            while written < len(view) and self._failure is None:
                written += self._file.write(view[written:]) or 0
        except OSError as error:
            self._failure = error
        self._file.seek(place + len(view))
        return len(view)

    def readinto(self, target: Any) -> int:
        view = memoryview(target).cast("B")
        found = self._file.readinto(view) or 0
        view[found:] = bytes(len(view) - found)  # of what could not be written
        return len(view)

    def seek(self, place: int, whence: int = 0) -> int:
        return self._file.seek(place, whence)

    def tell(self) -> int:
        return self._file.tell()

    def truncate(self, size: int | None = None) -> int:
        try:
            return self._file.truncate(size)
        except OSError as error:
            self._failure = error
            return size or 0

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        self._file.close()
        super().close()


def agent_keys(spec: Spec) -> list[str]:
    """Names of agents as HDF5 can have them."""
    keys = [agent.replace("/", "_").replace("\0", "_") for agent in spec.agents]
    plain = all(key not in ("", ".") for key in keys) and len(set(keys)) == len(keys)
    return keys if plain else [f"agent_{index}" for index in range(len(keys))]


def _write_episode(group: Any, part: Dataset, episode: int, number: int) -> None:
    """One episode as Minari lays it out."""
    start = int(part.episode_starts[episode])
    end = start + int(part.episode_lengths[episode])
    seen = part.observations[start:end]
    # Minari needs what was seen after the last action; where it was not logged, the last again.
    final = seen[-1] if part.final_observations is None else part.final_observations[episode]
    seen = np.concatenate([seen, final[None]])
    for index, (key, size) in enumerate(
        zip(agent_keys(part.spec), part.spec.observation_sizes, strict=True)
    ):
        group.create_dataset(f"observations/{key}", data=seen[:, index, :size])
        group.create_dataset(f"actions/{key}", data=part.actions[start:end, index])
    group.create_dataset("rewards", data=part.rewards[start:end].mean(axis=1, dtype=np.float64))
    group.create_dataset("terminations", data=part.terminals[start:end].all(axis=1))
    group.create_dataset("truncations", data=part.truncations[start:end].all(axis=1))
    for key in PER_STEP:
        if key in part.arrays():
            group.create_dataset(f"infos/{name_in_files(key)}", data=part.arrays()[key][start:end])
    group.attrs.update({"id": number, "total_steps": end - start})


def _describe(first: Dataset) -> dict[str, Any]:
    """The spaces in Minari's words, and all that we know."""
    spec, dtype = first.spec, first.observations.dtype
    if dtype.kind == "f":
        low, high = -math.inf, math.inf
    else:
        low, high = (int(value) for value in (np.iinfo(dtype).min, np.iinfo(dtype).max))
    boxes = {
        key: _box(dtype, [low] * size, [high] * size)
        for key, size in zip(agent_keys(spec), spec.observation_sizes, strict=True)
    }
    if spec.action.kind == "box":
        action: dict[str, Any] = _box(
            first.actions.dtype, list(spec.action.low), list(spec.action.high)
        )
    else:
        action = {"type": "Discrete", "dtype": "int64", "start": 0, "n": spec.action.size}
    actions = dict.fromkeys(agent_keys(spec), action)
    ours = {
        "format": FORMAT,
        "spec": spec.to_dict(),
        "origin": first.origin,
        "has_final_observations": first.final_observations is not None,
    }
    return {
        "observation_space": json.dumps({"type": "Dict", "subspaces": boxes}),
        "action_space": json.dumps({"type": "Dict", "subspaces": actions}),
        "oryx_marl": ours,
    }


def _box(dtype: np.dtype, low: list[float], high: list[float]) -> dict[str, Any]:
    return {"type": "Box", "dtype": dtype.name, "shape": [len(low)], "low": low, "high": high}


def _writable(parts: Iterable[Dataset]) -> Iterator[Dataset]:
    """The same parts, or an error where Minari has no type for one."""
    for part in parts:
        for name, array in part.arrays().items():
            if array.dtype.kind not in "biuf":
                raise OryxError(f"{name} are {array.dtype.name}, which Minari cannot hold")
        yield part
        del part
