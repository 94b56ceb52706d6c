"""Hand-made states of the T-Maze, and a step from them."""

import jax
import jax.numpy as jnp

from oryx_marl.envs.tmaze import State, TMaze

STAY, UP, RIGHT, DOWN, LEFT, GREEN, ORANGE = range(7)
KEY = jax.random.key(0)
PAPER, PUBLISHED = TMaze(), TMaze(observation_mode="published")
STEP = {env: jax.jit(env.step) for env in (PAPER, PUBLISHED)}
RESET = jax.jit(PAPER.reset)
WINDOW = [(0, 0), (0, 1), (1, 0), (1, 1), (0, -1), (-1, 0), (-1, -1), (1, -1), (-1, 1)]
"""(row, column) from the agent of what it sees, features 0 to 8."""


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
