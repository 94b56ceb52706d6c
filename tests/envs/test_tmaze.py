"""The rules of the T-Maze, one by one."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tmaze_states import (
    DOWN,
    GREEN,
    KEY,
    LEFT,
    ORANGE,
    PAPER,
    PUBLISHED,
    RESET,
    RIGHT,
    STAY,
    UP,
    act,
    at,
    cells_after,
    nothing_happened,
)

from oryx_marl.envs import base, tmaze
from oryx_marl.envs.tmaze import TMaze
from oryx_marl.errors import OryxError
from oryx_marl.types import Spec

# --- the maze ---


def test_the_maze_has_sixteen_cells():
    stem = {(row, column) for row in range(6) for column in (0, 1)}
    junction = {(5, column) for column in range(-2, 4)}
    assert {tuple(cell) for cell in PAPER.cells.tolist()} == stem | junction
    assert len(PAPER.cells) == 16
    assert PAPER.goals.tolist() == [[5, -2], [5, 3]]
    assert PAPER.starts.tolist() == [[0, 0], [0, 1]]


def test_other_sizes_keep_the_shape():
    env = TMaze(length=2, width=3, time_limit=30)
    cells = {tuple(cell) for cell in env.cells.tolist()}
    assert cells == {(r, c) for r in range(3) for c in range(3)} | {(2, c) for c in range(-2, 5)}
    assert env.goals.tolist() == [[2, -2], [2, 4]]
    assert env.starts.tolist() == [[0, 0], [0, 2]]


def test_spec():
    assert PAPER.spec == Spec.from_dict(json.loads(json.dumps(PAPER.spec.to_dict())))
    assert PAPER.spec.environment == "tmaze"
    assert PAPER.spec.agents == ("agent_0", "agent_1")
    assert PAPER.spec.observation_sizes == (11, 11)
    assert (PAPER.spec.action.kind, PAPER.spec.action.size) == ("discrete", 7)
    assert PAPER.spec.episode_limit == 20
    assert PAPER.spec.shared_reward
    config = {"length": 3, "width": 4, "time_limit": 25, "observation_mode": "published"}
    again = base.make(tmaze.make(**config).spec)
    assert again.spec.environment_config == config


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"length": 0}, "length must be at least 1"),
        ({"width": 1}, "width must be at least 2"),
        ({"time_limit": 9}, "time_limit must be at least 10"),
        ({"length": 12, "time_limit": 16}, "time_limit must be at least 17"),
        ({"observation_mode": "both"}, "must be one of paper, published"),
        ({"size": 5}, "no setting size"),
    ],
)
def test_bad_settings_are_explained(config, says):
    with pytest.raises(OryxError, match=says):
        tmaze.make(**config)


# --- the reset and the choice ---


def test_reset_shows_nothing_and_allows_only_the_choice():
    state, step = RESET(KEY)
    assert not step.observation.features.any()
    assert step.observation.features.shape == (2, 11)
    assert step.observation.features.dtype == jnp.int8
    assert step.observation.action_mask.tolist() == [[False] * 5 + [True] * 2] * 2
    assert bool(step.observation.reset)
    assert int(step.observation.step_count) == 0
    assert nothing_happened(step)
    assert state.colours.tolist() == [-1, -1]


def test_both_starts_and_both_sides_occur_half_of_the_time():
    states, _ = jax.jit(jax.vmap(PAPER.reset))(jax.random.split(KEY, 4_000))
    first_left = np.asarray(states.positions)[:, 0, 1] == 0
    green_left = np.asarray(states.green_left)
    for one in (False, True):
        for other in (False, True):
            share = np.mean((first_left == one) & (green_left == other))
            assert abs(share - 0.25) < 0.03
    assert (np.asarray(states.positions)[:, :, 0] == 0).all()
    assert (np.asarray(states.positions)[:, :, 1].sum(axis=1) == 1).all()


@pytest.mark.parametrize("first", range(7))
@pytest.mark.parametrize("second", [UP, GREEN, ORANGE])
def test_choice(first, second):
    """Only action 6 is colour 1, everything else, illegal actions too, is colour 0."""
    before = at((0, 1), (0, 0), colours=(-1, -1), step_count=0)
    state, step = act(before, first, second)
    assert state.colours.tolist() == [int(first == 6), int(second == 6)]
    assert state.positions.tolist() == before.positions.tolist()
    assert nothing_happened(step)
    assert not bool(step.observation.reset)


def test_a_colour_is_never_changed():
    state, _ = act(at((2, 0), (4, 1), colours=(0, 1)), ORANGE, GREEN)
    assert state.colours.tolist() == [0, 1]
    assert state.positions.tolist() == [[2, 0], [4, 1]]


# --- moves ---


@pytest.mark.parametrize(
    ("action", "cell"),
    [
        (STAY, (5, 0)),
        (UP, (5, 0)),  # a wall
        (RIGHT, (5, 1)),
        (DOWN, (4, 0)),
        (LEFT, (5, -1)),
        (GREEN, (5, 0)),
        (ORANGE, (5, 0)),
    ],
)
def test_moves(action, cell):
    assert cells_after(at((5, 0), (0, 0)), action, STAY) == [cell, (0, 0)]
    assert cells_after(at((0, 0), (5, 0)), STAY, action) == [(0, 0), cell]


def test_walls_stop():
    assert cells_after(at((0, 0), (0, 1)), DOWN, RIGHT) == [(0, 0), (0, 1)]
    assert cells_after(at((2, 0), (3, 1)), LEFT, RIGHT) == [(2, 0), (3, 1)]
    assert cells_after(at((5, -2), (5, 3)), LEFT, RIGHT) == [(5, -2), (5, 3)]
    assert cells_after(at((5, -1), (5, 2)), DOWN, DOWN) == [(5, -1), (5, 2)]


def test_both_move_where_nothing_is_in_the_way():
    assert cells_after(at((0, 0), (0, 1)), UP, UP) == [(1, 0), (1, 1)]
    assert cells_after(at((3, 0), (3, 1)), DOWN, UP) == [(2, 0), (4, 1)]


def test_swapping_is_blocked():
    assert cells_after(at((2, 0), (2, 1)), RIGHT, LEFT) == [(2, 0), (2, 1)]
    assert cells_after(at((2, 0), (3, 0)), UP, DOWN) == [(2, 0), (3, 0)]


def test_following_is_blocked():
    """The cell is occupied before the step, so only the one in front moves."""
    assert cells_after(at((2, 0), (3, 0)), UP, UP) == [(2, 0), (4, 0)]
    assert cells_after(at((3, 0), (2, 0)), UP, UP) == [(4, 0), (2, 0)]


def test_the_same_free_cell_goes_to_nobody():
    assert cells_after(at((2, 0), (4, 0)), UP, DOWN) == [(2, 0), (4, 0)]
    assert cells_after(at((2, 0), (3, 1)), RIGHT, DOWN) == [(2, 0), (3, 1)]


@pytest.mark.parametrize("standing", [STAY, GREEN, ORANGE])
def test_a_standing_agent_is_not_entered(standing):
    assert cells_after(at((2, 0), (2, 1)), RIGHT, standing) == [(2, 0), (2, 1)]
    assert cells_after(at((2, 1), (2, 0)), standing, RIGHT) == [(2, 1), (2, 0)]


@pytest.mark.parametrize(
    ("first", "second", "may"),
    [
        ((0, 0), (0, 1), ["up", "up"]),
        ((2, 0), (2, 1), ["up down", "up down"]),
        ((2, 0), (3, 0), ["right down", "up right"]),
        ((5, 0), (3, 1), ["right down left", "up down left"]),
        ((5, -2), (5, 3), ["right", "left"]),
        ((5, -2), (5, -1), ["", "right"]),
    ],
)
def test_masks_of_the_second_phase(first, second, may):
    """Staying always, a move if its cell is inside and empty, a choice never."""
    _, step = act(at(first, second), STAY, STAY)
    names = ["up", "right", "down", "left"]
    expected = [[True, *(name in words.split() for name in names), False, False] for words in may]
    assert step.observation.action_mask.tolist() == expected


# --- ends ---


@pytest.mark.parametrize("green_left", [True, False])
@pytest.mark.parametrize("colours", [(0, 1), (1, 0)])
def test_reward_when_both_reach_their_goals(green_left, colours):
    first_left = (colours[0] == 0) == green_left
    sides = [(5, -1), (5, 2)] if first_left else [(5, 2), (5, -1)]
    moves = [LEFT, RIGHT] if first_left else [RIGHT, LEFT]
    before = at(*sides, green_left=green_left, colours=colours)
    _, step = act(before, *moves)
    assert step.rewards.tolist() == [1, 1]
    assert step.terminal.tolist() == [True, True]
    assert step.truncated.tolist() == [False, False]
    wrong = at(*sides, green_left=not green_left, colours=colours)
    _, step = act(wrong, *moves)
    assert step.rewards.tolist() == [0, 0]
    assert step.terminal.tolist() == [False, False]


def test_one_on_its_goal_is_not_enough_and_may_wait_for_the_other():
    state, step = act(at((5, -1), (5, 1)), LEFT, RIGHT)
    assert nothing_happened(step)
    _, step = act(state, STAY, RIGHT)
    assert step.rewards.tolist() == [1, 1]
    assert step.terminal.all()


@pytest.mark.parametrize("env", [PAPER, PUBLISHED])
def test_running_out_of_time_is_an_end_of_the_task(env):
    """One choice and 19 moves, then terminal, not truncated."""
    state, _ = RESET(KEY)
    state, _ = act(state, GREEN, ORANGE, env=env)
    for move in range(1, 20):
        state, step = act(state, STAY, STAY, env=env)
        assert step.terminal.tolist() == [move == 19] * 2
        assert not step.truncated.any()
        assert not step.rewards.any()
    assert int(step.observation.step_count) == 20


def test_the_last_step_can_still_be_rewarded():
    _, step = act(at((5, -1), (5, 2), step_count=19), LEFT, RIGHT)
    assert step.rewards.tolist() == [1, 1]
    assert step.terminal.all()


def test_a_random_policy_nearly_never_succeeds():
    episodes = 10_000

    def play(key):
        reset_key, *keys = jax.random.split(key, 21)

        def advance(carry, key):
            state, action_mask = carry
            actions = jax.vmap(jax.random.categorical)(jax.random.split(key), jnp.log(action_mask))
            state, step = PAPER.step(state, actions, key)
            return (state, step.observation.action_mask), step.rewards[0]

        state, step = PAPER.reset(reset_key)
        return jax.lax.scan(advance, (state, step.observation.action_mask), jnp.stack(keys))[1]

    rewards = jax.jit(jax.vmap(play))(jax.random.split(KEY, episodes))
    assert float(rewards.any(axis=1).mean()) < 0.001
