"""Statistics over the rows that count, and choices between rows."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


def masked_mean(values: Float[Array, "*shape"], mask: Bool[Array, "*shape"]) -> Float[Array, ""]:
    """Mean over the rows that count; 0 if none does."""
    return jnp.sum(jnp.where(mask, values, 0)) / jnp.maximum(mask.sum(), 1)


def pick(chosen: Bool[Array, " B"], new: Any, old: Any) -> Any:
    """Of two pytrees with a leading axis B, `new` where chosen and `old` elsewhere."""

    def pick_array(a: Array, b: Array) -> Array:
        return jnp.where(chosen.reshape(-1, *[1] * (a.ndim - 1)), a, b)

    return jax.tree.map(pick_array, new, old)
