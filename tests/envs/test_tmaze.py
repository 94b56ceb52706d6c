"""The rules of the T-Maze, one by one and against a second, slow and plain, implementation."""

import json
from collections import deque

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oryx_marl.envs import base, tmaze
from oryx_marl.envs.tmaze import State, TMaze
from oryx_marl.errors import OryxError
from oryx_marl.types import Spec

STAY, UP, RIGHT, DOWN, LEFT, GREEN, ORANGE = range(7)
KEY = jax.random.key(0)
PAPER, PUBLISHED = TMaze(), TMaze(observation_mode="published")
STEP = {env: jax.jit(env.step) for env in (PAPER, PUBLISHED)}
RESET = jax.jit(PAPER.reset)


def at(first, second, green_left=True, colours=(0, 1), step_count=1):
    """A hand-made state."""
    return State(
        jnp.array([first, second], jnp.int32),
        jnp.array(green_left),
        jnp.array(colours, jnp.int32),
        jnp.int32(step_count),
    )


def nothing_happened(step):
    """No reward and no end."""
    return not any(part.any() for part in (step.rewards, step.terminal, step.truncated))


def act(state, *actions, env=PAPER):
    return STEP[env](state, jnp.array(actions, jnp.int32), KEY)


def cells_after(state, *actions):
    return [tuple(cell) for cell in act(state, *actions)[0].positions.tolist()]


# --- the rules once more, slowly: dictionaries, tuples, no arrays ---

OFFSETS = {STAY: (0, 0), UP: (1, 0), RIGHT: (0, 1), DOWN: (-1, 0), LEFT: (0, -1)}
WINDOW = [(0, 0), (0, 1), (1, 0), (1, 1), (0, -1), (-1, 0), (-1, -1), (1, -1), (-1, 1)]
"""(row, column) from the agent of what it sees, features 0 to 8."""


class Reference:
    """T-Maze by the book; everything is a plain Python value."""

    def __init__(self, env, state):
        self.maze = {(row, col) for row in range(env.length + 1) for col in range(env.width)}
        self.maze |= {(env.length, col) for col in range(-2, env.width + 2)}
        left, right = (env.length, -2), (env.length, env.width + 1)
        self.goal_of = {0: left, 1: right} if bool(state.green_left) else {0: right, 1: left}
        self.green_left = int(bool(state.green_left))
        self.agents = [tuple(cell) for cell in np.asarray(state.positions).tolist()]
        self.colours = np.asarray(state.colours).tolist()
        self.time, self.limit = int(state.step_count), env.time_limit
        self.is_paper = env.observation_mode == "paper"

    def step(self, actions):
        """Rewards of both, whether it ended, what both see, what both may do."""
        self.time += 1
        if self.time == 1:
            self.colours = [1 if action == ORANGE else 0 for action in actions]
            reward = 0.0
        else:
            self.agents = self.moved(actions)
            on_goal = [
                cell == self.goal_of[c] for cell, c in zip(self.agents, self.colours, strict=True)
            ]
            reward = 1.0 if all(on_goal) else 0.0
        ended = reward == 1.0 or self.time >= self.limit
        seen = [self.see(agent, actions) for agent in (0, 1)]
        return [reward] * 2, [ended] * 2, seen, [self.may(agent) for agent in (0, 1)]

    def moved(self, actions):
        wanted = []
        for (row, col), action in zip(self.agents, actions, strict=True):
            down, right = OFFSETS.get(action, (0, 0))
            wanted.append((row + down, col + right))
        result = []
        for agent in (0, 1):
            blocked = wanted[agent] not in self.maze or wanted[agent] in self.agents
            blocked = blocked or wanted[0] == wanted[1]
            result.append(self.agents[agent] if blocked else wanted[agent])
        return result

    def see(self, agent, actions):
        (row, col), other = self.agents[agent], self.agents[1 - agent]
        view = []
        for down, right in WINDOW:
            cell = (row + down, col + right)
            if (down, right) == (0, 0):
                view.append(1)
            elif cell == other:
                view.append(2)
            else:
                view.append(0 if cell in self.maze else -1)
        if self.is_paper:
            last = 1 + self.colours[agent] if self.time == 1 else 0
        else:
            last = int(actions[agent] == ORANGE or (actions[0] > 5 and actions[1] > 5))
        return [*view, self.green_left, last]

    def may(self, agent):
        row, col = self.agents[agent]
        near = [(row + down, col + right) for down, right in list(OFFSETS.values())[1:]]
        free = [cell in self.maze and cell not in self.agents for cell in near]
        return [True, *free, False, False]


