"""Several devices, of one process or of several: what is spread over them, and how it comes back.

Inside `spread` the mesh of JAX (`jax.set_mesh`) has one axis: over it go seeds (seeds.py) or every
batch (algorithms/_split.py). All processes run the same program and see the same numbers; the
first alone keeps the run's folder.
"""

import tempfile
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import jax
from jax.experimental import multihost_utils
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from oryx_marl.algorithms._split import BATCH
from oryx_marl.algorithms.base import Algorithm
from oryx_marl.errors import OryxError
from oryx_marl.parallel.seeds import SEEDS


def choose_axis(algorithm: Algorithm, seeds: int, devices: int) -> str | None:
    """Seeds if the devices divide them evenly, else the batch if that can be cut so, else nothing.

    A batch is cut into shares, one a device, and each share into its `batch_parts`.
    """
    if seeds % devices == 0:
        return SEEDS
    parts = algorithm.batch_parts
    can_cut = parts is not None and algorithm.batch_size % (devices * max(parts, 1)) == 0
    return BATCH if can_cut else None


def spread(algorithm: Algorithm, seeds: int) -> AbstractContextManager[Any]:
    """A context in which training uses all devices, if it can; results are those of one device."""
    count = jax.device_count()
    if count == 1:
        return nullcontext()
    axis = choose_axis(algorithm, seeds, count)
    if axis is not None:
        return jax.set_mesh(jax.make_mesh((count,), (axis,), (AxisType.Auto,)))
    problem = (
        f"{count} devices divide neither {seeds} seeds evenly nor, where it can be cut, the batch "
        f"of {algorithm.batch_size}"
    )
    if jax.process_count() > 1:
        raise OryxError(f"{problem}; choose a multiple of {count} seeds")
    warnings.warn(f"{problem}: one device is used", stacklevel=2)
    return nullcontext()


def everywhere() -> NamedSharding | None:
    """Where data lie: whole on every device; None for the only one."""
    mesh = jax.sharding.get_mesh()
    return None if mesh.empty else NamedSharding(mesh, PartitionSpec())


def place(tree: Any) -> Any:
    """Arrays [S, ...] of all seeds, put on the devices where they are worked on."""
    mesh = jax.sharding.get_mesh()
    if mesh.empty:
        return jax.device_put(tree)
    axes = [SEEDS] if SEEDS in mesh.shape else []
    return jax.device_put(tree, NamedSharding(mesh, PartitionSpec(*axes)))


def fetch(tree: Any) -> Any:
    """Arrays of all seeds on the host, in every process."""
    if jax.process_count() > 1:
        tree = jax.jit(_identity, out_shardings=everywhere())(tree)
    return jax.device_get(tree)


def _identity(tree: Any) -> Any:
    return tree


def from_first(tree: Any) -> Any:
    """What the first process has, in every process."""
    return tree if jax.process_count() == 1 else multihost_utils.broadcast_one_to_all(tree)


def anywhere(flag: bool) -> bool:
    """Whether it holds in some process, so that all do the same."""
    return flag if jax.process_count() == 1 else bool(multihost_utils.process_allgather(flag).any())


@contextmanager
def own_folder(folder: Path) -> Iterator[Path]:
    """The folder for the first process; one that is thrown away for the others."""
    if jax.process_index() == 0:
        yield folder
        return
    with tempfile.TemporaryDirectory() as scratch:
        yield Path(scratch)
