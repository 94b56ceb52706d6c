"""Many seeds in one compiled call."""

from collections.abc import Callable
from typing import Any

import jax
from jax.sharding import PartitionSpec

SEEDS = "seeds"
"""The axis of the mesh (`jax.set_mesh`) that seeds are spread over, if it has one."""


def over_seeds(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` with a leading seed axis on every argument and result.

    Vectorised on accelerators, where ten seeds cost little more than one; one after the other on
    CPU, where three vectorised seeds were measured to cost four times as much as one. Where the
    mesh has an axis for them, each device runs its share of the seeds.
    """

    def together(*arguments: Any) -> Any:
        if _in_turn():
            return jax.lax.map(lambda each: function(*each), arguments)
        return jax.vmap(function)(*arguments)

    if _num_shares() == 1:
        return together
    by_seed = PartitionSpec(SEEDS)
    return jax.shard_map(together, in_specs=by_seed, out_specs=by_seed, check_vma=False)


def seeds_at_once(count: int) -> int:
    """Of so many seeds, those that a device runs at the same time."""
    return 1 if _in_turn() else count // _num_shares()


def _num_shares() -> int:
    return jax.sharding.get_abstract_mesh().shape.get(SEEDS, 1)


def _in_turn() -> bool:
    return jax.default_backend() == "cpu"
