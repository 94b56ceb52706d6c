"""Distributions over actions under legality masks."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Shaped


def masked_log_softmax(
    logits: Float[Array, "*batch A"], legal: Bool[Array, "*batch A"]
) -> Float[Array, "*batch A"]:
    """log π over the legal actions; a mask that allows nothing counts as one that allows all."""
    allowed = legal | ~legal.any(axis=-1, keepdims=True)
    return jax.nn.log_softmax(jnp.where(allowed, logits, -0.5 * jnp.finfo(logits.dtype).max))


def entropy(log_probs: Float[Array, "*batch A"]) -> Float[Array, "*batch"]:
    """-Σ π log π, with illegal actions at probability exactly 0."""
    probs = jnp.exp(log_probs)
    return -jnp.sum(jnp.where(probs > 0, probs * log_probs, 0), axis=-1)


def take_action(
    values: Shaped[Array, "*batch A"], actions: Int[Array, "*batch"]
) -> Shaped[Array, "*batch"]:
    """The entry of the given action."""
    # A sum over a mask, not a lookup: its gradient is one too, where a lookup's would be a scatter.
    is_taken = jnp.arange(values.shape[-1]) == actions[..., None]
    taken = jnp.where(is_taken, values, 0)
    return taken.any(axis=-1) if values.dtype == bool else taken.sum(axis=-1)


def choose_each(
    log_probs: Float[Array, "*batch A"], greedy: bool, key: Array
) -> Int[Array, "*batch"]:
    """The likeliest action, or one drawn anew for every environment and agent."""
    actions = log_probs.argmax(axis=-1) if greedy else jax.random.categorical(key, log_probs)
    return actions.astype(jnp.int32)
