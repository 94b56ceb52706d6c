"""A gated recurrent unit over time, given what its inputs add to the gates.

Only what must wait for the step before is done step by step, forward and backward. All else, the
gradient of the weights too, is one product over all steps.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

LONGEST_WRITTEN_OUT = 32
"""Steps; more would take long to compile."""

Steps = Float[Array, "T *B W"]
Gates = Float[Array, "T *B W3"]
"""Reset, update and new gate, side by side: W3 is 3 W."""
Weight = Float[Array, "W W3"]


def gates(
    added: Float[Array, "*B W3"],
    hidden: Float[Array, "*B W"],
    weight: Weight,
    bias: Float[Array, " W"],
) -> tuple[Array, Array, Array, Array]:
    """Reset r, update z, new n, and what r scales within n."""
    r_in, z_in, n_in = jnp.split(added, 3, axis=-1)
    r_past, z_past, n_past = jnp.split(hidden @ weight, 3, axis=-1)
    scaled = n_past + bias
    r = jax.nn.sigmoid(r_in + r_past)
    return r, jax.nn.sigmoid(z_in + z_past), jnp.tanh(n_in + r * scaled), scaled


def step(added: Array, hidden: Array, weight: Weight, bias: Array) -> Array:
    """The memory after one step: n + z (memory - n)."""
    _, z, n, _ = gates(added, hidden, weight, bias)
    return n + z * (hidden - n)


@jax.custom_vjp
def gru(
    added: Gates,
    reset: Bool[Array, "T *B"],
    start: Float[Array, "*B W"],
    weight: Weight,
    bias: Float[Array, " W"],
) -> Steps:
    """The memory after each step; it is emptied at resets. `start` gets no gradient."""

    def one_step(hidden: Array, inputs: tuple[Array, Array]) -> tuple[Array, Array]:
        added, reset = inputs
        hidden = step(added, jnp.where(reset[..., None], 0, hidden), weight, bias)
        return hidden, hidden

    return _over_time(one_step, start, (added, reset))


def _over_time(
    step: Callable[..., tuple[Array, Array]], start: Array, inputs: tuple, reverse: bool = False
) -> Array:
    """What `step` gives at each time. On a GPU short loops are written out: the host would else
    start every step's kernels by themselves, and not all at once as part of the update."""
    unroll = jax.default_backend() == "gpu" and len(inputs[0]) <= LONGEST_WRITTEN_OUT
    return jax.lax.scan(step, start, inputs, reverse=reverse, unroll=unroll or 1)[1]


def _forward(
    added: Array, reset: Array, start: Array, weight: Array, bias: Array
) -> tuple[Array, tuple]:
    memories = gru(added, reset, start, weight, bias)
    return memories, (added, reset, start, weight, bias, memories)


def _backward(kept: tuple, wanted: Steps) -> tuple[Array, None, None, Array, Array]:
    """With h' = n + z (h - n): from dh' to the gates of the step, and on to h."""
    added, reset, start, weight, bias, memories = kept
    before = jnp.concatenate([start[None], memories[:-1]])
    before = jnp.where(reset[..., None], 0, before)
    r, z, n, scaled = gates(added, before, weight, bias)
    # What dh' is multiplied with, gate by gate.
    to_new = (1 - z) * (1 - n**2)
    to_update = (before - n) * z * (1 - z)
    to_reset = to_new * scaled * r * (1 - r)
    factors = jnp.concatenate([to_reset, to_update, to_new * r], axis=-1)
    past = weight.T

    def one_step(carry: Array, inputs: tuple[Array, ...]) -> tuple[Array, Array]:
        wanted, factors, z, reset = inputs
        change = wanted + carry
        onward = change * z + (jnp.tile(change, 3) * factors) @ past
        return jnp.where(reset[..., None], 0, onward), change

    inputs = (wanted, factors, z, reset)
    changes = _over_time(one_step, jnp.zeros_like(wanted[0]), inputs, reverse=True)
    in_past = jnp.tile(changes, 3) * factors
    flat_before, flat_past = (x.reshape(-1, x.shape[-1]) for x in (before, in_past))
    width = weight.shape[0]
    in_new = changes * to_new
    for_added = jnp.concatenate([in_past[..., : 2 * width], in_new], axis=-1)
    return for_added, None, None, flat_before.T @ flat_past, flat_past[:, 2 * width :].sum(axis=0)


gru.defvjp(_forward, _backward)
