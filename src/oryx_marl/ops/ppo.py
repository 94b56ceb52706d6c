"""Proximal policy optimisation (Schulman et al., 2017): its losses, over rows that count."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from oryx_marl.ops.masked import masked_mean

Values = Float[Array, "*shape"]
Mask = Bool[Array, "*shape"]


def normalise(advantages: Values, mask: Mask, floor: float = 1e-8) -> Values:
    """Mean 0 and standard deviation 1 over the rows that count, or below 1 if all are tiny.

    Whatever spreads less than `floor` counts as noise and is not blown up.
    """
    centred = advantages - masked_mean(advantages, mask)
    return centred / jnp.maximum(jnp.sqrt(masked_mean(centred**2, mask)), floor)


def policy_loss(
    log_probs: Values, old_log_probs: Values, advantages: Values, mask: Mask, clip: float
) -> Float[Array, ""]:
    """-min(ρ A, clip(ρ, 1 ± ε) A) with ρ = π / π_old."""
    ratio = jnp.exp(log_probs - old_log_probs)
    kept_near = jnp.clip(ratio, 1 - clip, 1 + clip)
    return masked_mean(-jnp.minimum(ratio * advantages, kept_near * advantages), mask)


def value_loss(
    values: Values, old_values: Values, targets: Values, mask: Mask, clip: float
) -> Float[Array, ""]:
    """½ max((V - y)², (V_old + clip(V - V_old, ±ε) - y)²)."""
    kept_near = old_values + jnp.clip(values - old_values, -clip, clip)
    errors = jnp.maximum((values - targets) ** 2, (kept_near - targets) ** 2)
    return masked_mean(0.5 * errors, mask)


def clipped_share(log_probs: Values, old_log_probs: Values, mask: Mask, clip: float) -> Array:
    """Share of the rows whose ratio has left 1 ± ε."""
    ratio = jnp.exp(log_probs - old_log_probs)
    return masked_mean((jnp.abs(ratio - 1) > clip).astype(ratio.dtype), mask)
