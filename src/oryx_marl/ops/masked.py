"""Statistics over the rows that count."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


def masked_mean(values: Float[Array, "*shape"], rows: Bool[Array, "*shape"]) -> Float[Array, ""]:
    """Mean over the rows that count; 0 if none does."""
    return jnp.sum(jnp.where(rows, values, 0)) / jnp.maximum(rows.sum(), 1)
