"""T-Maze: two agents pick a colour each, then walk to the goals of their colours.

The smallest task that needs coordination (the colours must differ) and memory (an agent sees its
own choice only once). Oryx paper, appendix "T-MAZE". Cells are (row, column), row 0 at the bottom:

    row 5   L . . . . R      columns -2 .. 3: the junction row; L and R are the two goals
    row 4       . .          columns 0 and 1: the stem
    ...         . .
    row 0       a b          the two start cells

Step 1 is the choice of a colour, every later step a move. Nobody can enter a cell that is occupied
before the step, so agents neither swap nor follow each other, and of two agents that want the same
free cell none gets it. Both get reward 1, once, when both stand on their goals at the same time.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Int8

from oryx_marl import limits
from oryx_marl.envs import _tmaze_render
from oryx_marl.errors import OryxError
from oryx_marl.types import ActionSpace, Observation, Spec, Step

NUM_AGENTS = 2
ARM = 2
"""Cells of the junction row on either side of the stem."""
MOVES = np.array([(0, 0), (1, 0), (0, 1), (-1, 0), (0, -1)], np.int32)
"""(row, column) of actions 0 to 4: stay, up, right, down, left."""
CHOOSE_0, CHOOSE_1 = 5, 6
"""The actions of step 1: colour 0 is green, colour 1 is orange."""
NUM_ACTIONS = 7
NEIGHBOURS = np.array(
    [(0, 0), (0, 1), (1, 0), (1, 1), (0, -1), (-1, 0), (-1, -1), (1, -1), (-1, 1)], np.int32
)
"""(row, column) of the nine cells an agent sees, in the order of its observation."""
NUM_FEATURES = len(NEIGHBOURS) + 2
STATE_SIZE = 2 * NUM_AGENTS + 1 + 2 * NUM_AGENTS + 1
"""Cells of both agents, the side of green, the colours of both agents, the time."""
OBSERVATION_MODES = ("paper", "published")


class State(NamedTuple):
    """Where everything is; unbatched."""

    positions: jax.Array
    """[N, 2] int32: row and column of each agent."""
    green_left: jax.Array
    """[] bool: the goal of colour 0 is the left one, that of colour 1 the right one."""
    colours: jax.Array
    """[N] int32: each agent's colour, -1 before the choice."""
    step_count: jax.Array
    """[] int32: steps since the episode began; at 0 the colours are chosen."""


