"""A few recorded episodes with their pictures, for the page."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from oryx_marl import files, reading
from oryx_marl.runs import sealed

FILE = "replay.npz"


@dataclass(frozen=True, eq=False)
class Episode:
    """One recorded episode."""

    title: str
    episode_return: float
    frames: UInt8[np.ndarray, "T height width 3"]
    actions: tuple[tuple[str, ...], ...]
    """What each agent did between frame k and frame k+1."""
    rewards: tuple[float, ...]


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
                )
            )
    if not episodes:
        raise ValueError("it holds no episode")
    return tuple(episodes)
