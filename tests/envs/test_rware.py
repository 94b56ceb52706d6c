"""RWARE by hand: who moves, what is seen, what is requested and what is rewarded."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oryx_marl.envs import _rware_rules as rules
from oryx_marl.envs import base, rware
from oryx_marl.envs._rware_rules import NOTHING, State
from oryx_marl.envs.rware import Rware
from oryx_marl.errors import OryxError

KEY = jax.random.key(5)
NOOP, FORWARD, LEFT, RIGHT, TOGGLE = range(5)
UP, DOWN, WEST, EAST = range(4)
GOAL = (4, 10)
"""The left one of the tiny warehouse, column and row."""
HOME = (1, 1)
"""Of shelf 0."""


def cell(env, x, y):
    return (y + 1) * env.floor.stride + x + 1


@partial(jax.jit, static_argnums=0)
def step(env, state, actions, draws):
    return env.replay(state, jnp.asarray(actions), jnp.asarray(draws))


@partial(jax.jit, static_argnums=0)
def look(env, state):
    """What is answered in a state."""
    return env._answer(state, rules.find_features(env.floor, state), jnp.zeros(len(state.cells)))


def stand(agents, carrying=None, requests=None, **config):
    """A tiny warehouse with agents at (column, row, direction), and shelves by who carries them."""
    carrying = carrying or {}
    env = Rware(num_agents=len(agents), num_requests=len(requests or [31]), **config)
    cells = jnp.array([cell(env, x, y) for x, y, _ in agents], jnp.int32)
    carried = [carrying.get(agent, NOTHING) for agent in range(len(agents))]
    shelves = jnp.asarray(env.floor.homes)
    for agent, shelf in carrying.items():
        shelves = shelves.at[shelf].set(cells[agent])
    state = State(
        cells=cells,
        directions=jnp.array([direction for *_, direction in agents], jnp.int32),
        carried=jnp.array(carried, jnp.int32),
        has_delivered=jnp.zeros(len(agents), bool),
        shelves=shelves,
        requests=jnp.array(requests or [31], jnp.int32),
        step_count=jnp.int32(0),
        deliveries=jnp.float32(0),
        agent0_return=jnp.float32(0),
    )
    return env, state


def play(env, state, *joint, draws=(0, 0)):
    """The states and Steps after each of these joint actions."""
    found = []
    for actions in joint:
        state, answer = step(env, state, np.array(actions, np.int32), np.array(draws, np.int32))
        found.append((state, answer))
    return found


def places(env, state):
    x, y = rules.place(env.floor, np.asarray(state.cells))
    return list(zip(x.tolist(), y.tolist(), strict=True))


RING = [(4, 3, EAST), (5, 3, DOWN), (5, 4, WEST), (4, 4, UP)]
MOVES = {
    "a ring of four turns": (RING, {}, [1, 1, 1, 1]),
    "a ring turns, a follower stays": ([*RING, (3, 3, EAST)], {}, [1, 1, 1, 1, 0]),
    "two do not change places": ([(4, 3, EAST), (5, 3, WEST)], {}, [0, 0]),
    "nor does who follows them move": (
        [(4, 3, EAST), (5, 3, WEST), (3, 3, EAST)],
        {},
        [0, 0, 0],
    ),
    "a chain into an empty cell": ([(3, 3, EAST), (4, 3, EAST), (5, 3, EAST)], {}, [1, 1, 1]),
    "the longer chain gets the cell": (
        [(4, 3, EAST), (6, 3, WEST), (7, 3, WEST)],
        {},
        [0, 1, 1],
    ),
    "of equals the lowest number": ([(5, 2, DOWN), (4, 3, EAST), (6, 3, WEST)], {}, [1, 0, 0]),
    "a shelf is not carried into one that stands": ([(3, 3, WEST)], {0: 20}, [0]),
    "without a shelf one goes under it": ([(3, 3, WEST)], {}, [1]),
    "a shelf follows a shelf that leaves": ([(4, 3, EAST), (5, 3, EAST)], {0: 2, 1: 3}, [1, 1]),
    "a shelf does not follow an agent from under another": (
        [(3, 3, WEST), (2, 3, WEST)],
        {0: 20},
        [0, 1],
    ),
    "nobody leaves the floor": ([(0, 0, UP), (9, 10, DOWN)], {}, [0, 0]),
}


@pytest.mark.parametrize("case", MOVES)
def test_who_moves(case):
    agents, carrying, expected = MOVES[case]
    bystanders = [(9, row, UP) for row in range(5 - len(agents))]
    env, state = stand([*agents, *bystanders], carrying)
    ((after, _),) = play(env, state, [FORWARD] * len(agents) + [NOOP] * len(bystanders))
    moved = np.asarray(after.cells) != np.asarray(state.cells)
    np.testing.assert_array_equal(moved[: len(agents)], expected)
    assert not moved[len(agents) :].any()
    for agent, shelf in carrying.items():  # which goes with its agent
        assert after.shelves[shelf] == after.cells[agent]


def test_nobody_follows_one_that_turns():
    env, state = stand([(3, 3, EAST), (4, 3, EAST), (5, 3, EAST)])
    ((after, _),) = play(env, state, [FORWARD, FORWARD, LEFT])
    np.testing.assert_array_equal(after.cells, state.cells)
    np.testing.assert_array_equal(after.directions, [EAST, EAST, UP])


def test_long_chains_are_followed_to_their_end():
    """A hall of one hundred: ten rows of agents that all go the same way, one row blocked."""
    env = base.make_named("rware-4x9x8-100ag")
    x, y = np.meshgrid(np.arange(10), np.arange(10))
    cells = jnp.asarray(cell(env, x, y).ravel(), jnp.int32)
    first, _ = jax.jit(env.reset)(KEY)
    state = first._replace(cells=cells, directions=jnp.full(100, EAST, jnp.int32))
    actions = np.full(100, FORWARD, np.int32)
    actions[59] = NOOP  # the first of row 5
    after, _ = step(env, state, actions, np.zeros(2, np.int32))
    moved = np.asarray(after.cells - cells).reshape(10, 10)
    np.testing.assert_array_equal(moved, np.where(np.arange(10)[:, None] == 5, 0, 1) * np.ones(10))


def test_turns():
    env, state = stand([(4, 3, UP)])
    for action, expected in ((LEFT, [WEST, DOWN, EAST, UP]), (RIGHT, [EAST, DOWN, WEST, UP])):
        found = play(env, state, *[[action]] * 4)
        assert [int(after.directions[0]) for after, _ in found] == expected


def test_shelves_are_picked_up_and_put_down_off_the_highways():
    env, state = stand([(*HOME, WEST)])
    found = play(env, state, [TOGGLE], [FORWARD], [TOGGLE], [LEFT], [LEFT], [FORWARD], [TOGGLE])
    assert [int(after.carried[0]) for after, _ in found] == [0, 0, 0, 0, 0, 0, NOTHING]
    assert places(env, found[2][0]) == [(0, 1)]  # a highway, where nothing is put down
    assert found[-1][0].shelves[0] == cell(env, *HOME)
    (empty, _), (still, _) = play(*stand([(4, 3, UP)]), [TOGGLE], [TOGGLE])
    assert empty.carried[0] == still.carried[0] == NOTHING


def test_features():
    env, state = stand(
        [(3, 1, DOWN), (2, 2, EAST), (4, 1, WEST)], {0: 20, 2: 9}, requests=[2, 9, 7]
    )
    seen = look(env, state).observation.features
    around = {  # [agent, up, down, left, right, shelf, requested]
        (0, 1): [0, 1, 0, 0, 0, 0, 0],
        (2, 0): [0, 1, 0, 0, 0, 0, 0],
        (1, 0): [0, 1, 0, 0, 0, 1, 0],  # shelf 1, at column 2 and row 1
        (1, 1): [1, 0, 1, 0, 0, 1, 0],  # itself with shelf 20
        (1, 2): [1, 0, 0, 1, 0, 1, 1],  # agent 2 with shelf 9
        (2, 1): [0, 1, 0, 0, 0, 0, 0],
    }
    np.testing.assert_array_equal(seen[0, :8], [3, 1, 1, 0, 1, 0, 0, 1])
    cells = np.asarray(seen[0, 8:]).reshape(3, 3, 7)
    for (row, column), expected in around.items():
        if (row, column) != (2, 0):
            np.testing.assert_array_equal(cells[row, column], expected)
    # Below it on the left is agent 1 over shelf 5.
    np.testing.assert_array_equal(cells[2, 0], [1, 0, 0, 0, 1, 1, 0])
    np.testing.assert_array_equal(seen[1, :8], [2, 2, 0, 0, 0, 0, 1, 0])


def test_beyond_the_floor_is_as_empty_as_a_free_cell():
    env, state = stand([(0, 0, UP)])
    cells = np.asarray(look(env, state).observation.features[0, 8:]).reshape(3, 3, 7)
    for row, column in ((0, 0), (0, 1), (0, 2), (1, 0), (2, 0), (1, 2), (2, 1)):
        np.testing.assert_array_equal(cells[row, column], [0, 1, 0, 0, 0, 0, 0])


def test_global_state_is_that_of_the_published_datasets():
    env, state = stand([(4, 3, WEST), (0, 7, UP)], {0: 3}, requests=[0, 3, 31])
    expected = [4, 3, WEST, 0, 7, UP, *HOME, 4, 3, 8, 8]
    np.testing.assert_array_equal(look(env, state).state, expected)
    assert base.make_named("rware-small-6ag-easy").spec.state_size == 42


def deliver(**config):
    """Agent 1 brings shelf 6, which is requested second, to the left goal."""
    agents = [(3, 5, EAST), (4, 9, DOWN)]
    return stand(agents, {1: 6}, requests=[9, 6, 0], **config)


@pytest.mark.parametrize(("draw", "expected"), [(0, 1), (4, 5), (5, 7), (6, 8), (7, 10), (28, 31)])
def test_a_delivered_shelf_makes_way_for_one_that_was_not_requested(draw, expected):
    ((after, _),) = play(*deliver(), [NOOP, FORWARD], draws=(draw, 3))
    np.testing.assert_array_equal(after.requests, [9, expected, 0])
    assert after.deliveries == 1
    assert after.carried[1] == 6  # it stays on the robot


def test_a_shelf_at_the_right_goal_may_be_requested_by_the_left_one():
    agents = [(4, 9, DOWN), (5, 10, DOWN)]
    env, state = stand(agents, {0: 6, 1: 1}, requests=[6])
    ((after, answer),) = play(env, state, [FORWARD, NOOP], draws=(1, 30))
    np.testing.assert_array_equal(after.requests, [31])
    np.testing.assert_array_equal(answer.rewards, [1, 1])


def test_new_requests_are_drawn_alike():
    env, state = deliver()
    keys = jax.random.split(KEY, 5_800)
    actions = jnp.array([NOOP, FORWARD])
    drawn = jax.jit(jax.vmap(lambda key: env.step(state, actions, key)[0].requests[1]))(keys)
    counts = np.bincount(drawn, minlength=32)
    assert not counts[[0, 6, 9]].any()
    np.testing.assert_allclose(np.delete(counts, [0, 6, 9]), 200, atol=75)


@pytest.mark.parametrize(
    ("reward", "at_delivery", "when_put_back"),
    [
        ("individual", [0, 1], [0, 0]),
        ("global", [1, 1], [0, 0]),
        ("two-stage", [0, 0.5], [0, 0.5]),
    ],
)
def test_rewards(reward, at_delivery, when_put_back):
    env, state = deliver(reward=reward)
    (after, answer), (_, nothing) = play(env, state, [NOOP, FORWARD], [NOOP, NOOP])
    np.testing.assert_array_equal(answer.rewards, at_delivery)
    np.testing.assert_array_equal(nothing.rewards, [0, 0])
    back = after._replace(cells=after.cells.at[1].set(cell(env, 2, 4)))
    (gone, answer), (_, again) = play(env, back, [NOOP, TOGGLE], [NOOP, TOGGLE])
    assert gone.carried[1] == NOTHING
    np.testing.assert_array_equal(answer.rewards, when_put_back)
    np.testing.assert_array_equal(again.rewards, [0, 0])


def test_shaped_rewards_are_those_of_the_published_datasets():
    requests = [0, 20]
    agents = [(*HOME, UP), (2, 2, UP), (5, 5, UP), (4, 9, DOWN)]
    carrying = {2: 20}
    env, state = stand(agents, carrying, requests, reward="shaped")
    ((after, answer),) = play(env, state, [NOOP] * 4)
    expected = [0.004, 0.001, 0.007, 0]  # under one, beside one, with one, nothing
    np.testing.assert_allclose(answer.rewards, expected, atol=1e-7)
    assert answer.metrics["agent0_return"] == pytest.approx(0.004)
    env, _ = stand(agents, carrying, requests, reward="agent0")
    ((_, answer),) = play(env, after, [NOOP] * 4)
    np.testing.assert_allclose(answer.rewards, [0.004] * 4, atol=1e-7)
    assert answer.metrics["agent0_return"] == pytest.approx(0.008)


def test_the_end_is_a_truncation():
    env, state = stand([(4, 3, UP)])
    (_, before), (_, last) = play(env, state._replace(step_count=jnp.int32(498)), [NOOP], [NOOP])
    assert not before.truncated.any()
    assert last.truncated.all()
    assert not last.terminal.any()


def test_masks_forbid_what_has_no_effect():
    agents = [(0, 0, UP), (3, 3, WEST), (2, 4, EAST), (4, 3, UP), (1, 7, EAST)]
    env, state = stand(agents, {1: 20, 2: 6}, action_mask="effective")
    mask = look(env, state).observation.action_mask
    expected = [
        [1, 0, 1, 1, 0],  # at the wall, with nothing to pick up
        [1, 0, 1, 1, 0],  # with a shelf before another one, on a highway
        [1, 1, 1, 1, 1],  # with a shelf at its home
        [1, 1, 1, 1, 0],  # on a free highway
        [1, 1, 1, 1, 1],  # under a shelf, before another one
    ]
    np.testing.assert_array_equal(mask, expected)
    every, _ = stand(agents, {1: 20, 2: 6})
    assert look(every, state).observation.action_mask.all()


def test_masked_actions_change_nothing():
    """In every state of a random episode, for every agent."""
    env = base.make_named("rware-tiny-4ag-masked")

    def advance(state, key):
        actions = jax.random.categorical(key, jnp.log(jnp.array([1.0, 5, 1, 1, 2])), shape=(4,))
        after, _ = env.step(state, actions, key)
        tries = jax.vmap(
            lambda agent: jax.vmap(
                lambda action: env.step(state, jnp.zeros(4, jnp.int32).at[agent].set(action), key)[
                    0
                ]
            )(jnp.arange(5))
        )(jnp.arange(4))
        return after, (tries, rules.find_action_mask(env.floor, state))

    start, _ = jax.jit(env.reset)(KEY)
    _, (tries, mask) = jax.lax.scan(advance, start, jax.random.split(KEY, 100))
    flat = np.concatenate(
        [np.asarray(x).reshape(100, 4, 5, -1) for x in jax.tree.leaves(tries)], axis=-1
    )
    has_effect = (flat != flat[:, :, :1]).any(axis=-1)
    assert not has_effect[~np.asarray(mask)].any()
    assert 0.1 < np.mean(~np.asarray(mask)) < 0.5
    assert has_effect[np.asarray(mask)].mean() > 0.5


def test_starts_are_anywhere():
    env = base.make_named("rware-tiny-6ag-easy")
    states, _ = jax.jit(jax.vmap(env.reset))(jax.random.split(KEY, 2_000))
    assert len(np.unique(states.cells)) == 110
    assert (np.diff(np.sort(states.cells, axis=1)) > 0).all()
    assert (np.diff(np.sort(states.requests, axis=1)) > 0).all()
    np.testing.assert_allclose(np.bincount(states.directions.ravel()) / 12_000, 0.25, atol=0.02)
    np.testing.assert_allclose(np.bincount(states.requests.ravel()) / 24_000, 1 / 32, atol=0.005)


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("rware-tiny-2ag-easy-v2", "rware-tiny-2ag-easy"),
        ("rware-1x3x8-2ag", "rware-tiny-2ag"),
        ("rware-2x3-8h-4ag-8req-global-v2", "rware-small-4ag-easy-global"),
        ("rware-4x9x8-100ag", "rware-4x9x8-100ag"),
        ("rware-large-19ag-hard-twostage", "rware-large-19ag-hard-two-stage"),
        ("rware-tiny-4ag-7req-agent0-masked", "rware-tiny-4ag-7req-agent0-masked"),
        ("rware-tiny-5h-2ag-indiv", "rware-1x3x5-2ag"),
    ],
)
def test_names(name, canonical):
    env = base.make_named(name)
    assert env.name == canonical
    assert base.make_named(canonical) == env
    assert base.make(env.spec) == env


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("rware-1x2x8-2ag", "shelf_columns odd.*got 1 x 2 x 8"),
        ("rware-1x1x8-2ag", "more than one block"),
        ("rware-tiny-111ag", "between 1 and the number of cells, 110, got 111"),
        ("rware-tiny-1ag-hard", "num_requests must be at least 1.*got 0"),
        ("rware-tiny-2ag-32req", "less than the number of shelves, 32, got 32"),
        ("rware-huge-2ag", "there is no environment 'rware-huge-2ag'.*rware-tiny-2ag-easy"),
    ],
)
def test_what_there_is_not(name, message):
    with pytest.raises(OryxError, match=message):
        base.make_named(name)


def test_settings_are_checked():
    with pytest.raises(OryxError, match=r"reward must be one of individual, .*got 'dense'"):
        Rware(reward="dense")
    with pytest.raises(OryxError, match="action_mask must be one of all, effective, got 'some'"):
        Rware(action_mask="some")
    with pytest.raises(OryxError, match="no setting queue; it has: shelf_rows, "):
        rware.make(queue=3)
    assert base.make_named("rware") == base.make_named("rware-tiny-2ag")


def test_pictures():
    env, state = stand([(3, 1, DOWN), (*GOAL, WEST)], {0: 20}, requests=[0, 20])
    lines = env.render_text(state).split("\n")
    assert lines[0] == "step 0: 0 delivered"
    assert lines[2].split() == [".", "$", "x", "v0$", ".", ".", ".", "x", "x", "."]
    assert lines[11].split() == [".", ".", ".", ".", "<1", "G", ".", ".", ".", "."]
    picture = env.render_rgb(state)
    cell = picture.shape[0] // 11
    tiles = picture.reshape(11, cell, 10, cell, 3).swapaxes(1, 2)
    assert (tiles[1, 1] != tiles[1, 2]).any()  # requested or not
    assert (tiles[1, 2] == tiles[2, 2]).all()
    loaded, empty = tiles[1, 3], tiles[10, 4]
    assert (loaded[cell // 2, cell // 2] != empty[cell // 2, cell // 2]).any()