class TMaze:
    """The maze. Running out of time is an end of the task: the horizon is a part of it."""

    action_names: tuple[str, ...] = (
        "stay",
        "up",
        "right",
        "down",
        "left",
        "choose green",
        "choose orange",
    )
    return_name = "success rate"
    name = "tmaze"
    feature_range = (-1.0, 2.0)
    reset_pool_rate = 0.0
    num_starts: int | None = 4  # start cells and sides of the goals
    version = 1

    def __init__(
        self,
        length: int = 5,
        width: int = 2,
        time_limit: int = 20,
        observation_mode: str = "paper",
    ) -> None:
        """A stem of `length` + 1 rows and `width` columns under arms of two cells each.

        `observation_mode` says how an agent sees its last action: "paper" as 0 for a move, 1 and 2
        for the choice of colour 0 and 1; "published" as one bit, 1 for action 6, 0 for all others.
        """
        _check_config(length, width, time_limit, observation_mode)
        self.length = length
        self.width = width
        self.time_limit = time_limit
        self.observation_mode = observation_mode
        self.starts = np.array([(0, 0), (0, width - 1)], np.int32)
        """The bottom corners of the stem."""
        self.goals = np.array([(length, -ARM), (length, width - 1 + ARM)], np.int32)
        """The left and the right one."""
        # One ring of wall around the bounding box, so that neighbours are always inside the array.
        self._open = np.zeros((length + 3, width + 2 * ARM + 2), bool)
        self._open[1:-1, 1 + ARM : -1 - ARM] = True
        self._open[length + 1, 1:-1] = True
        self.spec = Spec(
            environment="tmaze",
            agents=("agent_0", "agent_1"),
            observation_sizes=(NUM_FEATURES,) * NUM_AGENTS,
            action=ActionSpace("discrete", NUM_ACTIONS),
            episode_limit=time_limit,
            state_size=STATE_SIZE,
            environment_config={
                "length": length,
                "width": width,
                "time_limit": time_limit,
                "observation_mode": observation_mode,
            },
        )

    def __eq__(self, other: object) -> bool:
        """Mazes of equal settings are equal, so that compiled functions are shared by them."""
        return isinstance(other, TMaze) and self.spec == other.spec

    def __hash__(self) -> int:
        return hash((self.length, self.width, self.time_limit, self.observation_mode))

    @property
    def cells(self) -> Int[np.ndarray, "cells 2"]:
        """(row, column) of every cell, row by row."""
        return (np.argwhere(self._open) - (1, 1 + ARM)).astype(np.int32)

    def reset(self, key: jax.Array) -> tuple[State, Step]:
        """Start cells and sides of the goals are drawn; nothing of them is seen yet."""
        start_key, side_key = jax.random.split(key)
        starts = jnp.asarray(self.starts)
        state = State(
            positions=jnp.where(jax.random.bernoulli(start_key), starts[::-1], starts),
            green_left=jax.random.bernoulli(side_key),
            colours=jnp.full(NUM_AGENTS, -1, jnp.int32),
            step_count=jnp.int32(0),
        )
        nobody = jnp.zeros(NUM_AGENTS, bool)
        features = jnp.zeros((NUM_AGENTS, NUM_FEATURES), jnp.int8)
        observation = self._observation(state, features)
        rewards = jnp.zeros(NUM_AGENTS, jnp.float32)
        return state, Step(observation, rewards, nobody, nobody, self._global_state(state))

    def step(self, state: State, actions: Int[Array, "N"], key: jax.Array) -> tuple[State, Step]:
        """The choice at step 1 (any action but 6 is colour 0), a move at every later step."""
        del key  # nothing is random after the reset
        choosing = state.step_count == 0
        chosen = (actions == CHOOSE_1).astype(jnp.int32)
        state = State(
            positions=jnp.where(choosing, state.positions, self._move(state.positions, actions)),
            green_left=state.green_left,
            colours=jnp.where(choosing, chosen, state.colours),
            step_count=state.step_count + 1,
        )
        solved = ~choosing & jnp.all(state.positions == self.targets(state))
        ended = solved | (state.step_count >= self.time_limit)
        if self.observation_mode == "paper":
            last = jnp.where(choosing, 1 + chosen, 0)
        else:
            # The published rule also sets the bit of both agents if both chose colour 1; as each
            # of them then has it already, that changes nothing.
            last = (actions == CHOOSE_1) | jnp.all(actions > CHOOSE_0)
        return state, Step(
            observation=self._observation(state, self._features(state, last)),
            rewards=jnp.full(NUM_AGENTS, solved, jnp.float32),
            terminal=jnp.full(NUM_AGENTS, ended),
            truncated=jnp.zeros(NUM_AGENTS, bool),
            state=self._global_state(state),
        )

    def targets(self, state: State) -> Int[Array, "N 2"]:
        """The cell each agent has to reach; meaningless before the choice."""
        side = jnp.where(state.green_left, state.colours, 1 - state.colours)
        return jnp.asarray(self.goals)[side]

    def render_text(self, state: State) -> str:
        """The maze in characters; G and O are the goals, 0 and 1 the agents."""
        return _tmaze_render.text(self._scene(state))

    def render_rgb(self, state: State) -> np.ndarray:
        """The maze in pixels; agents wear their colours, agent_0 has one dot, agent_1 two."""
        return _tmaze_render.rgb(self._scene(state))

    def _is_open(self, cells: Int[Array, "*shape 2"]) -> Bool[Array, "*shape"]:
        """Whether cells, at most one step outside the bounding box, belong to the maze."""
        return jnp.asarray(self._open)[cells[..., 0] + 1, cells[..., 1] + 1 + ARM]

    def _move(self, positions: Int[Array, "N 2"], actions: Int[Array, "N"]) -> Int[Array, "N 2"]:
        is_move = (actions > 0) & (actions < len(MOVES))
        proposals = positions + jnp.asarray(MOVES)[jnp.where(is_move, actions, 0)]
        allowed = (
            self._is_open(proposals)
            & ~_occupied(proposals, positions)
            & jnp.any(proposals[0] != proposals[1])
        )
        return jnp.where(allowed[:, None], proposals, positions)

    def _features(self, state: State, last: Array) -> Int8[Array, "N O"]:
        """Nine cells (-1 wall, 0 free, 1 self, 2 other), whether green is left, the last action."""
        seen = state.positions[:, None] + jnp.asarray(NEIGHBOURS)
        cells = jnp.where(self._is_open(seen), 0, -1)
        cells = jnp.where(jnp.all(seen == state.positions[::-1, None], axis=-1), 2, cells)
        cells = cells.at[:, 0].set(1)
        green_left = jnp.full((NUM_AGENTS, 1), state.green_left)
        return jnp.concatenate([cells, green_left, last[:, None]], axis=1).astype(jnp.int8)

    def _global_state(self, state: State) -> Float[Array, " S"]:
        """All that is to be known, each number between 0 and 1; for mixing networks."""
        lowest = jnp.array([0, -ARM])
        extent = jnp.array([self.length, self.width - 1 + 2 * ARM])
        colours = jax.nn.one_hot(state.colours, 2)  # zeros before the choice
        parts = [
            ((state.positions - lowest) / extent).ravel(),
            state.green_left[None],
            colours.ravel(),
            (state.step_count / self.time_limit)[None],
        ]
        return jnp.concatenate([part.astype(jnp.float32) for part in parts])

    def _observation(self, state: State, features: Int8[Array, "N O"]) -> Observation:
        proposals = state.positions[:, None] + jnp.asarray(MOVES[1:])
        free = self._is_open(proposals) & ~_occupied(proposals, state.positions)
        choosing = state.step_count == 0
        stay = jnp.full((NUM_AGENTS, 1), ~choosing)
        choose = jnp.full((NUM_AGENTS, 2), choosing)
        return Observation(
            features=features,
            action_mask=jnp.concatenate([stay, free & ~choosing, choose], axis=1),
            agent_mask=jnp.ones(NUM_AGENTS, bool),
            reset=choosing,
            step_count=state.step_count,
        )

    def _scene(self, state: State) -> _tmaze_render.Scene:
        def padded(cells: np.ndarray) -> list[tuple[int, int]]:
            return [(int(row) + 1, int(column) + 1 + ARM) for row, column in cells]

        goals = padded(self.goals)
        return _tmaze_render.Scene(
            maze=self._open,
            goals=goals if bool(state.green_left) else goals[::-1],
            agents=padded(np.asarray(state.positions)),
            colours=np.asarray(state.colours).tolist(),
            step=int(state.step_count),
        )


