"""Minari's folders, in its HDF5 format: `Dict` spaces with one entry per agent.

    <folder>/metadata.json            spaces, and ours under the key `oryx_marl`
    <folder>/main_data.hdf5           episode_0/observations/<agent> [T + 1, ...], actions/<agent>

Minari has one reward and one end for all agents. Where each has its own, and for masks, presence
and state, which it does not know, our export uses `infos`, one entry per action.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from oryx_marl import reading
from oryx_marl.data.dataset import Dataset, name_in_files
from oryx_marl.data.sources import base
from oryx_marl.data.sources._container import open_hdf5
from oryx_marl.data.sources._sealing import checked
from oryx_marl.data.sources._to_minari import (
    DATA,
    FORMAT,
    METADATA,
    PER_STEP,
    agent_keys,
    write_folder,
)
from oryx_marl.errors import OryxError
from oryx_marl.types import ActionSpace, Spec

PART_ROWS = 8_192
MASK = "action_mask"


@dataclass(frozen=True)
class Options(base.Options):
    """Of folders of Minari: they tell the rest themselves."""


def recognises(path: Path) -> bool:
    """Whether a folder looks like Minari's; the folder above it, with `data` in it, does too."""
    return (_folder(path) / DATA).is_file()


def read(path: Path, name: str, options: Options) -> Iterator[Dataset]:
    """The episodes, in parts of some thousand steps."""
    folder = _folder(path)
    metadata = _read_metadata(folder)
    ours = metadata.get("oryx_marl")
    parts = _read_parts(folder, metadata, name)
    if "oryx_marl" in metadata and not isinstance(ours, dict):
        raise OryxError("its metadata.json is damaged: the entry oryx_marl is no table")
    if isinstance(ours, dict) and (ours.get("format") == FORMAT or "seal" in ours):
        about = {key: value for key, value in ours.items() if key != "seal"}
        parts = checked(parts, about, ours.get("seal"))
    yield from parts


def _read_parts(folder: Path, metadata: dict[str, Any], name: str) -> Iterator[Dataset]:
    with open_hdf5(folder / DATA) as file:
        count = len(file)
        there = set(file.names())
        if not count:
            raise OryxError("it has no episode")
        reader: _Ours | _Theirs | None = None
        if "oryx_marl" in metadata:
            reader = _Ours(metadata["oryx_marl"])
        held: list[dict[str, np.ndarray]] = []
        rows = 0
        for number in range(count):
            if f"episode_{number}" not in there:
                raise OryxError(f"episode_{number} is missing among its {count} episodes")
            stored = file.arrays(f"episode_{number}")
            arrays = {key.split("/", 1)[1]: _read(value) for key, value in stored.items()}
            if reader is None:
                _require_foreign(arrays)
                reader = _Theirs(metadata, _has_shared_rewards(arrays))
            held.append(reader.episode(arrays, f"episode {number}"))
            rows += len(held[-1]["rewards"])
            if rows >= PART_ROWS or number == count - 1:
                yield _join(held, reader.spec, name, reader.origin)
                held, rows = [], 0


def _require_foreign(arrays: Mapping[str, np.ndarray]) -> None:
    """Raises if an episode of a folder without our description is one that `write` stored."""
    if all(f"infos/{name_in_files(name)}" in arrays for name in PER_STEP[:3]):
        raise OryxError("its metadata.json is damaged: the entry oryx_marl is gone")


def write(parts: Iterable[Dataset], path: Path) -> None:
    """A folder that Minari opens, and from which `read` makes the same dataset again."""
    write_folder(parts, path)


class _Ours:
    """Episodes that `write` stored."""

    def __init__(self, about: Mapping[str, Any]) -> None:
        if about.get("format") not in (1, FORMAT):
            raise OryxError(f"its format is {about.get('format')}, but {FORMAT} is known here")
        self.spec = Spec.from_dict(about["spec"])
        self.origin = dict(about["origin"])
        self._has_final = bool(about["has_final_observations"])

    def episode(self, arrays: Mapping[str, np.ndarray], where: str) -> dict[str, np.ndarray]:
        """One episode by the names of a Dataset."""
        spec = self.spec
        stored = {name: f"infos/{name_in_files(name)}" for name in PER_STEP}
        found = {name: arrays[place] for name, place in stored.items() if place in arrays}
        seen = [arrays[f"observations/{agent}"] for agent in agent_keys(spec)]
        actions = [arrays[f"actions/{agent}"] for agent in agent_keys(spec)]
        padded = _pad(seen, spec.observation_size)
        found["observations"] = padded[:-1]
        if self._has_final:
            found["final_observations"] = padded[-1:]
        found["actions"] = np.stack(actions, axis=1)
        return found


