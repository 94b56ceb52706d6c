"""The decision transformer sees the past of the episode, and nothing else."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from oryx_marl.networks.gpt import GPT, GPTConfig, Trajectory
from oryx_marl.types import ActionSpace, Spec

STEPS, AGENTS = 6, 2
SPEC = Spec("", ("a", "b"), (3, 3), ActionSpace("discrete", 4))
RESET = 4


def network(**settings: Any) -> GPT:
    made = GPT(jax.random.key(0), SPEC, GPTConfig(8, 2, 2, **settings), STEPS)
    # Positions begin at zero; so that they are seen to count, they are something else here.
    places = jax.random.normal(jax.random.key(9), made.positions.shape)
    return jax.tree.map(lambda x: x if x.shape != places.shape else places, made)


def trajectory(**changes: Any) -> Trajectory:
    keys = jax.random.split(jax.random.key(1), 3)
    given = {
        "features": jax.random.normal(keys[0], (STEPS, AGENTS, 3)),
        "agent_mask": jnp.ones((STEPS, AGENTS), bool),
        "reset": jnp.zeros(STEPS, bool).at[jnp.array([0, RESET])].set(True),
        "step_count": jnp.array([0, 1, 2, 3, 0, 1]),
        "returns_to_go": jax.random.normal(keys[1], (STEPS, AGENTS)),
        "actions": jax.random.randint(keys[2], (STEPS, AGENTS), 0, 4),
    }
    return Trajectory(**{**given, **changes})


@eqx.filter_jit
def run(net: GPT, given: Trajectory) -> jax.Array:
    return net(given)


def changed(net: GPT, **changes: Any) -> np.ndarray:
    """[T, N] bool: outputs that a change of the trajectory moves."""
    return np.abs(run(net, trajectory()) - run(net, trajectory(**changes))).max(axis=-1) > 1e-6


def test_the_future_and_other_episodes_are_not_seen() -> None:
    features = trajectory().features.at[2, 0].add(1)
    found = changed(network(), features=features)
    assert found.any(axis=1).tolist() == [False, False, True, True, False, False]


def test_an_action_is_seen_by_its_agent_from_the_next_step_on() -> None:
    actions = trajectory().actions.at[1, 0].add(1) % 4
    found = changed(network(), actions=actions)
    assert found[:, 0].tolist() == [False, False, True, True, False, False]
    assert not found[:, 1].any()


def test_observations_alone() -> None:
    net = network(tokens="observation", centralised=False)
    assert not changed(net, actions=trajectory().actions + 1 % 4).any()
    assert not changed(net, returns_to_go=trajectory().returns_to_go + 1).any()
    found = changed(net, features=trajectory().features.at[0, 1].add(1))
    assert found[:, 0].tolist() == [False] * STEPS
    assert found[:, 1].tolist() == [True] * RESET + [False] * 2


def test_what_is_asked_for_counts() -> None:
    assert changed(network(), returns_to_go=trajectory().returns_to_go + 1).all()


def test_steps_without_the_agent_are_not_seen() -> None:
    absent = trajectory().agent_mask.at[1, 0].set(False)
    net = network(centralised=False)
    features = trajectory().features.at[1, 0].add(1)
    before = run(net, trajectory(agent_mask=absent))
    after = run(net, trajectory(agent_mask=absent, features=features))
    np.testing.assert_allclose(before[2:], after[2:], atol=1e-6)
