"""Pytrees as arrays by name, which is how weights are kept in files."""

from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from oryx_marl import renamed
from oryx_marl.errors import OryxError


def flatten(tree: Any) -> dict[str, np.ndarray]:
    """Every array of a pytree by its path."""
    return {name: np.asarray(leaf) for name, leaf in _by_path(tree).items()}


def _by_path(tree: Any) -> dict[str, Any]:
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    name = partial(jax.tree_util.keystr, simple=True, separator="/")
    return {name(path): leaf for path, leaf in leaves}


def unflatten(arrays: dict[str, np.ndarray], like: Any, path: Path) -> Any:
    """`arrays` in the structure of `like`, or an error if a name, shape or type differs.

    Arrays that go by a name of version 0.1.0 are found too.
    """
    expected = _by_path(like)  # as shapes: those of a Spec that was altered can be of any size
    arrays = {
        name if name in expected else renamed.branch(name): array for name, array in arrays.items()
    }
    kinds = [
        {name: (array.shape, array.dtype) for name, array in found.items()}
        for found in (expected, arrays)
    ]
    names = sorted({**expected, **arrays})
    wrong = [name for name in names if kinds[0].get(name) != kinds[1].get(name)]
    if wrong:
        raise OryxError(
            f"checkpoint {path} does not fit these settings: {wrong[0]} and {len(wrong) - 1} other "
            "arrays differ in name, shape or type; was it made with another network or spec?"
        )
    return jax.tree.unflatten(jax.tree.structure(like), [arrays[name] for name in expected])
