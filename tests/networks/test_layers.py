"""Parts of networks against their formulas."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.nn.initializers import lecun_normal

from oryx_marl.errors import OryxError
from oryx_marl.networks.layers import (
    Dense,
    Head,
    RMSNorm,
    SwiGLU,
    require_sane_size,
    side_by_side,
)

KEY = jax.random.key(0)
X = jax.random.normal(jax.random.key(1), (5, 3, 8))


def test_dense() -> None:
    dense = Dense(KEY, 8, 2, lecun_normal(), use_bias=True)
    np.testing.assert_allclose(dense(X), jnp.einsum("abi,io->abo", X, dense.weight), atol=1e-6)
    assert dense(X.astype(jnp.bfloat16)).dtype == jnp.bfloat16
    assert dense(X.astype(jnp.bfloat16), exact=True).dtype == jnp.float32


def test_side_by_side_is_one_product_for_several() -> None:
    parts = [Dense(key, 8, 2, lecun_normal()) for key in jax.random.split(KEY, 3)]
    expected = jnp.concatenate([part(X) for part in parts], axis=-1)
    np.testing.assert_allclose(side_by_side(*parts)(X), expected, atol=1e-6)


def test_rms_norm() -> None:
    np.testing.assert_allclose(RMSNorm(2)(jnp.array([3.0, 4.0])), [0.848528, 1.131371], atol=1e-5)


def test_swiglu_begins_small_and_alive() -> None:
    layer = SwiGLU(KEY, 8)
    gate, linear = jnp.split(X @ layer.inner.weight, 2, axis=-1)
    np.testing.assert_allclose(
        layer(X), (gate * jax.nn.sigmoid(gate) * linear) @ layer.out.weight, atol=1e-6
    )
    gradients = jax.grad(lambda layer: jnp.sum(layer(X) ** 2))(layer)
    assert all(jnp.abs(each).max() > 0 for each in jax.tree.leaves(gradients))


def test_a_head_begins_near_zero() -> None:
    assert jnp.abs(Head(KEY, 8, 3)(X)).max() < 0.1


def test_sizes_that_cannot_be() -> None:
    with pytest.raises(OryxError, match="multiple of num_heads"):
        require_sane_size(10, 4, 1)
    with pytest.raises(OryxError, match="num_blocks"):
        require_sane_size(8, 4, 0)