def name_actions(**config: Any) -> tuple[str, ...]:
    """What the actions are called, whatever the settings."""
    return TMaze.action_names


def make(**config: Any) -> TMaze:
    """The maze of these settings: length, width, time_limit, observation_mode."""
    known = {"length", "width", "time_limit", "observation_mode"}
    if unknown := sorted(set(config) - known):
        raise OryxError(
            f"tmaze has no setting {', '.join(unknown)}; it has: {', '.join(sorted(known))}"
        )
    return TMaze(**config)


def shortest_solution(length: int, width: int) -> int:
    """Steps, choice included, that suffice from every start: the agents have to cross over.

    One of them has to wait for a step where the stem is two wide; in a wider one they pass.
    """
    return 1 + length + width + 1 + (width == 2)


def _occupied(
    cells: Int[Array, "N *more 2"], positions: Int[Array, "N 2"]
) -> Bool[Array, "N *more"]:
    """Whether an agent stands on these cells."""
    here = (cells[..., None, :] == positions).all(axis=-1)
    return here.any(axis=-1)


def _check_config(length: int, width: int, time_limit: int, observation_mode: str) -> None:
    limits.require_whole("tmaze", length=length, width=width, time_limit=time_limit)
    cells = (length + 3) * (width + 2 * ARM + 2)
    limits.require("tmaze's board", cells, limits.BOARD_CELLS, "cells")
    limits.require("tmaze", time_limit, limits.EPISODE_STEPS, "steps")
    if length < 1:
        raise OryxError(f"tmaze: length must be at least 1, got {length}")
    if width < NUM_AGENTS:
        raise OryxError(
            f"tmaze: width must be at least 2, so that both agents fit side by side, got {width}"
        )
    needed = shortest_solution(length, width)
    if time_limit < needed:
        raise OryxError(
            f"tmaze: with length {length} and width {width} some starts need {needed} steps, so "
            f"time_limit must be at least {needed}, got {time_limit}"
        )
    if observation_mode not in OBSERVATION_MODES:
        raise OryxError(
            f"tmaze: observation_mode must be one of {', '.join(OBSERVATION_MODES)}, "
            f"got '{observation_mode}'"
        )