@pytest.mark.parametrize(
    ("length", "width", "mode", "seed"),
    [(5, 2, "paper", 0), (5, 2, "published", 1), (1, 2, "paper", 2), (2, 4, "published", 3)],
)
def test_every_step_agrees_with_the_reference(length, width, mode, seed):
    """Random legal and illegal actions from random states, until the end or the limit."""
    env = TMaze(length, width, time_limit=20, observation_mode=mode)
    random, episodes = np.random.default_rng(seed), 150
    cells = env.cells.tolist()
    pairs = [random.permutation(len(cells))[:2] for _ in range(episodes)]
    starts = State(
        jnp.array([[cells[a], cells[b]] for a, b in pairs], jnp.int32),
        jnp.array(random.random(episodes) < 0.5),
        jnp.array(random.integers(0, 2, (episodes, 2)), jnp.int32),
        jnp.array(random.integers(0, 10, episodes), jnp.int32),
    )
    # Mostly moves, so that agents go somewhere; a fifth of the actions is anything.
    anything = random.random((episodes, 20, 2)) < 0.2
    actions = np.where(
        anything, random.integers(0, 7, anything.shape), random.integers(0, 5, anything.shape)
    )

    def play(state, actions):
        return jax.lax.scan(lambda s, a: env.step(s, a, KEY), state, actions)[1]

    steps = jax.device_get(jax.jit(jax.vmap(play))(starts, jnp.asarray(actions)))
    compared = solved = 0
    for episode in range(episodes):
        reference = Reference(env, jax.tree.map(lambda x, i=episode: x[i], starts))
        ended = False
        for t in range(20):
            if ended:
                break
            rewards, ends, seen, may = reference.step(actions[episode, t].tolist())
            here = (episode, t)
            assert steps.rewards[here].tolist() == rewards
            assert steps.terminal[here].tolist() == ends
            assert steps.observation.features[here].tolist() == seen
            assert steps.observation.legal[here].tolist() == may
            assert int(steps.observation.step_count[here]) == reference.time
            assert not steps.truncated[here].any()
            ended, compared, solved = ends[0], compared + 1, solved + int(rewards[0])
        assert ended
    assert compared > 1_000
    assert solved > 0 or length > 1


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
    assert step.observation.legal.tolist() == [[False] * 5 + [True] * 2] * 2
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
    assert step.observation.legal.tolist() == expected


# --- observations ---


def test_observation_after_the_choice():
    start = at((0, 0), (0, 1), colours=(-1, -1), step_count=0)
    left, right = [1, 2, 0, 0, -1, -1, -1, -1, -1], [1, -1, 0, -1, 2, -1, -1, 0, -1]
    for actions, paper, published in [
        ((GREEN, ORANGE), (1, 2), (0, 1)),
        ((ORANGE, GREEN), (2, 1), (1, 0)),
        ((GREEN, GREEN), (1, 1), (0, 0)),
        ((ORANGE, ORANGE), (2, 2), (1, 1)),
        ((UP, ORANGE), (1, 2), (0, 1)),
    ]:
        for env, last in [(PAPER, paper), (PUBLISHED, published)]:
            features = act(start, *actions, env=env)[1].observation.features
            assert features.dtype == jnp.int8
            assert features.tolist() == [[*left, 1, last[0]], [*right, 1, last[1]]]


@pytest.mark.parametrize("env", [PAPER, PUBLISHED])
def test_observation_while_walking(env):
    """The last action is 0 for every move; the side of green stays in view."""
    features = act(at((4, 0), (4, 1), green_left=False), UP, STAY, env=env)[1].observation.features
    first = [1, 0, -1, -1, 0, 0, -1, -1, 2, 0, 0]
    second = [1, -1, 0, 0, 0, 0, 0, 2, -1, 0, 0]
    assert features.tolist() == [first, second]
    _, step = act(at((2, 0), (5, 3), green_left=True), DOWN, LEFT, env=env)
    assert step.observation.features.tolist() == [
        [1, 0, 0, 0, -1, 0, -1, -1, 0, 1, 0],
        [1, 0, -1, -1, 0, -1, 0, -1, -1, 1, 0],
    ]


def test_an_illegal_choice_while_walking_leaks_only_in_the_published_mode():
    for env, seen in [(PAPER, [0, 0]), (PUBLISHED, [1, 0])]:
        _, step = act(at((2, 0), (4, 1)), ORANGE, GREEN, env=env)
        assert step.observation.features[:, 10].tolist() == seen


