"""QMIX's mixer: monotone in every agent's Q, and a function of the state."""

import jax
import jax.numpy as jnp
import numpy as np

from oryx_marl.networks.mixer import QMixer

MIXER = QMixer(jax.random.key(0), num_agents=3, state_size=5, width=4, hyper_width=6)
STATE = jax.random.normal(jax.random.key(1), (20, 5))
VALUES = jax.random.normal(jax.random.key(2), (20, 3))


def test_by_its_formula() -> None:
    first, second = MIXER._weights(STATE)
    hidden = jax.nn.elu(jnp.einsum("tn,tnw->tw", VALUES, first) + MIXER.first_bias(STATE))
    offset = MIXER.last[1](jax.nn.relu(MIXER.last[0](STATE)))[:, 0]
    np.testing.assert_allclose(
        MIXER(VALUES, STATE), (hidden * second).sum(axis=-1) + offset, rtol=1e-5
    )


def test_the_team_never_loses_by_an_agents_gain() -> None:
    slopes = jax.vmap(jax.grad(MIXER), in_axes=(0, 0))(VALUES, STATE)
    assert (slopes >= 0).all()
    assert (slopes.max(axis=0) > 0).all()


def test_weights_depend_on_the_state() -> None:
    shares = MIXER.shares(STATE)
    np.testing.assert_allclose(shares.sum(axis=-1), 1, rtol=1e-5)
    assert (shares >= 0).all()
    assert np.ptp(shares, axis=0).max() > 0.05
