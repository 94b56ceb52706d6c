"""Connector: scenarios by name, a board by hand, ends, pictures."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oryx_marl.envs import base, connector
from oryx_marl.envs.connector import Connector, State
from oryx_marl.errors import OryxError

KEY = jax.random.key(0)
STAY, UP, RIGHT, DOWN, LEFT = range(5)
BOARD = State(
    grid=jnp.array(
        [
            [2, 0, 5, 0, 0],
            [0, 0, 0, 0, 0],
            [3, 0, 6, 0, 0],
            [0, 0, 0, 0, 0],
            [0, 0, 0, 9, 8],
        ],
        jnp.int32,
    ),
    positions=jnp.array([[0, 0], [0, 2], [4, 4]], jnp.int32),
    targets=jnp.array([[2, 0], [2, 2], [4, 3]], jnp.int32),
    action_mask=jnp.array([[1, 0, 1, 1, 0], [1, 0, 1, 1, 1], [1, 1, 0, 0, 1]], bool),
    step_count=jnp.int32(4),
)
"""Agents 0 and 1 are two cells apart; agent 2 stands beside its target."""


@pytest.fixture(scope="module")
def env():
    return Connector()


@pytest.fixture(scope="module")
def step(env):
    return jax.jit(env.step)


@pytest.mark.parametrize(
    ("name", "size", "agents", "limit"),
    [
        ("con-5x5x3a", 5, 3, 25),
        ("con-7x7x5a", 7, 5, 49),
        ("con-10x10x10a", 10, 10, 100),
        ("con-15x15x23a", 15, 23, 225),
        ("con-18x18x30a", 18, 30, 324),
        ("con-22x22x40a", 22, 40, 484),
        ("con-25x25x50a", 25, 50, 625),
        ("con-35x35x100a", 35, 100, 1225),
    ],
)
def test_scenarios(name, size, agents, limit):
    env = base.make_named(name)
    assert env.name == name
    assert env.spec.num_agents == agents
    assert env.spec.episode_limit == limit
    assert env.spec.observation_size == 54
    assert env.spec.state_size == 54 * agents
    assert env.spec.action.size == 5
    assert not env.spec.shared_reward
    assert env.grid_size == size
    assert (name in connector.SCENARIOS) == (agents < 100)


def test_shapes_of_the_largest():
    state, first = jax.eval_shape(Connector(35, 100).reset, KEY)
    assert state.grid.shape == (35, 35)
    assert first.observation.features.shape == (100, 54)
    assert first.state.shape == (5400,)


def test_the_clean_variant_has_a_name():
    env = base.make_named("con-7x7x5a-clean")
    assert env.observation_mode == "clean"
    assert env.name == "con-7x7x5a-clean"
    assert env != base.make_named("con-7x7x5a")
    assert env == base.make(env.spec)
    assert hash(env) == hash(base.make(env.spec))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("con-5x6x3a", "boards are square"),
        ("con-5x5x0a", "at least 1"),
        ("con-5x5x7a", "at least 4 cells each"),
        ("con-5x5x3a-dirty", "published, clean"),
    ],
)
def test_impossible_names(name, words):
    with pytest.raises(OryxError, match=words):
        base.make_named(name)


def test_unknown_settings_are_refused():
    with pytest.raises(OryxError, match="no setting time_limit; it has: grid_size"):
        connector.make(time_limit=5)


def test_a_step_by_hand(step):
    """Agents 0 and 1 want the same cell, which 1 gets; agent 2 connects."""
    state, answer = step(BOARD, jnp.array([RIGHT, LEFT, LEFT]), KEY)
    assert state.positions.tolist() == [[0, 0], [0, 1], [4, 3]]
    assert state.grid[0].tolist() == [2, 5, 4, 0, 0]
    assert state.grid[4].tolist() == [0, 0, 0, 8, 7]
    np.testing.assert_allclose(answer.rewards, [-0.03, -0.03, 0.97], atol=1e-6)
    assert answer.observation.action_mask.astype(int).tolist() == [
        [1, 0, 0, 1, 0],
        [1, 0, 0, 1, 0],
        [1, 0, 0, 0, 0],
    ]
    assert not (answer.terminal | answer.truncated).any()
    features = answer.observation.features
    np.testing.assert_allclose(features[0, :4], np.array([0, 0, 2, 0]) / 25)
    np.testing.assert_allclose(features[2, :4], np.array([4, 3, 0, 0]) / 25)  # it is connected
    lines = features[0, 4:29].reshape(5, 5)
    assert lines.tolist() == [[1] * 5, [1] * 5, [1, 1, 1, 1, -1], [1, 1, 0, 0, 0], [1, 1, 0, 0, 0]]
    targets = features[0, 29:].reshape(5, 5)
    assert targets.tolist() == [
        [1] * 5,
        [1] * 5,
        [1, 1, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [1, 1, 1, 0, -1],
    ]
    _, later = step(state, jnp.array([STAY, STAY, STAY]), KEY)
    np.testing.assert_allclose(later.rewards, [-0.03, -0.03, 0], atol=1e-6)


def test_an_illegal_move_is_none(step):
    state, answer = step(BOARD, jnp.array([UP, STAY, DOWN]), KEY)
    np.testing.assert_array_equal(state.grid, BOARD.grid)
    np.testing.assert_allclose(answer.rewards, [-0.03] * 3, atol=1e-6)


def test_time_is_a_truncation(step):
    stay = jnp.zeros(3, jnp.int32)
    _, early = step(BOARD._replace(step_count=jnp.int32(23)), stay, KEY)
    assert not (early.terminal | early.truncated).any()
    _, late = step(BOARD._replace(step_count=jnp.int32(24)), stay, KEY)
    assert late.truncated.all()
    assert not late.terminal.any()
    assert int(late.observation.step_count) == 25


def test_all_connected_is_terminal_also_in_the_last_step(step):
    beside = BOARD._replace(
        grid=jnp.zeros((5, 5), jnp.int32)
        .at[1, 0].set(2).at[2, 0].set(3)
        .at[1, 2].set(5).at[2, 2].set(6)
        .at[4, 4].set(8).at[4, 3].set(9),
        positions=jnp.array([[1, 0], [1, 2], [4, 4]], jnp.int32),
        action_mask=jnp.ones((3, 5), bool),
    )  # fmt: skip
    for count in (4, 24):
        state = beside._replace(step_count=jnp.int32(count))
        _, answer = step(state, jnp.array([DOWN, DOWN, LEFT]), KEY)
        assert answer.terminal.all()
        assert not answer.truncated.any()
        np.testing.assert_allclose(answer.rewards, [0.97] * 3, atol=1e-6)


def test_pictures(env, step):
    assert env.render_text(BOARD).splitlines() == [
        "step 4: 0 of 3 connected",
        "@0 .  @1 .  .",
        ".  .  .  .  .",
        "x0 .  x1 .  .",
        ".  .  .  .  .",
        ".  .  .  x2 @2",
    ]
    state, _ = step(BOARD, jnp.array([STAY, STAY, LEFT]), KEY)
    assert env.render_text(state).startswith("step 5: 1 of 3 connected")
    picture = env.render_rgb(state)
    assert picture.shape == (160, 160, 3)
    centres = picture[16::32, 16::32]
    heads = [tuple(centres[place]) for place in [(0, 0), (0, 2), (4, 3)]]
    assert len({*heads, tuple(centres[1, 1])}) == 4  # a colour each, and the floor
    assert tuple(centres[4, 4]) not in {*heads, tuple(centres[1, 1])}  # a pale trail
    assert tuple(centres[2, 0]) == tuple(centres[1, 1])  # a frame is hollow
