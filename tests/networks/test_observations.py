"""The encoder of observations equals the plain form, in which the one-hot id is built."""

import jax
import jax.numpy as jnp
import numpy as np

from oryx_marl.networks.observations import ObservationEncoder
from oryx_marl.types import ActionSpace, Spec

SPEC = Spec("", ("a", "b", "c"), (4, 4, 4), ActionSpace("discrete", 2))
FEATURES = jax.random.normal(jax.random.key(1), (2, 5, 3, 4))


def test_one_hot_ids() -> None:
    encoder = ObservationEncoder(jax.random.key(0), SPEC, 8, "onehot")
    ids = jnp.array([2, 0, 1])
    told = jnp.broadcast_to(jax.nn.one_hot(ids, 3), (2, 5, 3, 3))
    inputs = jnp.concatenate([told, FEATURES], axis=-1)
    normed = inputs / jnp.sqrt(jnp.mean(inputs**2, axis=-1, keepdims=True) + 1e-6)
    weight = jnp.concatenate([encoder.id_rows, encoder.dense.weight])
    np.testing.assert_allclose(
        encoder(FEATURES, ids), jax.nn.gelu(normed @ weight), rtol=1e-4, atol=1e-6
    )


def test_who_it_is_counts_only_where_ids_are_given() -> None:
    same = jnp.broadcast_to(FEATURES[:, :, :1], FEATURES.shape)
    for kind, is_told in (("onehot", True), ("embedding", True), ("none", False)):
        found = ObservationEncoder(jax.random.key(0), SPEC, 8, kind)(same, jnp.arange(3))
        assert (np.ptp(found, axis=2).max() > 1e-4) == is_told, kind


def test_whole_numbers_are_features_too() -> None:
    encoder = ObservationEncoder(jax.random.key(0), SPEC, 8, "none")
    whole = jnp.ones((2, 5, 3, 4), jnp.int8)
    np.testing.assert_array_equal(
        encoder(whole, jnp.arange(3)), encoder(whole.astype(jnp.float32), jnp.arange(3))
    )
