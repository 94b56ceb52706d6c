"""Clones of logged behaviour, kept between evaluations: all policies of a dataset share them."""

import hashlib
import json
import os
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jax
import numpy as np
import platformdirs
from jaxtyping import Int

from oryx_marl import files, reading
from oryx_marl.errors import OryxError
from oryx_marl.ope.behaviour import Clones
from oryx_marl.ope.settings import OpeSettings
from oryx_marl.trees import flatten, unflatten

VARIABLE = "ORYX_CLONES"
"""Environment variable: 0 for no cache, or another folder for it."""
FORMAT = 1
"""Raised when clones are trained in another way."""
LIKELIHOOD = "log_likelihood"
MOST_FILES = 50
"""Datasets whose clones are kept; those that were not used for longest go."""


def find_folder() -> Path | None:
    """Where clones are kept, None if nowhere."""
    told = os.environ.get(VARIABLE, "")
    if told == "0":
        return None
    return Path(told) if told else platformdirs.user_cache_path("oryx-marl") / "clones"


def make_key(fingerprint: str, episodes: Int[np.ndarray, " E"], settings: OpeSettings) -> str:
    """Names what the clones depend on: the data, which episodes of them, and the settings."""
    own = {
        name: value
        for name, value in asdict(settings).items()
        if name in ("clone_updates", "folds", "batch_steps", "learning_rate", "seed")
    }
    digest = hashlib.sha256(json.dumps([FORMAT, fingerprint, own], sort_keys=True).encode())
    digest.update(np.ascontiguousarray(episodes, np.int64).tobytes())
    return digest.hexdigest()[:32]


def read(key: str, like: Clones) -> Clones | None:
    """Clones that were kept under a key; None if there are none or the file is damaged.

    `like` says what they are: its weights are shapes.
    """
    folder = find_folder()
    path = None if folder is None else folder / f"{key}.npz"
    if path is None or not path.is_file():
        return None
    try:
        arrays = reading.load_npz(path)
        likelihood = arrays.pop(LIKELIHOOD)
        weights: Any = unflatten(arrays, like.weights, path)
    except (OryxError, ValueError, KeyError, OSError):
        return None
    with suppress(OSError):
        os.utime(path)
    weights = jax.tree.map(jax.numpy.asarray, weights)
    return Clones(like.algorithm, weights, np.asarray(likelihood))


def write(key: str, clones: Clones) -> None:
    """Keeps clones; a disk that is full or read-only is no reason to fail."""
    folder = find_folder()
    if folder is None:
        return
    arrays = flatten(jax.device_get(clones.weights))
    with suppress(OryxError, OSError):
        files.write_arrays(folder / f"{key}.npz", {**arrays, LIKELIHOOD: clones.log_likelihood})
        kept = sorted(folder.glob("*.npz"), key=lambda path: path.stat().st_mtime)
        for path in kept[:-MOST_FILES]:
            path.unlink(missing_ok=True)
