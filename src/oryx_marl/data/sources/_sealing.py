"""Checksums of our own exports, over the arrays that come back when they are imported.

So it does not matter how a format stores, compresses or cuts them: whatever makes other data of a
file is noticed. An export that another program has written anew has none, and nothing is claimed
of it.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from oryx_marl.data.dataset import Dataset, name_in_files, to_bytes
from oryx_marl.errors import OryxError

Seal = dict[str, Any]


class Digest:
    """SHA-256 of every array of a dataset that comes in parts, however it is cut into them."""

    def __init__(self) -> None:
        self._hashes: dict[str, Any] = {}

    def add(self, part: Dataset) -> None:
        """Takes the next episodes."""
        arrays = {**part.arrays(), "episode_lengths": part.episode_lengths.astype(np.int64)}
        del arrays["episode_starts"]
        for name, array in arrays.items():
            if name in ("observations", "final_observations"):
                array = _without_padding(array, part)
            if name not in self._hashes:
                head = f"{array.dtype.newbyteorder('=').name} {array.shape[1:]} "
                self._hashes[name] = hashlib.sha256(head.encode())
            self._hashes[name].update(to_bytes(array))

    def seal(self, about: Mapping[str, Any]) -> Seal:
        """What is kept beside the arrays; `about` is the rest that the export says."""
        arrays = {name_in_files(name): found.hexdigest() for name, found in self._hashes.items()}
        return {"arrays": arrays, "about": _hash_about(about)}


def digested(parts: Iterable[Dataset], digest: Digest) -> Iterator[Dataset]:
    """The same parts, which are hashed as they go by."""
    for part in parts:
        digest.add(part)
        yield part
        del part  # or it would be held while the next one is made


def checked(parts: Iterable[Dataset], about: Mapping[str, Any], seal: Any) -> Iterator[Dataset]:
    """The same parts; at their end, or before the first, an error if they are not those that were
    exported."""
    if not isinstance(seal, dict) or seal.get("about") != _hash_about(about):
        raise _altered("its description")
    digest = Digest()
    yield from digested(parts, digest)
    found, known = digest.seal(about)["arrays"], seal.get("arrays")
    if found != known:
        known = known if isinstance(known, dict) else {}
        names = [name for name in sorted({*found, *known}) if found.get(name) != known.get(name)]
        raise _altered(", ".join(names))


def _altered(what: str) -> OryxError:
    return OryxError(
        f"{what} differ from what was exported (SHA-256), so the file is damaged or was altered; "
        "export it again, or import an intact copy"
    )


def _without_padding(array: np.ndarray, part: Dataset) -> np.ndarray:
    """With 0 beyond what an agent sees: exports do not keep what stands there."""
    sizes = np.array(part.spec.observation_sizes)
    if (sizes == part.spec.observation_size).all():
        return array
    return np.where(np.arange(part.spec.observation_size) < sizes[:, None], array, 0).astype(
        array.dtype
    )


def _hash_about(about: Mapping[str, Any]) -> str:
    text = json.dumps(json.loads(json.dumps(about)), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
