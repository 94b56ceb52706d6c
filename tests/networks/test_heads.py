"""Heads give the distribution that belongs to an action space."""

import jax
import jax.numpy as jnp
import numpy as np

from oryx_marl.networks.heads import LOG_STD_RANGE, PolicyHead, family
from oryx_marl.types import ActionSpace

KEY = jax.random.key(0)
IDS, BOX = ActionSpace("discrete", 3), ActionSpace("box", 2, (-1.0, 0.0), (1.0, 4.0))


def test_ids_under_a_mask() -> None:
    mask = jnp.array([True, False, True])
    found = family(IDS).distribution(jnp.array([0.0, 5.0, jnp.log(3.0)]), mask)
    np.testing.assert_allclose(jnp.exp(found.log_prob(jnp.array(2))), 0.75, rtol=1e-5)
    assert found.mode() == 2
    noise = family(IDS).draw_noise(KEY, (4_000,))
    drawn = jax.vmap(found.sample)(noise)
    assert set(np.unique(drawn)) == {0, 2}
    assert abs(np.mean(drawn == 2) - 0.75) < 0.03


def test_vectors_stay_inside_the_box() -> None:
    kind = family(BOX)
    assert kind.num_outputs == 4
    found = kind.distribution(jnp.array([0.0, 0.0, 100.0, -100.0]), jnp.ones(2, bool))
    np.testing.assert_allclose(found.log_std, LOG_STD_RANGE[::-1])
    np.testing.assert_allclose(found.mode(), [0.0, 2.0])
    drawn = jax.vmap(found.sample)(kind.draw_noise(KEY, (100,)))
    assert (drawn >= jnp.array(BOX.low)).all()
    assert (drawn <= jnp.array(BOX.high)).all()


def test_the_head_of_a_policy() -> None:
    for space in (IDS, BOX):
        head = PolicyHead(KEY, 8, space)
        found = head.distribution(head(jnp.ones((5, 8))), jnp.ones((5, space.size), bool))
        assert found.entropy().shape == (5,)
