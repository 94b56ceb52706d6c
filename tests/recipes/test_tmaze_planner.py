"""The planner is optimal, its ties are random, and its logs are what the environment says."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oryx_marl import recipes
from oryx_marl.data import vault
from oryx_marl.data.dataset import Dataset
from oryx_marl.envs import base, tmaze
from oryx_marl.envs.tmaze import State, TMaze
from oryx_marl.errors import OryxError
from oryx_marl.recipes import _tmaze_planner as planner

ROWS = 20_000
ENV = TMaze()
KEY = jax.random.key(0)
LEFT_START, RIGHT_START = 0, 1
"""Numbers of the two start cells."""


@pytest.fixture(scope="module")
def plan():
    return planner.make_plan(ENV)


@pytest.fixture(scope="module")
def expert():
    spec, arrays = planner.record(ENV, planner.BEHAVIOURS["planner-expert"], ROWS, 0)
    return Dataset(spec=spec, **arrays)


@pytest.fixture(scope="module")
def mixed():
    spec, arrays = planner.record(ENV, planner.BEHAVIOURS["planner-mixed"], ROWS, 0)
    return Dataset(spec=spec, **arrays)


def start_states(data):
    """The state each episode began in, read from what the agents saw after the choice."""
    after = data.observations[data.episode_starts + 1]
    first_left = after[:, 0, 1] == 2  # the other agent stands on the right
    positions = np.where(first_left[:, None, None], [[0, 0], [0, 1]], [[0, 1], [0, 0]])
    episodes = data.num_episodes
    return State(
        jnp.asarray(positions, jnp.int32),
        jnp.asarray(after[:, 0, 9] == 1),
        jnp.full((episodes, 2), -1, jnp.int32),
        jnp.zeros(episodes, jnp.int32),
    )


def is_crossing(data):
    """Whether the agents have to pass each other: the goal of the left one is on the right."""
    colours = data.actions[data.episode_starts] - 5
    start = start_states(data)
    left_one = np.where(np.asarray(start.positions)[:, 0, 1] == 0, colours[:, 0], colours[:, 1])
    return (left_one == 0) != np.asarray(start.green_left)


# --- the plan ---


def test_distances_from_the_start(plan):
    assert plan.cells[LEFT_START].tolist() == [0, 0]
    assert plan.cells[RIGHT_START].tolist() == [0, 1]
    assert plan.distances[0, 1, LEFT_START, RIGHT_START] == 7
    assert plan.distances[1, 0, LEFT_START, RIGHT_START] == 9
    assert plan.distances[1, 0, RIGHT_START, LEFT_START] == 7
    apart = ~np.eye(len(plan.cells), dtype=bool)
    assert plan.distances[:, :, apart].max() < planner.UNREACHABLE
    assert plan.optimal[:, :, apart].any(axis=-1).all()


@pytest.mark.parametrize(("length", "width"), [(1, 2), (5, 2), (1, 3), (4, 3), (3, 4)])
def test_the_shortest_time_limit_is_exactly_enough(length, width):
    needed = tmaze.shortest_solution(length, width)
    env = TMaze(length, width, time_limit=needed)
    plan = planner.make_plan(env)
    left, right = [env.cells.tolist().index(cell) for cell in env.starts.tolist()]
    assert plan.distances[0, 1, left, right] == length + 2
    assert plan.distances[1, 0, left, right] == needed - 1


@pytest.mark.parametrize("pick", [0, -1])
@pytest.mark.parametrize("colours", [(0, 1), (1, 0)])
def test_following_the_plan_solves_in_the_planned_number_of_steps(plan, pick, colours):
    step_env = jax.jit(ENV.step)
    state = State(jnp.asarray(ENV.starts), jnp.array(True), jnp.array([-1, -1]), jnp.int32(0))
    state, step = step_env(state, jnp.array(colours) + 5, KEY)
    moves = int(plan.distances[*colours, LEFT_START, RIGHT_START])
    for left in range(moves, 0, -1):
        assert not step.rewards.any()
        here = [plan.cells.tolist().index(cell) for cell in state.positions.tolist()]
        assert plan.distances[*colours, *here] == left
        best = np.flatnonzero(plan.optimal[*colours, *here])
        actions = planner.JOINT_MOVES[best[pick]]
        assert step.observation.action_mask[jnp.arange(2), actions].all()
        state, step = step_env(state, jnp.asarray(actions), KEY)
    assert step.rewards.tolist() == [1, 1]
    assert int(step.observation.step_count) == {7: 8, 9: 10}[moves]


def test_same_colours_end_side_by_side(plan):
    """The plan for an impossible goal: one agent on it, the other next to it, then waiting."""
    corner = plan.cells.tolist().index([5, -2])
    beside = plan.cells.tolist().index([5, -1])
    assert plan.distances[0, 0, corner, beside] == 0
    assert plan.distances[0, 0, beside, corner] == 0
    assert (plan.distances[0, 0] == 0).sum() == 2
    best = planner.JOINT_MOVES[plan.optimal[0, 0, corner, beside]]
    assert best.tolist() == [[0, 0]]


# --- the logs ---


@pytest.mark.parametrize("name", ["expert", "mixed"])
def test_arrays_and_episodes(name, request):
    data = request.getfixturevalue(name)
    assert data.spec == ENV.spec
    dtypes = {key: str(value.dtype) for key, value in data.arrays().items()}
    assert dtypes == {
        "observations": "int8",
        "actions": "int32",
        "rewards": "float32",
        "terminals": "bool",
        "truncations": "bool",
        "action_mask": "bool",
        "state": "float32",
        "final_observations": "int8",
        "episode_starts": "int64",
    }
    rows = data.num_rows
    assert data.observations.shape == (rows, 2, 11)
    assert data.actions.shape == data.rewards.shape == data.terminals.shape == (rows, 2)
    assert data.action_mask.shape == (rows, 2, 7)
    assert data.state.shape == (rows, 10)
    assert (data.state[data.episode_starts, -1] == 0).all()  # the time, which then goes up by 1/20
    inside = np.setdiff1d(np.arange(1, rows), data.episode_starts)
    assert np.allclose(data.state[inside, -1] - data.state[inside - 1, -1], 1 / 20, atol=1e-6)
    assert data.final_observations.shape == (data.num_episodes, 2, 11)
    assert ROWS <= rows < ROWS + data.episode_lengths[-1]
    last = np.append(data.episode_starts[1:], rows) - 1
    assert np.flatnonzero(data.terminals.all(axis=1)).tolist() == last.tolist()
    assert np.flatnonzero(data.terminals.any(axis=1)).tolist() == last.tolist()
    assert not data.truncations.any()
    assert np.flatnonzero(~data.observations.any(axis=(1, 2))).tolist() == (
        data.episode_starts.tolist()
    )


@pytest.mark.parametrize("name", ["expert", "mixed"])
def test_every_action_is_legal(name, request):
    data = request.getfixturevalue(name)
    assert np.take_along_axis(data.action_mask, data.actions[..., None], axis=2).all()


@pytest.mark.parametrize("name", ["expert", "mixed"])
def test_the_environment_answers_the_logged_actions_as_logged(name, request):
    """A replay of every episode gives the same observations, masks, rewards and ends."""
    data = request.getfixturevalue(name)
    offsets = np.arange(ENV.time_limit)
    rows = np.minimum(data.episode_starts[:, None] + offsets, data.num_rows - 1)
    live = offsets < data.episode_lengths[:, None]

    def play(state, actions):
        return jax.lax.scan(lambda s, a: ENV.step(s, a, KEY), state, actions)[1]

    steps = jax.jit(jax.vmap(play))(start_states(data), jnp.asarray(data.actions[rows]))
    steps = jax.device_get(steps)
    assert (steps.rewards[live] == data.rewards).all()
    assert (steps.terminal[live] == data.terminals).all()
    inner = live[:, 1:]
    features, action_mask = steps.observation.features, steps.observation.action_mask
    assert (features[:, :-1][inner] == data.observations[rows[:, 1:][inner]]).all()
    assert (action_mask[:, :-1][inner] == data.action_mask[rows[:, 1:][inner]]).all()
    ends = np.arange(data.num_episodes), data.episode_lengths - 1
    assert (features[ends] == data.final_observations).all()


def test_expert_solves_every_episode_in_the_fewest_steps(expert):
    assert (expert.episode_returns == 1).all()
    assert (expert.episode_lengths == np.where(is_crossing(expert), 10, 8)).all()
    assert abs(is_crossing(expert).mean() - 0.5) < 0.05


def test_expert_colours_differ_and_are_balanced(expert):
    chosen = expert.actions[expert.episode_starts]
    assert (chosen.sum(axis=1) == 11).all()
    assert abs((chosen[:, 0] == 5).mean() - 0.5) < 0.05


def test_ties_are_broken_uniformly(expert, plan):
    """After the choice, without crossing and agent 0 left: each optimal pair equally often."""
    start = start_states(expert)
    first_left = np.asarray(start.positions)[:, 0, 1] == 0
    chosen = expert.actions[expert.episode_starts] - 5
    sides = np.where(np.asarray(start.green_left)[:, None], chosen, 1 - chosen)
    moved = expert.actions[expert.episode_starts + 1]
    for side in (0, 1):
        these = first_left & (sides[:, 0] == side)
        best = plan.optimal[side, 1 - side, LEFT_START, RIGHT_START]
        joint = moved[these] @ np.array([5, 1])
        shares = np.bincount(joint, minlength=25) / these.sum()
        assert (shares[~best] == 0).all()
        assert np.abs(shares[best] - 1 / best.sum()).max() < 0.06
    # Somewhere on the way several pairs are optimal, and several are taken.
    third = expert.actions[expert.episode_starts + 3] @ np.array([5, 1])
    assert len(np.unique(third)) > 4


def test_mixed_is_solved_in_fewer_than_half_of_the_episodes(mixed):
    assert 0.38 < mixed.episode_returns.mean() < 0.48
    solved = mixed.episode_returns == 1
    assert (mixed.episode_lengths[~solved] == 20).all()
    assert (mixed.episode_lengths[solved] >= np.where(is_crossing(mixed), 10, 8)[solved]).all()


def test_mixed_colours(mixed):
    chosen = mixed.actions[mixed.episode_starts]
    same = chosen[:, 0] == chosen[:, 1]
    assert abs(same.mean() - 0.25) < 0.05
    assert abs((chosen == 5).mean() - 0.5) < 0.05
    assert not mixed.episode_returns[same].any()


def test_more_noise_solves_less():
    returns = []
    for level in (0.2, 0.5, 0.8):
        behaviour = planner.Behaviour(noise_levels=(level,), random_colours=0.0)
        spec, arrays = planner.record(ENV, behaviour, 5_000, 0)
        returns.append(Dataset(spec=spec, **arrays).episode_returns.mean())
    assert returns[0] > 0.9
    assert 0.25 < returns[1] < 0.6
    assert returns[2] < 0.1


def test_deterministic_by_seed_and_independent_of_the_batch(mixed, monkeypatch):
    behaviour = planner.BEHAVIOURS["planner-mixed"]
    _, other = planner.record(ENV, behaviour, 500, 1)
    monkeypatch.setattr(planner, "EPISODES_PER_CALL", 16)
    spec, arrays = planner.record(ENV, behaviour, 500, 0)
    assert spec == mixed.spec
    episodes, rows = len(arrays["episode_starts"]), len(arrays["actions"])
    for name, value in mixed.arrays().items():
        count = episodes if name in ("episode_starts", "final_observations") else rows
        np.testing.assert_array_equal(arrays[name], value[:count])
    assert not np.array_equal(other["actions"][:500], arrays["actions"][:500])


def test_other_mazes_can_be_recorded_too(monkeypatch):
    monkeypatch.setattr(planner, "EPISODES_PER_CALL", 16)
    env = TMaze(length=2, width=3, time_limit=12, observation_mode="published")
    spec, arrays = planner.record(env, planner.BEHAVIOURS["planner-expert"], 100, 0)
    data = Dataset(spec=spec, **arrays)
    assert (data.episode_returns == 1).all()
    assert set(np.unique(data.observations[:, :, 10])) == {0, 1}


def test_rows_are_needed():
    with pytest.raises(OryxError, match="at least one row"):
        planner.record(ENV, planner.BEHAVIOURS["planner-expert"], 0, 0)


def test_mazes_of_any_size_have_the_planners_data(tmp_path: Path) -> None:
    """As many episodes as usual, in a maze that the data name."""
    found = recipes.make("tmaze-9x30/planner-expert", root=tmp_path, rows=600)
    dataset = vault.read(found)
    assert dataset.spec.environment == "tmaze"
    assert dataset.spec.episode_limit == 30
    env = base.make(dataset.spec)
    assert (env.length, env.time_limit) == (9, 30)
    assert dataset.episode_lengths.min() > 9
    assert recipes.usual_rows("tmaze-9x30/planner-expert") == 150_000
    with pytest.raises(OryxError):
        recipes.make("tmaze-9x30/replay", root=tmp_path)


def test_nobody_in_the_embedded_logs_stands_on_the_wrong_goals() -> None:
    """So no estimate from these logs knows what becomes of a policy that does (guide to trust)."""
    data = recipes.open("tmaze/planner-mixed")
    state = data.state
    assert data.num_episodes == 6_017
    assert state is not None
    rows, columns = state[:, [0, 2]], np.round(5 * state[:, [1, 3]])
    differ = (state[:, 5:7] != state[:, 7:9]).any(axis=1)  # the chosen colours
    in_last_row = (rows == 1).all(axis=1) & differ
    on_goals = in_last_row & (np.sort(columns, axis=1) == [0, 5]).all(axis=1)
    assert in_last_row.sum() > 100
    assert on_goals.sum() == 0  # on the right goals an episode ends before it is seen
