"""The transformer over agents: who sees whom, and acting as in training."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oryx_marl.networks.transformer import Attention, Transformer, TransformerConfig
from oryx_marl.types import ActionSpace, Observation, Spec

AGENTS, STEPS = 4, 3
SPEC = Spec("", tuple("abcd"), (5,) * AGENTS, ActionSpace("discrete", 3))
NETWORK = Transformer(jax.random.key(0), SPEC, TransformerConfig(8, 2, 2))
run = eqx.filter_jit(NETWORK)
IDS = jnp.arange(AGENTS)
ACTIONS = jax.random.randint(jax.random.key(2), (1, STEPS, AGENTS), 0, 3)


def observation(**changes: Any) -> Observation:
    shape = (1, STEPS, AGENTS)
    given = {
        "features": jax.random.normal(jax.random.key(1), (*shape, 5)),
        "action_mask": jnp.ones((*shape, 3), bool),
        "agent_mask": jnp.ones(shape, bool),
        "reset": jnp.zeros(shape[:2], bool),
        "step_count": jnp.zeros(shape[:2], jnp.int32),
    }
    return Observation(**{**given, **changes})


def test_attention_by_hand() -> None:
    layer = Attention(jax.random.key(0), 4, 1)
    x = jax.random.normal(jax.random.key(1), (2, 4))
    q, k, v = layer.query(x), layer.key(x), layer.value(x)
    share = jax.nn.sigmoid((q[1] @ k[1] - q[1] @ k[0]) / 2)  # of two scores, over sqrt(4)
    expected = [layer.out(v[0]), layer.out((1 - share) * v[0] + share * v[1])]
    seen = jnp.array([[True, False], [True, True]])
    np.testing.assert_allclose(layer(x, x, seen), expected, rtol=1e-4, atol=1e-6)


def test_a_choice_reaches_later_agents_alone() -> None:
    other = ACTIONS.at[:, :, 1].set((ACTIONS[:, :, 1] + 1) % 3)
    (encoded, found), (same, moved) = (
        run(observation(), actions, IDS) for actions in (ACTIONS, other)
    )
    np.testing.assert_array_equal(encoded, same)
    changed = np.abs(found - moved).max(axis=(0, 1, 3)) > 1e-6
    assert changed.tolist() == [False, False, True, True]


def test_steps_stand_alone_and_absent_agents_are_not_seen() -> None:
    seen = observation(agent_mask=jnp.ones((1, STEPS, AGENTS), bool).at[:, :, 2].set(False))
    features = seen.features.at[:, :, 2].add(1).at[:, 0].add(1)
    before = run(seen, ACTIONS, IDS)[1]
    after = run(seen._replace(features=features), ACTIONS, IDS)[1]
    here = jnp.array([0, 1, 3])
    np.testing.assert_allclose(before[:, 1:, here], after[:, 1:, here], atol=1e-6)
    assert np.abs(before[:, 0] - after[:, 0]).max() > 1e-4


@pytest.mark.parametrize("absent", [None, 1])
def test_acting_equals_training(absent: int | None) -> None:
    """Each agent is told the choices before it: fed back as logged actions they give the same."""
    mask = jnp.ones((1, STEPS, AGENTS), bool)
    seen = observation(agent_mask=mask if absent is None else mask.at[:, :, absent].set(False))
    one = jax.tree.map(lambda x: x[0, 0], seen)

    def choose(features: Any, mask: Any, noise: Any) -> Any:
        return jnp.argmax(features[:3]).astype(jnp.int32), features

    acted = NETWORK.act((), one, choose, jnp.zeros((AGENTS, 3)))
    logged = jnp.broadcast_to(acted.actions, (1, STEPS, AGENTS))
    expected = run(seen, logged, IDS)[1][0, 0]
    here = one.agent_mask
    np.testing.assert_allclose(acted.info[here], expected[here], rtol=1e-4, atol=1e-5)
