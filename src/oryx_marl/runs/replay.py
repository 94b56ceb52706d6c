"""A few recorded episodes with their pictures, for the page."""

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int, UInt8

from oryx_marl import files, reading
from oryx_marl.runs import sealed

FILE = "replay.npz"


@dataclass(frozen=True, eq=False)
class Inputs:
    """What an episode came of, so that a page can play it again: its start and its chance."""

    start: dict[str, Any]
    """Fields of the environment's state before the first step, as lists."""
    actions: Int[np.ndarray, "T N"]
    noise: Float[np.ndarray, "T N A"]
    """As the policy was given it, times the temperature."""

    def to_json(self) -> dict[str, Any]:
        """Lists, and the noise as base64 of float32, little-endian."""
        noise = np.ascontiguousarray(self.noise, "<f4").tobytes()
        return {
            "start": self.start,
            "actions": self.actions.tolist(),
            "noise": base64.b64encode(noise).decode(),
        }

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> "Inputs":
        """Raises a ValueError where the noise is not that of so many actions."""
        actions = np.array(found["actions"], np.int32)
        noise = np.frombuffer(base64.b64decode(found["noise"], validate=True), "<f4")
        if actions.ndim != 2 or not actions.size or noise.size % actions.size:
            raise ValueError(f"it has {noise.size} numbers of noise for actions {actions.shape}")
        return cls(dict(found["start"]), actions, noise.reshape(*actions.shape, -1))


@dataclass(frozen=True)
class Shown:
    """Whose episodes they are: the weights that acted, and how."""

    seed: int
    """Number of the training's seed."""
    which: str
    """`last` or `best`."""
    update: int | None
    act: str
    """`sampled`, `greedy` or a temperature."""

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> "Shown":
        update = found["update"]
        update = None if update is None else int(update)
        return cls(int(found["seed"]), str(found["which"]), update, str(found["act"]))


@dataclass(frozen=True, eq=False)
class Episode:
    """One recorded episode."""

    title: str
    episode_return: float
    frames: UInt8[np.ndarray, "T height width 3"]
    actions: tuple[tuple[str, ...], ...]
    """What each agent did between frame k and frame k+1."""
    rewards: tuple[float, ...]
    inputs: Inputs | None = None
    """None where no page could play it again."""
    every: int = 1
    """Steps from one frame to the next."""
    steps: int | None = None
    """Of the episode, where it does not have a frame of each."""
    shown: Shown | None = None
    """None in older files."""

    @property
    def length(self) -> int:
        """Steps of the episode."""
        return len(self.rewards) if self.steps is None else self.steps


def write(path: Path, episodes: Sequence[Episode]) -> None:
    """Writes the episodes: pictures as arrays, the rest as JSON in `captions`."""
    captions = [
        {
            "title": episode.title,
            "return": episode.episode_return,
            "steps": [
                {"actions": list(actions), "reward": reward}
                for actions, reward in zip(episode.actions, episode.rewards, strict=True)
            ],
            **({} if episode.inputs is None else {"inputs": episode.inputs.to_json()}),
            **({} if episode.steps is None else {"every": episode.every, "of": episode.steps}),
            **({} if episode.shown is None else {"shown": asdict(episode.shown)}),
        }
        for episode in episodes
    ]
    frames = {f"frames_{place}": episode.frames for place, episode in enumerate(episodes)}
    text = json.dumps(captions)
    seal = json.dumps(sealed.seal({"content": _hash(text, frames)}))
    files.write_arrays(path, {"captions": np.array(text), "seal": np.array(seal), **frames})


def _hash(captions: str, frames: dict[str, np.ndarray]) -> str:
    digest = hashlib.sha256(captions.encode())
    for name, array in sorted(frames.items()):
        digest.update(f"{name} {array.shape} ".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def read(path: Path) -> tuple[Episode, ...]:
    """The recorded episodes."""
    with sealed.explain(path):
        return _read(path)


def _read(path: Path) -> tuple[Episode, ...]:
    episodes = []
    with reading.open_npz(path) as arrays:
        text = str(arrays["captions"].reshape(-1)[0])
        captions = reading.parse_json(text)
        pictures = {f"frames_{place}": arrays[f"frames_{place}"] for place in range(len(captions))}
        if "seal" in arrays:  # not of version 0.1.0
            seal = sealed.unseal(reading.parse_json(str(arrays["seal"])), path)
            if seal["content"] != _hash(text, pictures):
                raise ValueError("its checksum differs, so it was altered")
        for place, caption in enumerate(captions):
            frames = pictures[f"frames_{place}"]
            if frames.dtype != np.uint8 or frames.ndim != 4 or frames.shape[-1] != 3:
                raise ValueError(f"frames_{place} is {frames.dtype} {frames.shape}, not pictures")
            if not frames.size:
                raise ValueError(f"frames_{place} is empty")
            steps = caption["steps"]
            episodes.append(
                Episode(
                    title=str(caption["title"]),
                    episode_return=float(caption["return"]),
                    frames=frames,
                    actions=tuple(tuple(str(a) for a in step["actions"]) for step in steps),
                    rewards=tuple(float(step["reward"]) for step in steps),
                    inputs=Inputs.from_json(caption["inputs"]) if "inputs" in caption else None,
                    every=int(caption.get("every", 1)),
                    steps=int(caption["of"]) if "of" in caption else None,
                    shown=Shown.from_json(caption["shown"]) if "shown" in caption else None,
                )
            )
    if not episodes:
        raise ValueError("it holds no episode")
    return tuple(episodes)
