"""Connector: every agent draws a line to its own target, and lines never cross.

The environment is jumanji's `Connector`; here are the features, scenarios and pictures that go with
it. A board of G x G cells holds the head and the target of N agents, placed by a random walk, so
that every board can be solved. All agents move at once and leave an impassable trail behind; of
several that want the same cell the one with the highest number gets it. Each agent gets -0.03 per
step until it is connected and +1 in the step in which it is. An episode ends when every agent is
connected or cannot move (terminal), or after G * G steps (truncated).

What an agent sees, 54 numbers, as in the published code of Oryx:

     2   its own row and column
     2   row and column of its target
    25   the 5 x 5 cells around it, row by row: 1 a head (also its own), -1 a trail, 0 neither
    25   the same cells: 1 its target, -1 somebody else's, 0 neither

The published code divides rows and columns by G * G, sees cells outside the board as 1 in both
windows, and a target at (0, 0) once it is reached. The `clean` mode repairs all three: it divides
by G, sees cells outside as a trail without a target, and a target always where it is.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from oryx_marl.envs import _connector_render, base
from oryx_marl.envs._connector_scenarios import OBSERVATION_MODES, check_config
from oryx_marl.envs._connector_scenarios import SCENARIOS as SCENARIOS
from oryx_marl.envs._connector_scenarios import find_scenario as find_scenario
from oryx_marl.errors import OryxError
from oryx_marl.types import ActionSpace, Observation, Spec, Step

SIGHT = 2
"""Cells an agent sees in each direction."""
VIEW = 2 * SIGHT + 1
NUM_FEATURES = 4 + 2 * VIEW**2
NUM_ACTIONS = 5
OUTSIDE = -1
"""Code of a cell beyond the board; 0 is a free cell, then trail, head and target of each agent."""


class State(NamedTuple):
    """What the board holds; unbatched."""

    grid: jax.Array
    """[G, G] int32: 0 free; of agent i, 3 i + 1 the trail, 3 i + 2 the head, 3 i + 3 the target."""
    positions: jax.Array
    """[N, 2] int32: row and column of each head."""
    targets: jax.Array
    """[N, 2] int32: row and column of each target, also after it was reached."""
    action_mask: jax.Array
    """[N, 5] bool."""
    step_count: jax.Array
    """[] int32."""


class Connector:
    """Boards of one size. Running out of time is no end of the task, so it is a truncation."""

    action_names: tuple[str, ...] = ("stay", "up", "right", "down", "left")
    return_name = "return"
    feature_range = (-1.0, 1.0)
    num_starts: int | None = None
    version = 1

    def __init__(
        self, grid_size: int = 5, num_agents: int = 3, observation_mode: str = "published"
    ) -> None:
        check_config(grid_size, num_agents, observation_mode)
        self.observation_mode = observation_mode
        self.name = f"con-{grid_size}x{grid_size}x{num_agents}a"
        if observation_mode != OBSERVATION_MODES[0]:
            self.name += f"-{observation_mode}"
        self.spec = Spec(
            environment="connector",
            agents=tuple(f"agent_{index}" for index in range(num_agents)),
            observation_sizes=(NUM_FEATURES,) * num_agents,
            action=ActionSpace("discrete", NUM_ACTIONS),
            episode_limit=grid_size**2,
            state_size=NUM_FEATURES * num_agents,
            shared_reward=False,
            environment_config={
                "grid_size": grid_size,
                "num_agents": num_agents,
                "observation_mode": observation_mode,
            },
        )
        self.grid_size = grid_size
        # A reset costs 4 steps for 3 agents, 60 for 50: they are placed one after another. Good
        # teams need about as many steps as the board is wide.
        self.reset_pool_rate = 1.25 / grid_size
        self._jumanji = base.optional("jumanji.environments.routing.connector.types")
        generators = base.optional("jumanji.environments.routing.connector.generator")
        self._board = base.optional("jumanji.environments.routing.connector").Connector(
            generators.RandomWalkGenerator(grid_size, num_agents), time_limit=grid_size**2
        )

    def __eq__(self, other: object) -> bool:
        """Boards of equal settings are equal, so that compiled functions are shared by them."""
        return isinstance(other, Connector) and self.spec == other.spec

    def __hash__(self) -> int:
        return hash(self.name)

    def reset(self, key: jax.Array) -> tuple[State, Step]:
        """A new board, drawn by a random walk from every head to its target."""
        return self._answer(*self._board.reset(key))

    def step(self, state: State, actions: Int[Array, "N"], key: jax.Array) -> tuple[State, Step]:
        """Everyone moves at once; an illegal move is none."""
        del key  # nothing is random after the reset
        agents = self._jumanji.Agent(
            id=jnp.arange(self.spec.num_agents),
            start=state.positions,  # nobody asks where an agent began
            target=state.targets,
            position=state.positions,
        )
        board = self._jumanji.State(
            grid=state.grid,
            step_count=state.step_count,
            agents=agents,
            key=None,  # jumanji keeps it for its own resets
            action_mask=state.action_mask,
        )
        return self._answer(*self._board.step(board, actions))

    def render_text(self, state: State) -> str:
        """The board in characters: @ heads, ~ trails, x targets, each with its agent's number."""
        return _connector_render.text(*self._scene(state))

    def render_rgb(self, state: State) -> np.ndarray:
        """The board in pixels: heads are discs, trails pale cells, targets frames."""
        return _connector_render.rgb(*self._scene(state))

    def _scene(self, state: State) -> tuple[np.ndarray, np.ndarray, int]:
        connected = np.all(np.asarray(state.positions) == np.asarray(state.targets), axis=-1)
        return np.asarray(state.grid), connected, int(state.step_count)

    def _answer(self, board: Any, timestep: Any) -> tuple[State, Step]:
        """What jumanji says, in our words."""
        state = State(
            board.grid,
            board.agents.position,
            board.agents.target,
            board.action_mask,
            board.step_count,
        )
        # jumanji keeps the discount of those who could go on when time runs out.
        terminal = timestep.last() & jnp.all(timestep.discount == 0)
        num_agents = self.spec.num_agents
        features = self._features(state)
        observation = Observation(
            features=features,
            action_mask=state.action_mask,
            agent_mask=jnp.ones(num_agents, bool),
            reset=state.step_count == 0,
            step_count=state.step_count,
        )
        return state, Step(
            observation=observation,
            rewards=timestep.reward.astype(jnp.float32),
            terminal=jnp.full(num_agents, terminal),
            truncated=jnp.full(num_agents, timestep.last() & ~terminal),
            state=features.ravel(),
        )

    def _features(self, state: State) -> Float[Array, "N O"]:
        clean = self.observation_mode == "clean"
        num_agents = self.spec.num_agents
        padded = jnp.pad(state.grid, SIGHT, constant_values=OUTSIDE)
        near = state.positions[:, :, None] + jnp.arange(VIEW)
        cells = padded[near[:, 0, :, None], near[:, 1, None, :]].reshape(num_agents, -1)
        kind, is_taken = (cells - 1) % 3, cells > 0
        is_trail, is_head, is_target = (is_taken & (kind == which) for which in range(3))
        lines = is_head.astype(jnp.float32) - is_trail
        own = cells == 3 * jnp.arange(num_agents)[:, None] + 3
        targets = jnp.where(is_target, -1.0, 0.0) + 2.0 * own
        outside = cells == OUTSIDE
        lines = jnp.where(outside, -1.0 if clean else 1.0, lines)
        targets = jnp.where(outside, 0.0 if clean else 1.0, targets)
        aims = state.targets
        if not clean:
            connected = jnp.all(state.positions == aims, axis=-1, keepdims=True)
            aims = jnp.where(connected, 0, aims)
        places = jnp.concatenate([state.positions, aims], axis=1)
        places = places / (self.grid_size if clean else self.grid_size**2)
        return jnp.concatenate([places, lines, targets], axis=1).astype(jnp.float32)


def name_actions(**config: Any) -> tuple[str, ...]:
    """What the actions are called, whatever the settings."""
    return Connector.action_names


def make(**config: Any) -> Connector:
    """The boards of these settings: grid_size, num_agents, observation_mode."""
    known = {"grid_size", "num_agents", "observation_mode"}
    if unknown := sorted(set(config) - known):
        raise OryxError(
            f"connector has no setting {', '.join(unknown)}; it has: {', '.join(sorted(known))}"
        )
    return Connector(**config)
