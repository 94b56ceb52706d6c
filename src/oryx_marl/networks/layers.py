"""The parts that networks are built from; each acts on the last axis of any array.

Products are computed in the dtype of the features, norms in that of the weights.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.nn.initializers import Initializer, lecun_normal, orthogonal
from jaxtyping import Array, Float

from oryx_marl.errors import OryxError


def require_sane_size(width: int, num_heads: int, num_blocks: int) -> None:
    """Raises unless features can be shared out among heads, and there is a block."""
    if width < 1 or num_heads < 1 or width % num_heads:
        raise OryxError(f"width ({width}) must be a positive multiple of num_heads ({num_heads})")
    if num_blocks < 1:
        raise OryxError(f"num_blocks must be at least 1, got {num_blocks}")


class Dense(eqx.Module):
    """x W + b."""

    weight: Float[Array, "I O"]
    bias: Float[Array, " O"] | None

    def __init__(
        self, key: Array, inputs: int, outputs: int, init: Initializer, use_bias: bool = False
    ) -> None:
        self.weight = init(key, (inputs, outputs), jnp.float32)
        self.bias = jnp.zeros(outputs) if use_bias else None

    def __call__(
        self, x: Float[Array, "*batch I"], exact: bool = False
    ) -> Float[Array, "*batch O"]:
        """Rounded to the dtype of `x`, or with `exact` kept in that of the weights."""
        # One plain product, whatever the leading axes: its gradients need no transposed copies.
        flat, dtype = x.reshape(-1, x.shape[-1]), self.weight.dtype if exact else x.dtype
        y = jnp.dot(flat, self.weight.astype(x.dtype), preferred_element_type=dtype)
        y = y.reshape(*x.shape[:-1], -1)
        return y if self.bias is None else y + self.bias.astype(dtype)


def side_by_side(*parts: Dense) -> Dense:
    """One Dense with the outputs of several that have the same input and no bias."""
    weight = jnp.concatenate([part.weight for part in parts], axis=1)
    return eqx.tree_at(lambda dense: dense.weight, parts[0], weight)


class RMSNorm(eqx.Module):
    """x / rms(x), scaled per feature."""

    scale: Float[Array, " D"]
    epsilon: float = eqx.field(static=True, default=1e-6)

    def __init__(self, width: int) -> None:
        self.scale = jnp.ones(width)

    def __call__(self, x: Float[Array, "*batch D"]) -> Float[Array, "*batch D"]:
        wide = x.astype(self.scale.dtype)
        mean_square = jnp.mean(wide**2, axis=-1, keepdims=True)
        return (wide * jax.lax.rsqrt(mean_square + self.epsilon) * self.scale).astype(x.dtype)


class SwiGLU(eqx.Module):
    """(swish(x W_gate) · x W_linear) W_out, started small but alive: no weight begins at zero."""

    inner: Dense
    """W_gate and W_linear side by side."""
    out: Dense

    def __init__(self, key: Array, width: int) -> None:
        keys = jax.random.split(key, 3)
        gate, linear = (Dense(key, width, width, lecun_normal()) for key in keys[:2])
        self.inner = side_by_side(gate, linear)
        self.out = Dense(keys[2], width, width, orthogonal(0.01))

    def __call__(self, x: Float[Array, "*batch D"]) -> Float[Array, "*batch D"]:
        gate, linear = jnp.split(self.inner(x), 2, axis=-1)
        return self.out(jax.nn.swish(gate) * linear)


class Head(eqx.Module):
    """Dense, GELU, norm, Dense: from features to one number per output, started near zero."""

    hidden: Dense
    norm: RMSNorm
    out: Dense

    def __init__(self, key: Array, width: int, outputs: int) -> None:
        keys = jax.random.split(key, 2)
        self.hidden = Dense(keys[0], width, width, orthogonal(2**0.5), use_bias=True)
        self.norm = RMSNorm(width)
        self.out = Dense(keys[1], width, outputs, orthogonal(0.01), use_bias=True)

    def __call__(self, x: Float[Array, "*batch D"]) -> Float[Array, "*batch A"]:
        return self.out(self.norm(jax.nn.gelu(self.hidden(x))), exact=True)
