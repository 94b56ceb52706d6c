"""Rules of RWARE: the floor, who may move where, what is picked up and delivered, what is seen.

Cells are numbered row by row, with a border of one cell around the floor, so that the cell ahead
and the cells around are a sum away. For one warehouse; nothing here is random.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from oryx_marl.envs._rware_scenarios import Size

NOOP, FORWARD, LEFT, RIGHT, TOGGLE = range(5)
TURN_LEFT = np.array([2, 3, 1, 0], np.int32)
"""Of the directions up, down, left, right."""
TURN_RIGHT = np.array([3, 2, 0, 1], np.int32)
NOTHING = -1
"""Carried by those who carry no shelf."""
VIEW = 9
"""Cells that are seen: those around an agent, row by row, and its own in the middle."""
CELL_FEATURES = 7
NUM_FEATURES = 8 + VIEW * CELL_FEATURES


class Floor(NamedTuple):
    """What never changes in a warehouse; places are cells with the border counted."""

    stride: int
    """From a cell to the one below."""
    inside: np.ndarray
    """[cells] bool: no border."""
    highway: np.ndarray
    """[cells] bool: here no shelf is put down."""
    homes: np.ndarray
    """[M] int32: where shelves stand at first."""
    goals: tuple[int, int]
    """Left and right."""
    ahead: np.ndarray
    """[4] int32: what is added to a cell by a step up, down, left, right."""
    around: np.ndarray
    """[9] int32: what is added to a cell for those that are seen from it."""


class State(NamedTuple):
    """What is where; unbatched."""

    cells: jax.Array
    """[N] int32: where the agents are."""
    directions: jax.Array
    """[N] int32: up, down, left, right."""
    carried: jax.Array
    """[N] int32: number of the shelf that each carries, -1 for none."""
    has_delivered: jax.Array
    """[N] bool: what it carries was delivered."""
    shelves: jax.Array
    """[M] int32: where the shelves are, also those that are carried."""
    requests: jax.Array
    """[Q] int32: numbers of the requested shelves."""
    step_count: jax.Array
    """[] int32."""
    deliveries: jax.Array
    """[] float32: of the episode so far."""
    agent0_return: jax.Array
    """[] float32: rewards of the episode so far, as the published datasets count them."""


class Events(NamedTuple):
    """What a step is rewarded for."""

    delivered: jax.Array
    """[N] bool: brought a requested shelf to a goal."""
    put_back: jax.Array
    """[N] bool: put down a shelf that was delivered before."""


@lru_cache
def make_floor(size: Size) -> Floor:
    """Blocks of shelves between highways of one cell, and two goals at the bottom."""
    rows, columns = size.grid
    y, x = np.indices((rows, columns))
    middle = (x == columns // 2 - 1) | (x == columns // 2)
    highway = (x % 3 == 0) | (y % (size.column_height + 1) == 0) | (y == rows - 1)
    highway |= middle & (y > rows - size.column_height - 3)  # where robots queue
    bordered = np.pad(highway, 1)
    stride = columns + 2
    inside = np.pad(np.ones_like(highway), 1).ravel()
    left_goal = rows * stride + columns // 2
    return Floor(
        stride,
        inside,
        bordered.ravel(),
        np.flatnonzero(inside & ~bordered.ravel()).astype(np.int32),
        (left_goal, left_goal + 1),
        np.array([-stride, stride, -1, 1], np.int32),
        np.array([dy * stride + dx for dy in (-1, 0, 1) for dx in (-1, 0, 1)], np.int32),
    )


def place(floor: Floor, cells: Int[Array, "*some"] | Int[np.ndarray, "*some"]) -> tuple[Any, Any]:
    """Column and row of cells, from 0, without the border."""
    return cells % floor.stride - 1, cells // floor.stride - 1


def advance(
    floor: Floor,
    state: State,
    actions: Int[Array, "N"],
    draws: Int[Array, "2"],
    order: Int[Array, "N"] | None = None,
) -> tuple[State, Events]:
    """The state after a step.

    Args:
        draws: for each goal, which of the shelves that are not requested is requested next.
        order: who goes first in a tie, lowest first; by default by number.
    """
    targets = find_targets(floor, state, actions)
    order = jnp.arange(len(state.cells)) if order is None else order
    moves = find_moves(state.cells, targets, order, floor.inside.size)
    turns = jnp.stack([jnp.asarray(TURN_LEFT), jnp.asarray(TURN_RIGHT)])[:, state.directions]
    directions = jnp.where(actions == LEFT, turns[0], state.directions)
    directions = jnp.where(actions == RIGHT, turns[1], directions)
    carries, toggles = state.carried != NOTHING, actions == TOGGLE
    puts_down = toggles & carries & ~jnp.asarray(floor.highway)[state.cells]
    carried = jnp.where(toggles & ~carries, find_shelves(floor, state)[state.cells], state.carried)
    carried = jnp.where(puts_down, NOTHING, carried)
    cells = jnp.where(moves, targets, state.cells)
    num_shelves = len(state.shelves)
    moved = jnp.where(carried == NOTHING, num_shelves, carried)
    requests, delivered = deliver(floor, cells, carried, state.requests, draws)
    after = state._replace(
        cells=cells,
        directions=directions,
        carried=carried,
        has_delivered=(state.has_delivered & ~puts_down) | delivered,
        shelves=state.shelves.at[moved].set(cells, mode="drop"),
        requests=requests,
        step_count=state.step_count + 1,
        deliveries=state.deliveries + delivered.sum(),
    )
    return after, Events(delivered, puts_down & state.has_delivered)


def find_targets(floor: Floor, state: State, actions: Int[Array, "N"]) -> Int[Array, "N"]:
    """The cell that each agent wants, its own where it stays or cannot have another."""
    ahead = state.cells + jnp.asarray(floor.ahead)[state.directions]
    return jnp.where((actions == FORWARD) & ~find_barred(floor, state), ahead, state.cells)


def find_barred(floor: Floor, state: State) -> Bool[Array, "N"]:
    """Who cannot go forward whatever the others do: at a wall, or with a shelf before another.

    A shelf whose carrier is there too may leave with it.
    """
    ahead = state.cells + jnp.asarray(floor.ahead)[state.directions]
    carries = state.carried != NOTHING
    standing = find_shelves(floor, state) != NOTHING
    standing = standing.at[jnp.where(carries, state.cells, 0)].set(False)
    return ~jnp.asarray(floor.inside)[ahead] | (carries & standing[ahead])


def find_shelves(floor: Floor, state: State) -> Int[Array, "cells"]:
    """The number of the shelf in each cell, -1 where there is none."""
    numbers = jnp.arange(len(state.shelves), dtype=jnp.int32)
    return jnp.full(floor.inside.size, NOTHING, jnp.int32).at[state.shelves].set(numbers)


def find_moves(
    cells: Int[Array, "N"], targets: Int[Array, "N"], order: Int[Array, "N"], num_cells: int
) -> Bool[Array, "N"]:
    """Who gets the cell it wants.

    Each agent waits for the one that is where it wants to be, and so on. Such a chain ends
    in an empty cell: of all that want one cell the one with the longest chain behind it
    gets it; in somebody who stays: nobody moves; or in a circle: it turns, unless two would change
    places, and nobody else moves. Chains are followed by doubling, in log N rounds.
    """
    num_agents = len(cells)
    agents = jnp.arange(num_agents)
    occupant = jnp.full(num_cells, num_agents).at[cells].set(agents)
    nobody = jnp.array([num_agents])
    ahead = jnp.concatenate([occupant[targets], nobody])
    jumps, behind = [ahead], jnp.zeros(num_agents + 1, jnp.int32)
    for power in range((num_agents - 1).bit_length()):
        farther = jnp.zeros_like(behind).at[jumps[-1]].max(behind + 2**power)
        behind = jnp.maximum(behind, farther)
        jumps.append(jumps[-1][jumps[-1]])
    rank = behind[:num_agents] * num_agents - order
    rivals = (targets[:, None] == targets) & (rank[:, None] < rank)
    clear = jnp.concatenate([~rivals.any(axis=1), jnp.array([True])])
    for jump in jumps[:-1]:
        clear = clear & clear[jump]
    last = jumps[-1][:num_agents]
    in_circle = jnp.zeros(num_agents + 1, bool).at[last].set(True)[:num_agents]
    turns = in_circle & (ahead[:-1] != agents) & (ahead[ahead[:-1]] != agents)
    return turns | (clear[:num_agents] & (last == num_agents))


def deliver(
    floor: Floor,
    cells: Int[Array, "N"],
    carried: Int[Array, "N"],
    requests: Int[Array, "Q"],
    draws: Int[Array, "2"],
) -> tuple[Int[Array, "Q"], Bool[Array, "N"]]:
    """The requests after those at the goals are met, the left one first, and who has met them.

    A new request takes the place of the one it follows.
    """
    delivered = jnp.zeros(len(cells), bool)
    for goal, draw in zip(floor.goals, draws, strict=True):
        is_there = (cells == goal) & (carried != NOTHING)
        shelf = jnp.where(is_there, carried, NOTHING).max()
        is_met = requests == shelf
        # The draw-th number that is not requested: as many are added as lie before it.
        smaller = (requests[:, None] > requests).sum(axis=1)
        new = draw + (requests - smaller <= draw).sum()
        requests = jnp.where(is_met, new, requests).astype(jnp.int32)
        delivered |= is_there & is_met.any()
    return requests, delivered


def find_features(floor: Floor, state: State) -> Int[Array, "N O"]:
    """The 71 features of rware, whole numbers.

    Column, row, carrying, direction, on a highway; of each cell around: agent, its direction,
    shelf, requested. Where there is no agent the direction is up, as in rware.
    """
    requested = jnp.zeros(len(state.shelves), jnp.int32).at[state.requests].set(1)
    contents = jnp.zeros(floor.inside.size, jnp.int32).at[state.cells].set(1 + state.directions)
    contents = contents.at[state.shelves].add(5 * (1 + requested))
    seen = jnp.asarray(_describe_cells())[contents[state.cells[:, None] + floor.around]]
    x, y = place(floor, state.cells)
    own = jnp.concatenate(
        [
            jnp.stack([x, y, state.carried != NOTHING], axis=1),
            jax.nn.one_hot(state.directions, 4, dtype=jnp.int32),
            jnp.asarray(floor.highway)[state.cells, None].astype(jnp.int32),
        ],
        axis=1,
    )
    return jnp.concatenate([own, seen.reshape(len(own), -1)], axis=1)


def find_action_mask(floor: Floor, state: State) -> Bool[Array, "N A"]:
    """What can have an effect: no forward before an obstacle, no toggle where there is nothing to
    pick up or no place to put down; noop always."""
    on_highway = jnp.asarray(floor.highway)[state.cells]
    is_over_shelf = find_shelves(floor, state)[state.cells] != NOTHING
    can_toggle = jnp.where(state.carried != NOTHING, ~on_highway, is_over_shelf)
    always = jnp.ones(len(state.cells), bool)
    return jnp.stack([always, ~find_barred(floor, state), always, always, can_toggle], axis=1)


def shape(features: Int[Array, "N O"]) -> Float[Array, "N"]:
    """What the published datasets add to each agent's reward for what it sees after a step."""
    requested = features[:, 8:].reshape(-1, VIEW, CELL_FEATURES)[..., -1] > 0
    own = jnp.where(features[:, 2] > 0, 0.006, 0.003)
    return jnp.where(requested[:, VIEW // 2], own, 0) + 0.001 * requested.any(axis=1)


@lru_cache
def _describe_cells() -> np.ndarray:
    """[15, 7] int32: features of a cell by 5 * (shelf, requested shelf) + (1 + direction)."""
    agents = np.concatenate([[[0, 1, 0, 0, 0]], np.insert(np.eye(4), 0, 1, axis=1)])
    shelves = np.array([[0, 0], [1, 0], [1, 1]])
    both = [np.append(agent, shelf) for shelf in shelves for agent in agents]
    return np.array(both, np.int32)
