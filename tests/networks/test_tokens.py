"""Codes of actions: what agents are told of each other, for ids and for vectors alike."""

import jax.numpy as jnp
import numpy as np
import pytest

from oryx_marl.networks.tokens import action_tokens, latest_codes, previous_codes
from oryx_marl.types import ActionSpace

DISCRETE = action_tokens(ActionSpace("discrete", 3), remembers=True)
BOX = action_tokens(ActionSpace("box", 2, (-1.0, 0.0), (1.0, 4.0)), remembers=True)
ACTIONS = {
    "discrete": (DISCRETE, jnp.array([2, 0, 1])),
    "box": (BOX, jnp.array([[0.5, 4.0], [-1.0, 2.0], [1.0, 0.0]])),
}


@pytest.fixture(params=ACTIONS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


def test_inputs_by_hand() -> None:
    codes = DISCRETE.encode(jnp.array([2]))
    assert DISCRETE.inputs(codes, float)[0].tolist() == [0, 0, 0, 1, 0, 0, 0]
    assert DISCRETE.inputs(DISCRETE.as_last(codes), float)[0].tolist() == [0, 0, 0, 0, 0, 0, 1]
    codes = BOX.encode(jnp.array([[0.5, 4.0]]))
    assert BOX.inputs(codes, float)[0].tolist() == [0, 1, 0, 0.5, 1]
    assert BOX.inputs(BOX.as_last(codes), float)[0].tolist() == [0, 0, 1, 0.5, 1]
    assert BOX.inputs(BOX.nothing((1,)), float)[0].tolist() == [1, 0, 0, 0, 0]


def test_nothing_is_no_action_and_stays_so(kind: str) -> None:
    tokens, actions = ACTIONS[kind]
    assert tokens.exists(tokens.encode(actions)).all()
    nothing = tokens.nothing((3,))
    assert not tokens.exists(tokens.as_last(nothing)).any()
    assert tokens.inputs(nothing, float).shape == (3, tokens.num_inputs)


def test_agents_are_told_of_the_last_one_present(kind: str) -> None:
    tokens, actions = ACTIONS[kind]
    agent_mask = jnp.array([True, False, True])
    codes, nothing = tokens.encode(actions), tokens.nothing(())
    latest = latest_codes(tokens, actions, agent_mask)
    previous = previous_codes(tokens, actions, agent_mask)
    for found, expected in (
        (latest, [codes[0], codes[0], codes[2]]),
        (previous, [nothing, codes[0], codes[0]]),
    ):
        np.testing.assert_array_equal(found, jnp.stack(expected))
    assert not tokens.exists(latest_codes(tokens, actions, jnp.zeros(3, bool))).any()
