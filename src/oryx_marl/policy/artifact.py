"""A trained policy in one small file: Spec, algorithm, settings and the weights it acts with.

No optimiser, no environment, no packages of an environment: what is needed to act, and its hash.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from oryx_marl import config as configs
from oryx_marl import files, reading, registry, renamed, texts
from oryx_marl.algorithms._making import make_algorithm
from oryx_marl.algorithms.base import Algorithm
from oryx_marl.errors import OryxError
from oryx_marl.trees import flatten, unflatten
from oryx_marl.types import Spec

ABOUT = "about"
"""Name of the text beside the arrays; no path of a pytree is called so."""
FORMAT_VERSION = 2
"""Files of version 0.1.0 of the package (format 1) have no version key and no axis of seeds."""


@dataclass(frozen=True, eq=False)
class PolicyArtifact:
    """All that is needed to act with trained weights."""

    name: str
    """The algorithm's name."""
    algorithm: Algorithm
    spec: Spec
    weights: Any
    """Acting weights of all seeds, a pytree of arrays [S, ...]."""
    seeds: tuple[int, ...]
    """Number of each seed, in the order of the weights."""
    origin: dict[str, Any]
    """Where it comes from, as JSON: dataset or environment, update, names of the actions ..."""
    sha256: str = ""
    """Over everything in the file, or, of an artifact that comes from none, in it."""

    def __post_init__(self) -> None:
        shapes = [np.shape(leaf) for leaf in jax.tree.leaves(self.weights)]
        if wrong := [shape for shape in shapes if shape[:1] != (len(self.seeds),)]:
            raise OryxError(
                f"weights of {len(self.seeds)} seeds must have a first axis of that length, "
                f"got shape {wrong[0]}"
            )
        if not self.sha256:
            digest = _hash(flatten(jax.device_get(self.weights)), _describe(self))
            object.__setattr__(self, "sha256", digest)

    def weights_of(self, seed: int | None = None) -> Any:
        """The weights of one seed, without the axis of seeds; of the first if none is named."""
        chosen = self.seeds[0] if seed is None else seed
        if chosen not in self.seeds:
            raise OryxError(f"this policy has no seed {seed}; it has {list(self.seeds)}")
        place = self.seeds.index(chosen)
        return jax.tree.map(lambda leaf: leaf[place], self.weights)


def save(path: Path, artifact: PolicyArtifact, half: bool = False) -> None:
    """Writes a policy file.

    With `half` the weights are rounded to 16 bits, which is enough to act as well.
    """
    arrays = flatten(jax.device_get(artifact.weights))
    if half:
        arrays = {name: _cast(array, np.float32, np.float16) for name, array in arrays.items()}
    about = _describe(artifact)
    about["sha256"] = _hash(arrays, about)
    files.write_arrays(path, {ABOUT: np.array(json.dumps(about)), **arrays})


def load(path: Path) -> PolicyArtifact:
    """The policy that `save` wrote; an OryxError if it is damaged, altered or too new."""
    arrays, about, sha256 = _read(path)
    try:
        module = registry.load("algorithms", about["algorithm"])
        spec = Spec.from_dict(about["spec"])
        settings = renamed.settings(about["config"], module.Config.online)
        config = configs.from_stored(module.Config, settings)
        algorithm = make_algorithm(about["algorithm"], config, spec)
        origin = dict(about["origin"])
        is_old = "format_version" not in about
        seeds = (int(origin.get("seed", 0)),) if is_old else tuple(map(int, about["seeds"]))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise OryxError(f"the policy file {path} is damaged: {error!r}") from error
    if is_old:
        arrays = {name: array[None] for name, array in arrays.items()}
    whole = {name: _cast(array, np.float16, np.float32) for name, array in arrays.items()}
    one = jax.eval_shape(lambda: algorithm.weights(algorithm.init(jax.random.key(0))))
    weights = unflatten(whole, over_seeds(one, len(seeds)), path)
    return PolicyArtifact(about["algorithm"], algorithm, spec, weights, seeds, origin, sha256)


def read_origin(path: Path) -> dict[str, Any]:
    """What a policy file says of where it comes from."""
    _, about, _ = _read(path)
    return dict(about.get("origin", {}))


def over_seeds(like: Any, num_seeds: int) -> Any:
    """Shapes of one seed's arrays as those [S, ...] of several."""
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct((num_seeds, *x.shape), x.dtype), like)


def _read(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any], str]:
    """Arrays, text and hash of a file, after everything in it was checked against the hash."""
    if not path.is_file():
        raise OryxError(f"there is no policy file {path}")
    try:
        arrays = reading.load_npz(path)
        about = reading.parse_json(str(arrays.pop(ABOUT)))
        version = int(about.get("format_version", 1))
    except OryxError:
        raise
    except Exception as error:  # damaged files make the libraries raise nearly anything
        why = texts.first_line(error)
        raise OryxError(f"the policy file {path} is damaged: {why}") from error
    if version > FORMAT_VERSION:  # before the hash: a newer one may be made otherwise
        raise OryxError(
            f"the policy file {path} was written by a newer oryx-marl (format {version}; this one "
            f"reads up to {FORMAT_VERSION}): update oryx-marl to open it"
        )
    sha256 = about.pop("sha256", None)
    if sha256 != _hash(arrays, about):
        raise OryxError(f"the policy file {path} is damaged: its SHA-256 differs")
    return arrays, about, sha256


def _describe(artifact: PolicyArtifact) -> dict[str, Any]:
    """Everything but the weights."""
    algorithm: Any = artifact.algorithm
    about = {
        "format_version": FORMAT_VERSION,
        "algorithm": artifact.name,
        "config": configs.to_dict(algorithm.config),
        "spec": artifact.spec.to_dict(),
        "seeds": list(artifact.seeds),
        "origin": artifact.origin,
    }
    return json.loads(json.dumps(about))  # as it will be read, so that its hash is the same


def _cast(array: np.ndarray, before: Any, after: Any) -> np.ndarray:
    return array.astype(after) if array.dtype == before else array


def _hash(arrays: dict[str, np.ndarray], about: dict[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
