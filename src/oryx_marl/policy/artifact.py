"""A policy in one small file: weights, settings and Spec, checked when it is read back."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from oryx_marl import config as configs
from oryx_marl import registry
from oryx_marl.algorithms.base import Algorithm
from oryx_marl.errors import OryxError
from oryx_marl.trees import flatten, unflatten
from oryx_marl.types import Spec

ABOUT = "about"


@dataclass(frozen=True, eq=False)
class KeptPolicy:
    """Weights of one seed, and all that is needed to act with them."""

    algorithm: Algorithm
    spec: Spec
    weights: Any
    about: dict[str, Any]
    """Where it comes from, and the SHA-256 of its weights."""


def save(
    path: Path,
    name: str,
    algorithm: Any,
    weights: Any,
    origin: dict[str, Any],
    half: bool = False,
) -> None:
    """Writes the weights of one seed; `name` is the algorithm's.

    With `half` they are rounded to 16 bits, which is enough to act as well.
    """
    arrays = flatten(jax.device_get(weights))
    if half:
        arrays = {name: array.astype(np.float16) for name, array in arrays.items()}
    about = {
        "algorithm": name,
        "config": configs.to_dict(algorithm.config),
        "spec": algorithm.spec.to_dict(),
        "origin": origin,
    }
    about["sha256"] = _seal(arrays, about)
    contents: dict[str, Any] = {ABOUT: np.array(json.dumps(about)), **arrays}
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.partial")
    with draft.open("wb") as file:
        np.savez_compressed(file, **contents)
    draft.replace(path)


def load(path: Path) -> KeptPolicy:
    """The policy that `save` wrote; an OryxError if it is damaged."""
    if not path.is_file():
        raise OryxError(f"there is no policy file {path}")
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        about = json.loads(str(arrays.pop(ABOUT)))
        seal = about.pop("sha256")
        intact = seal == _seal(arrays, about)
    except Exception as error:  # damaged files make the libraries raise nearly anything
        raise OryxError(f"the policy file {path} is damaged: {error}") from error
    if not intact:
        raise OryxError(f"the policy file {path} is damaged: its SHA-256 differs")
    module = registry.load("algorithms", about["algorithm"])
    spec = Spec.from_dict(about["spec"])
    algorithm = module.make(configs.from_dict(module.Config, about["config"]), spec)
    like = jax.eval_shape(lambda: algorithm.weights(algorithm.init(jax.random.key(0))))
    whole = {
        name: array.astype(np.float32) if array.dtype == np.float16 else array
        for name, array in arrays.items()
    }
    weights = unflatten(whole, like, path)
    return KeptPolicy(algorithm, spec, weights, {**about["origin"], "sha256": seal})


def _seal(arrays: dict[str, np.ndarray], about: dict[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