class _Theirs:
    """Episodes that Minari recorded."""

    def __init__(self, metadata: Mapping[str, Any], has_shared_rewards: bool) -> None:
        seen = _space(metadata, "observation_space")
        acted = _space(metadata, "action_space")
        self._is_single = seen["type"] != "Dict" and acted["type"] != "Dict"
        if self._is_single:
            seen, acted = ({"subspaces": {"agent_0": space}} for space in (seen, acted))
        agents = tuple(acted.get("subspaces", ()))
        if not agents or set(agents) != set(seen["subspaces"]):
            raise OryxError(
                "observation_space and action_space must be Dict spaces with the same agents, but "
                f"have {sorted(seen.get('subspaces', ()))} and {sorted(agents)}"
            )
        self._seen = [_Seen.of(agent, seen["subspaces"][agent]) for agent in agents]
        self._actions = [_Action.of(agent, acted["subspaces"][agent]) for agent in agents]
        kinds = {action.space.kind for action in self._actions}
        sizes = {action.space.size for action in self._actions}
        if len(kinds) > 1 or (kinds == {"box"} and len(sizes) > 1):
            raise OryxError(
                "agents with several kinds of action, or boxes of several sizes, are not known: "
                + ", ".join(
                    f"{a} {x.space.kind} {x.space.size}"
                    for a, x in zip(agents, self._actions, strict=True)
                )
            )
        widest = max((action.space for action in self._actions), key=lambda space: space.size)
        self._masks = len(sizes) > 1 or any(entry.has_mask for entry in self._seen)
        self.spec = Spec(
            environment="",
            agents=agents,
            observation_sizes=tuple(entry.size for entry in self._seen),
            action=widest,
            shared_reward=has_shared_rewards,
        )
        self.origin: dict[str, Any] = {"minari_id": str(metadata.get("dataset_id", ""))}

    def episode(self, arrays: Mapping[str, np.ndarray], where: str) -> dict[str, np.ndarray]:
        """One episode by the names of a Dataset."""
        spec, agents = self.spec, self.spec.agents
        places = {agent: "" if self._is_single else f"/{agent}" for agent in agents}
        actions = [
            action.ids(_get(arrays, f"actions{places[agent]}", where))
            for agent, action in zip(agents, self._actions, strict=True)
        ]
        seen = [
            entry.features(arrays, f"observations{places[agent]}", where)
            for agent, entry in zip(agents, self._seen, strict=True)
        ]
        steps = len(actions[0])
        if any(len(one) != steps + 1 for one in seen) or any(len(one) != steps for one in actions):
            raise OryxError(f"{where} has {steps} actions, but not {steps + 1} observations")
        padded = _pad(seen, spec.observation_size)
        found = {
            "observations": padded[:-1],
            "final_observations": padded[-1:],
            "actions": np.stack(actions, axis=1),
            "rewards": _spread(_get(arrays, "rewards", where), (steps, len(agents)), where),
            "terminals": _spread(
                _get(arrays, "terminations", where) != 0, (steps, len(agents)), where
            ),
            "truncations": _spread(
                _get(arrays, "truncations", where) != 0, (steps, len(agents)), where
            ),
        }
        if self._masks:
            found["action_mask"] = np.stack(
                [
                    entry.mask(arrays, f"observations{places[agent]}", steps, own, spec.action.size)
                    for agent, entry, own in zip(agents, self._seen, self._actions, strict=True)
                ],
                axis=1,
            )
        return found


class _Seen(NamedTuple):
    """How one agent's observations are stored."""

    key: str
    size: int
    has_mask: bool

    @staticmethod
    def of(agent: str, space: Mapping[str, Any]) -> "_Seen":
        """From its space: a Box, a Discrete, or a Dict of `observation` and `action_mask`."""
        key, has_mask = "", False
        if space["type"] == "Dict":
            inner = space["subspaces"]
            if set(inner) != {"observation", MASK}:
                raise OryxError(
                    f"the observation of {agent} has the parts {sorted(inner)}; only 'observation' "
                    f"with '{MASK}' is understood. Flatten it where it is recorded"
                )
            key, has_mask, space = "/observation", True, inner["observation"]
        kind = space["type"]
        if kind == "Box":
            return _Seen(key, math.prod(space["shape"]), has_mask)
        if kind == "MultiBinary" or kind == "MultiDiscrete":
            size = space["n"] if kind == "MultiBinary" else len(space["nvec"])
            return _Seen(key, int(size), has_mask)
        if kind == "Discrete":
            return _Seen(key, 1, has_mask)
        raise OryxError(f"the observation of {agent} is a {kind} space, which is not understood")

    def features(self, arrays: Mapping[str, np.ndarray], place: str, where: str) -> np.ndarray:
        """[T + 1, O]."""
        values = _get(arrays, place + self.key, where)
        values = values.reshape(len(values), -1)
        if values.shape[1] != self.size:
            raise OryxError(f"{where}: {place} has {values.shape[1]} features, not {self.size}")
        return values.astype(np.int8) if values.dtype.kind == "b" else values

    def mask(
        self,
        arrays: Mapping[str, np.ndarray],
        place: str,
        steps: int,
        own: "_Action",
        size: int,
    ) -> np.ndarray:
        """[T, A]: what is logged, or all actions that this agent has."""
        action_mask = np.zeros((steps, size), bool)
        action_mask[:, : own.space.size] = True
        if self.has_mask:
            action_mask[:, : own.space.size] = _get(arrays, f"{place}/{MASK}", place)[:steps] != 0
        return action_mask