def test_order_of_the_nine_cells():
    """The other agent on each of them in turn; in a wide stem all are floor."""
    step_in_wide = jax.jit(TMaze(length=4, width=3, time_limit=20).step)
    for place, (row, column) in enumerate(WINDOW[1:], start=1):
        state = at((2, 1), (2 + row, 1 + column))
        _, step = step_in_wide(state, jnp.array([STAY, STAY]), KEY)
        expected = [1, *(2 if other == place else 0 for other in range(1, 9)), 1, 0]
        assert step.observation.features[0].tolist() == expected


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


def moves_to_solve(colours):
    """Breadth-first search in the reference from the start cells; None if there is no way."""
    start = Reference(PAPER, at((0, 0), (0, 1), colours=colours, step_count=-(10**6)))
    queue, known = deque([(tuple(start.agents), 0)]), {tuple(start.agents)}
    while queue:
        agents, depth = queue.popleft()
        for pair in np.ndindex(5, 5):
            start.agents = list(agents)
            rewards, _, _, _ = start.step(pair)
            if rewards[0]:
                return depth + 1
            if (reached := tuple(start.agents)) not in known:
                known.add(reached)
                queue.append((reached, depth + 1))
    return None


def test_shortest_solutions():
    assert moves_to_solve((0, 1)) == 7
    assert moves_to_solve((1, 0)) == 9
    assert moves_to_solve((0, 0)) is None
    assert moves_to_solve((1, 1)) is None


def test_a_random_policy_nearly_never_succeeds():
    episodes = 10_000

    def play(key):
        reset_key, *keys = jax.random.split(key, 21)

        def advance(carry, key):
            state, legal = carry
            actions = jax.vmap(jax.random.categorical)(jax.random.split(key), jnp.log(legal))
            state, step = PAPER.step(state, actions, key)
            return (state, step.observation.legal), step.rewards[0]

        state, step = PAPER.reset(reset_key)
        return jax.lax.scan(advance, (state, step.observation.legal), jnp.stack(keys))[1]

    rewards = jax.jit(jax.vmap(play))(jax.random.split(KEY, episodes))
    assert float(rewards.any(axis=1).mean()) < 0.001


# --- pictures ---


def test_render_text():
    lines = PAPER.render_text(at((3, 0), (5, 2), green_left=False, step_count=4)).splitlines()
    assert lines == [
        "step 4: agent_0 green, agent_1 orange",
        "# # # # # # # #",
        "# O . . . 1 G #",
        "# # # . . # # #",
        "# # # 0 . # # #",
        "# # # . . # # #",
        "# # # . . # # #",
        "# # # . . # # #",
        "# # # # # # # #",
    ]
    assert "agent_0 undecided, agent_1 undecided" in PAPER.render_text(RESET(KEY)[0])


def test_render_rgb_shows_colours_and_agents():
    def cell(picture, row, column):
        top, left = (6 - row) * 32, (column + 3) * 32
        return picture[top : top + 32, left : left + 32].astype(int)

    picture = PAPER.render_rgb(at((3, 0), (2, 1), colours=(0, 1)))
    assert picture.shape == (256, 256, 3)
    assert picture.dtype == np.uint8
    green, orange = cell(picture, 5, -2)[3, 16], cell(picture, 5, 3)[3, 16]
    assert green.argmax() == 1
    assert orange.argmax() == 0
    assert (cell(picture, 3, 0)[22, 16] == green).all()
    assert (cell(picture, 2, 1)[22, 16] == orange).all()
    swapped = PAPER.render_rgb(at((3, 0), (2, 1), colours=(0, 0), green_left=False))
    assert (cell(swapped, 5, -2)[3, 16] == orange).all()
    # The same colour on both: the dots still tell the agents apart.
    assert (cell(swapped, 3, 0) != cell(swapped, 2, 1)).any()
    undecided = PAPER.render_rgb(at((3, 0), (2, 1), colours=(-1, -1), step_count=0))
    assert np.ptp(cell(undecided, 3, 0)[22, 16]) < 30


def test_global_state_by_hand():
    """Rows 0 to 5, columns -2 to 3 between 0 and 1; green left; orange, green; step 5 of 20."""
    env = TMaze()
    state = State(
        positions=jnp.array([[5, -2], [0, 1]], jnp.int32),
        green_left=jnp.bool_(True),
        colours=jnp.array([1, 0], jnp.int32),
        step_count=jnp.int32(5),
    )
    expected = [1, 0, 0, 0.6, 1, 0, 1, 1, 0, 0.25]
    np.testing.assert_allclose(env._global_state(state), expected, rtol=1e-6)
    undecided = env._global_state(state._replace(colours=jnp.array([-1, -1], jnp.int32)))
    np.testing.assert_allclose(undecided[5:9], 0)
