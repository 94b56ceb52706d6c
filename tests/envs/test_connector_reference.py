"""Connector step by step beside jumanji's own, and its features beside a plain reading of them."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jumanji.environments.routing import connector as jumanji
from jumanji.environments.routing.connector.generator import RandomWalkGenerator

from oryx_marl.envs.connector import Connector

SIZE, AGENTS, EPISODES = 7, 5, 48
LIMIT = SIZE**2
ENV = Connector(SIZE, AGENTS)
REFERENCE = jumanji.Connector(RandomWalkGenerator(SIZE, AGENTS), time_limit=LIMIT)


def play(key):
    """Both with the same key and actions, half of them drawn from all, half from the legal ones;
    in a quarter of the episodes agents hardly move, so that time runs out."""
    lazy = jax.random.bernoulli(key, 0.25)
    theirs, first = REFERENCE.reset(key)
    ours, first_step = ENV.reset(key)

    def advance(carry, index):
        theirs, ours = carry
        act_key, any_key = jax.random.split(jax.random.fold_in(key, index))
        is_any = jax.random.bernoulli(any_key, shape=(AGENTS, 1))
        draws = jax.random.uniform(act_key, (AGENTS, 5)).at[:, 0].add(0.95 * lazy)
        actions = jnp.where(theirs.action_mask | is_any, draws, -1).argmax(axis=-1)
        theirs, timestep = REFERENCE.step(theirs, actions)
        ours, step = ENV.step(ours, actions, key)
        return (theirs, ours), (theirs, timestep, ours, step, actions)

    _, rest = jax.lax.scan(advance, (theirs, ours), jnp.arange(LIMIT))
    return (theirs, first, ours, first_step), rest


@cache
def played():
    keys = jax.random.split(jax.random.key(3), EPISODES)
    first, rest = jax.jit(jax.vmap(play))(keys)
    # jumanji keeps a key, which numpy cannot hold.
    first[0].key = rest[0].key = None
    return jax.device_get((first, rest))


def live(timestep):
    """[EPISODES, LIMIT]: up to the step that ends."""
    last = timestep.step_type == 2
    return np.cumsum(last, axis=1) - last == 0


def assert_same_board(theirs, ours, where=()):
    for one, other in (
        (theirs.grid, ours.grid),
        (theirs.agents.position, ours.positions),
        (theirs.agents.target, ours.targets),
        (theirs.action_mask, ours.action_mask),
        (theirs.step_count, ours.step_count),
    ):
        np.testing.assert_array_equal(one[where], other[where])


def test_the_first_boards_are_jumanjis():
    (theirs, first, ours, step), _ = played()
    assert_same_board(theirs, ours)
    np.testing.assert_array_equal(first.observation.action_mask, step.observation.action_mask)
    assert not step.rewards.any()
    assert not (step.terminal | step.truncated).any()


def test_every_step_is_jumanjis():
    _, (theirs, timestep, ours, step, actions) = played()
    here = live(timestep)
    assert_same_board(theirs, ours, here)
    np.testing.assert_array_equal(timestep.reward[here], step.rewards[here])
    np.testing.assert_array_equal(timestep.observation.action_mask[here], ours.action_mask[here])
    assert here.sum() > 500
    # What is to be compared does occur: illegal moves, and agents that give way to others.
    moved = np.diff(ours.positions, axis=1).any(axis=-1)
    action_mask = np.take_along_axis(ours.action_mask[:, :-1], actions[:, 1:, :, None], axis=3)[
        ..., 0
    ]
    wanted = (actions[:, 1:] > 0) & here[:, 1:, None]
    assert (wanted & ~action_mask).any()
    assert not (wanted & ~action_mask & moved).any()
    assert (wanted & action_mask & ~moved).any()


def test_ends_are_jumanjis():
    """All connected or stuck is an end of the task; only otherwise time counts."""
    _, (theirs, timestep, _, step, _) = played()
    here = live(timestep)
    connected = np.all(theirs.agents.position == theirs.agents.target, axis=-1)
    stuck = ~theirs.action_mask[..., 1:].any(axis=-1)
    done = (connected | stuck).all(axis=-1)
    late = (theirs.step_count >= LIMIT) & ~done
    np.testing.assert_array_equal(step.terminal[here], np.repeat(done[here][:, None], AGENTS, 1))
    np.testing.assert_array_equal(step.truncated[here], np.repeat(late[here][:, None], AGENTS, 1))
    np.testing.assert_array_equal(timestep.step_type[here] == 2, (done | late)[here])
    assert (done & here).any()
    assert (late & here).any()


def test_rewards_are_individual():
    """-0.03 until connected, 1 more in the step of it, 0 from then on."""
    (before, *_), (theirs, timestep, _, step, _) = played()
    places = np.concatenate([before.agents.position[:, None], theirs.agents.position], axis=1)
    connected = np.all(places == before.agents.target[:, None], axis=-1)
    now, then = connected[:, 1:], connected[:, :-1]
    expected = -0.03 * ~then + (now & ~then)
    here = live(timestep)
    np.testing.assert_allclose(step.rewards[here], expected[here], atol=1e-6)
    assert (now & ~then)[here].sum() > 10
    assert (step.rewards[here].max(axis=1) > step.rewards[here].min(axis=1)).any()


def read(grid, agent, clean):
    """The 54 numbers of an agent, cell by cell."""
    head, target = 3 * agent + 2, 3 * agent + 3
    ((row, column),) = np.argwhere(grid == head)
    aim = np.argwhere(grid == target)
    # A target that was reached is gone from the grid.
    aim = aim[0] if len(aim) else (row, column) if clean else (0, 0)
    divisor = SIZE if clean else SIZE * SIZE
    lines, targets = [], []
    for r in range(row - 2, row + 3):
        for c in range(column - 2, column + 3):
            if not (0 <= r < SIZE and 0 <= c < SIZE):
                lines.append(-1 if clean else 1)
                targets.append(0 if clean else 1)
                continue
            code = grid[r, c]
            lines.append({1: -1, 2: 1}.get(code % 3, 0))
            targets.append(1 if code == target else -1 if code and code % 3 == 0 else 0)
    return np.array([row, column, *aim]) / divisor, lines, targets


@pytest.mark.parametrize("mode", ["published", "clean"])
def test_features(mode):
    _, (theirs, timestep, ours, step, _) = played()
    env = Connector(SIZE, AGENTS, mode)
    features = step.observation.features
    if mode == "clean":
        compute = jax.jit(jax.vmap(jax.vmap(env._features)))
        features = np.asarray(compute(jax.tree.map(jnp.asarray, ours)))
    assert features.shape[-1] == 54
    reached = outside = 0
    for episode, t in np.argwhere(live(timestep))[::7]:
        grid = theirs.grid[episode, t]
        for agent in range(AGENTS):
            expected = np.concatenate(read(grid, agent, mode == "clean"))
            np.testing.assert_allclose(features[episode, t, agent], expected, atol=1e-6)
            reached += 3 * agent + 3 not in grid
            outside += 0 in theirs.agents.position[episode, t, agent]
    assert reached > 10
    assert outside > 10


def test_global_state_is_what_all_agents_see():
    _, (_, _, _, step, _) = played()
    flat = step.observation.features.reshape(*step.state.shape)
    np.testing.assert_array_equal(step.state, flat)
