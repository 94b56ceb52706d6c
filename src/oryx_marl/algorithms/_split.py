"""Networks that see a batch part by part, or one share on each device, for a loss that sees it
whole.

A loss that couples the batch is no sum over parts. But it takes the networks' outputs alone, which
are small; what is large is what their backward pass needs. That is never kept for more than one
part: each is run once for its outputs, and again when its gradient is due.
"""

from collections.abc import Callable
from typing import Any

import jax
from jax.sharding import PartitionSpec

BATCH = "batch"
"""The axis of the mesh (`jax.set_mesh`) that a batch is spread over, if it has one."""


def num_shares() -> int:
    """Devices that share a batch."""
    return jax.sharding.get_abstract_mesh().shape.get(BATCH, 1)


def over_batch(function: Callable[[Any, Any], Any], parts: int, weights: Any, batch: Any) -> Any:
    """`function(weights, batch)` [B, ...], where `function` treats every example by itself.

    Each device runs its share of the batch, in `parts` parts one after the other.
    """

    def share(weights: Any, batch: Any) -> Any:
        return _in_turn(function, parts, weights, batch)

    if num_shares() == 1:
        return share(weights, batch)
    whole, shared = PartitionSpec(), PartitionSpec(BATCH)
    # The compiler could not cut a kernel written by hand; so it is told where to cut.
    spread = jax.shard_map(share, in_specs=(whole, shared), out_specs=shared, check_vma=False)
    return jax.lax.with_sharding_constraint(spread(weights, batch), whole)


def _in_turn(function: Callable[[Any, Any], Any], parts: int, weights: Any, batch: Any) -> Any:
    if parts == 1:
        return function(weights, batch)
    cut = jax.tree.map(lambda x: x.reshape(parts, -1, *x.shape[1:]), batch)
    # Two loops cannot be merged, so nothing else has to keep the second run from being the first.
    run = jax.checkpoint(lambda part: function(weights, part), prevent_cse=False)
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), jax.lax.map(run, cut))