class _Action(NamedTuple):
    """How one agent's actions are stored."""

    space: ActionSpace
    start: int

    @staticmethod
    def of(agent: str, space: Mapping[str, Any]) -> "_Action":
        """From its space: a Box or a Discrete."""
        if space["type"] == "Discrete":
            return _Action(ActionSpace("discrete", int(space["n"])), int(space.get("start", 0)))
        if space["type"] == "Box" and len(space["shape"]) == 1:
            low, high = (np.ravel(space[side]).astype(float) for side in ("low", "high"))
            bounds = (tuple(map(float, low)), tuple(map(float, high)))
            return _Action(ActionSpace("box", int(space["shape"][0]), *bounds), 0)
        raise OryxError(
            f"the action of {agent} is a {space['type']} space, which is not understood"
        )

    def ids(self, values: np.ndarray) -> np.ndarray:
        """Ids from 0, or vectors."""
        if self.space.kind == "box":
            return values.reshape(len(values), self.space.size)
        return values.reshape(len(values)) - values.dtype.type(self.start)


def _join(
    episodes: list[dict[str, np.ndarray]], spec: Spec, name: str, origin: dict[str, Any]
) -> Dataset:
    """Episodes one after another."""
    lengths = [len(episode["rewards"]) for episode in episodes]
    if min(lengths) == 0:
        raise OryxError("there is an episode without a step")
    if any(episode.keys() != episodes[0].keys() for episode in episodes):
        raise OryxError("its episodes do not all have the same arrays")
    arrays = {key: np.concatenate([one[key] for one in episodes]) for key in episodes[0]}
    starts = np.append(0, np.cumsum(lengths)[:-1])
    return Dataset(spec=spec, name=name, origin=origin, episode_starts=starts, **arrays)


def _pad(seen: list[np.ndarray], width: int) -> np.ndarray:
    """[T + 1, N, O] of observations with widths of their own."""
    padded = np.zeros((len(seen[0]), len(seen), width), np.result_type(*seen))
    for index, values in enumerate(seen):
        padded[:, index, : values.shape[1]] = values
    return padded


def _spread(values: np.ndarray, step: tuple[int, int], where: str) -> np.ndarray:
    """[T, N] of one value for all, or of one for each."""
    if values.shape not in ((step[0],), step):
        raise OryxError(f"{where}: rewards or ends have shape {values.shape}, not {step}")
    return np.broadcast_to(values[:, None] if values.ndim == 1 else values, step).copy()


def _has_shared_rewards(episode: Mapping[str, np.ndarray]) -> bool:
    return "rewards" not in episode or episode["rewards"].ndim == 1


def _read(entry: Any) -> np.ndarray:
    """All of an array; flags of a damaged file can be neither true nor false until compared."""
    values = np.asarray(entry[...])
    return values != 0 if values.dtype.kind == "b" else values


def _get(arrays: Mapping[str, np.ndarray], key: str, where: str) -> np.ndarray:
    if key not in arrays:
        raise OryxError(f"{where} has no {key}; it has: {', '.join(sorted(arrays))}")
    return arrays[key]


def _space(metadata: Mapping[str, Any], key: str) -> dict[str, Any]:
    """A space as Minari describes it."""
    if not isinstance(metadata.get(key), str):
        raise OryxError(f"its {METADATA} has no {key}")
    space = reading.parse_json(metadata[key])
    if not isinstance(space, dict):
        raise OryxError(f"the {key} in its {METADATA} is not a space")
    return space


def _read_metadata(folder: Path) -> dict[str, Any]:
    metadata = reading.read_json(folder / METADATA)
    if not isinstance(metadata, dict):
        raise OryxError(f"its {METADATA} holds no table")
    if metadata.get("data_format", "hdf5") != "hdf5":
        raise OryxError(f"Minari's format '{metadata['data_format']}' is not read; only hdf5 is")
    return metadata


def _folder(path: Path) -> Path:
    return path / "data" if (path / "data" / DATA).is_file() else path
