"""The T-Maze against a second, slow and plain, implementation: dictionaries, tuples, no arrays."""

from collections import deque

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tmaze_states import DOWN, KEY, LEFT, ORANGE, PAPER, RIGHT, STAY, UP, WINDOW, at

from oryx_marl.envs.tmaze import State, TMaze

OFFSETS = {STAY: (0, 0), UP: (1, 0), RIGHT: (0, 1), DOWN: (-1, 0), LEFT: (0, -1)}


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
            assert steps.observation.action_mask[here].tolist() == may
            assert int(steps.observation.step_count[here]) == reference.time
            assert not steps.truncated[here].any()
            ended, compared, solved = ends[0], compared + 1, solved + int(rewards[0])
        assert ended
    assert compared > 1_000
    assert solved > 0 or length > 1


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
