"""A hand-written team for RWARE that sees the whole warehouse.

Each free agent goes for the requested shelf that is nearest to it, nearest pairs first, on a
shortest path that counts turns; it may pass under shelves. Who carries a requested shelf goes to
the nearest goal, who carries another puts it back where it was at first, both over highways alone.
An agent that could not move for some steps goes somewhere else for a while, which dissolves jams.
Of large teams only some work at a time; the others wait under shelves.

Policies see observations alone, so the plan is made by an environment around the warehouse, which
adds the planned action as one more feature. It is taken away from what is recorded.
"""

from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from oryx_marl.algorithms.base import Policy
from oryx_marl.envs._rware_rules import (
    FORWARD,
    LEFT,
    NOOP,
    NOTHING,
    RIGHT,
    TOGGLE,
    TURN_LEFT,
    TURN_RIGHT,
    Floor,
    State,
    make_floor,
)
from oryx_marl.envs._rware_scenarios import Size
from oryx_marl.envs.rware import Rware
from oryx_marl.recipes._scripted import draw_uniform
from oryx_marl.types import Observation, Step

FAR = 10_000
"""Steps to where there is no way."""
OCCUPIED = 3
"""Steps that somebody in the way counts for."""
PATIENCE = 5
"""Steps without a move after which an agent may go somewhere else."""
DETOUR = 8
"""Steps of it."""


MOST_BUSY = 24
"""Agents at work at the same time: more of them block each other at the two goals."""


class Mind(NamedTuple):
    """What the planner remembers."""

    blocked: jax.Array
    """[N] int32: steps since an agent moved or had nowhere to go."""
    detour: jax.Array
    """[N] int32: steps left of the way somewhere else."""
    elsewhere: jax.Array
    """[N] int32: where that is."""
    wanted: jax.Array
    """[N] bool: who was told to move or turn in this step."""


class Planned:
    """A warehouse whose last feature is what the planner would do."""

    return_name = "return"
    num_starts: int | None = None

    def __init__(self, env: Rware) -> None:
        self.env = env
        self.name = f"{env.name}, planned"
        self.version = env.version
        self.action_names = env.action_names
        self.feature_range = env.feature_range
        self.reset_pool_rate = env.reset_pool_rate
        sizes = tuple(size + 1 for size in env.spec.observation_sizes)
        self.spec = replace(env.spec, observation_sizes=sizes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Planned) and self.env == other.env

    def __hash__(self) -> int:
        return hash(self.name)

    def reset(self, key: jax.Array) -> tuple[Any, Step]:
        """A warehouse and its first plan."""
        state, step = self.env.reset(key)
        nothing = jnp.zeros(self.spec.num_agents, jnp.int32)
        mind = Mind(nothing, nothing, nothing, jnp.zeros(self.spec.num_agents, bool))
        return self._show(state, mind, step, jax.random.fold_in(key, 1))

    def step(self, state: Any, actions: Int[Array, "N"], key: jax.Array) -> tuple[Any, Step]:
        """The warehouse after a step, and the plan for the next."""
        before, mind = state
        env_key, plan_key = jax.random.split(key)
        after, step = self.env.step(before, actions, env_key)
        stood = mind.wanted & (after.cells == before.cells)
        mind = mind._replace(blocked=jnp.where(stood, mind.blocked + 1, 0))
        return self._show(after, mind, step, plan_key)

    def render_text(self, state: Any) -> str:
        return self.env.render_text(state[0])

    def render_rgb(self, state: Any) -> np.ndarray:
        return self.env.render_rgb(state[0])

    def _show(self, state: State, mind: Mind, step: Step, key: jax.Array) -> tuple[Any, Step]:
        actions, mind = plan(self.env.size, state, mind, key)
        seen = step.observation.features
        features = jnp.concatenate([seen, actions[:, None].astype(seen.dtype)], axis=1)
        observation = step.observation._replace(features=features)
        return (state, mind), step._replace(observation=observation)


def make_policy(num_agents: int, noise: float) -> Policy:
    """Does as planned; with this probability anything but a toggle, which would mislay shelves."""

    def act(
        carry: tuple[()], observation: Observation, draws: Float[Array, "B N 2"]
    ) -> tuple[tuple[()], Int[Array, "B N"], dict]:
        planned = observation.features[..., -1].astype(jnp.int32)
        other = (draws[..., 1] * TOGGLE).astype(jnp.int32)
        return carry, jnp.where(draws[..., 0] < noise, other, planned), {}

    return Policy(lambda batch: (), act, draw_uniform(num_agents, 2))


def plan(size: Size, state: State, mind: Mind, key: jax.Array) -> tuple[Int[Array, "N"], Mind]:
    """What everybody does next, and what is to be remembered."""
    floor, loaded = make_floor(size), state.carried != NOTHING
    ways = jnp.asarray(measure_ways(size))
    ahead = state.cells + jnp.asarray(floor.ahead)[state.directions]
    targets, has_task = find_tasks(floor, state, ways)
    go_key, where_key = jax.random.split(key)
    highways = jnp.asarray(np.flatnonzero(floor.highway).astype(np.int32))
    is_fed_up = (mind.blocked >= PATIENCE) & jax.random.bernoulli(go_key, 0.5, targets.shape)
    detour = jnp.where(is_fed_up, DETOUR, jnp.maximum(mind.detour - 1, 0))
    drawn = jax.random.choice(where_key, highways, targets.shape)
    elsewhere = jnp.where(is_fed_up, drawn, mind.elsewhere)
    goes = jnp.where(detour > 0, elsewhere, targets)
    load = loaded.astype(jnp.int32)
    is_taken = (ahead[:, None] == state.cells).any(axis=1)
    is_open = jnp.asarray(floor.inside)[ahead]
    forward = ways[load, ahead, state.directions, goes] + OCCUPIED * is_taken
    options = jnp.stack(
        [
            jnp.where(is_open, forward, FAR),
            ways[load, state.cells, jnp.asarray(TURN_LEFT)[state.directions], goes],
            ways[load, state.cells, jnp.asarray(TURN_RIGHT)[state.directions], goes],
        ]
    )
    actions = jnp.array([FORWARD, LEFT, RIGHT])[options.argmin(axis=0)]
    actions = jnp.where(state.cells == goes, NOOP, actions)
    arrives = has_task & (state.cells == targets) & ~is_at_goal(floor.goals, targets)
    actions = jnp.where(arrives, TOGGLE, actions)
    return actions, Mind(
        mind.blocked,
        detour,
        elsewhere,
        (actions == FORWARD) | (actions == LEFT) | (actions == RIGHT),
    )


def is_at_goal(goals: tuple[int, int], cells: Int[Array, "N"]) -> Bool[Array, "N"]:
    return (cells == goals[0]) | (cells == goals[1])


def find_tasks(
    floor: Floor, state: State, ways: Int[Array, "2 cells 4 cells"]
) -> tuple[Int[Array, "N"], Bool[Array, "N"]]:
    """Where each agent is to go, and who has something to do there."""
    loaded = state.carried != NOTHING
    here = ways[loaded.astype(jnp.int32), state.cells, state.directions]  # [N, cells]
    goals = jnp.asarray(floor.goals)
    nearest = goals[here[:, goals].argmin(axis=1)]
    is_requested = (state.carried[:, None] == state.requests).any(axis=1)
    home = jnp.asarray(floor.homes)[state.carried]
    is_waiting = ~(state.requests[:, None] == state.carried).any(axis=1)
    cost = jnp.where(is_waiting & ~loaded[:, None], here[:, state.shelves[state.requests]], FAR)
    chosen = match(cost, MOST_BUSY - loaded.sum())
    sought = state.shelves[state.requests[chosen]]
    targets = jnp.where(loaded, jnp.where(is_requested, nearest, home), sought)
    has_task = loaded | (chosen >= 0)
    homes = jnp.asarray(floor.homes)
    aside = homes[here[:, homes].argmin(axis=1)]  # who has nothing to do leaves the highways
    return jnp.where(has_task, targets, aside), has_task


def match(cost: Int[Array, "N Q"], most: Int[Array, ""]) -> Int[Array, "N"]:
    """Pairs one by one, the cheapest first, and not more than `most`: the column of each row, -1
    for none."""

    def pair(index: int, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        cost, chosen = carry
        best = cost.argmin()
        row, column = best // cost.shape[1], best % cost.shape[1]
        is_good = (cost[row, column] < FAR) & (index < most)
        chosen = chosen.at[row].set(jnp.where(is_good, column, chosen[row]))
        blocked = cost.at[row].set(FAR).at[:, column].set(FAR)
        return jnp.where(is_good, blocked, cost), chosen

    start = (cost, jnp.full(cost.shape[0], -1, jnp.int32))
    return jax.lax.fori_loop(0, min(cost.shape), pair, start)[1]


@lru_cache
def measure_ways(size: Size) -> np.ndarray:
    """[2, cells, 4, cells] int16: steps from a cell and direction to a cell, empty and loaded.

    Turns count. Who is loaded passes over highways alone, except into the last cell.
    """
    floor = make_floor(size)
    num_cells = floor.inside.size
    cells = np.arange(num_cells)
    found = []
    for is_loaded in (False, True):
        steps = np.full((num_cells, 4, num_cells), FAR, np.int16)
        steps[cells, :, cells] = 0
        is_free = floor.highway if is_loaded else floor.inside
        may_enter = is_free[:, None] | np.eye(num_cells, dtype=bool) & floor.inside[:, None]
        while True:
            better = steps.copy()
            for direction in range(4):
                ahead = np.clip(cells + floor.ahead[direction], 0, num_cells - 1)
                forward = np.where(may_enter[ahead], steps[ahead, direction], FAR)
                turned = np.minimum(steps[:, TURN_LEFT[direction]], steps[:, TURN_RIGHT[direction]])
                reached = 1 + np.minimum(forward, turned)
                better[:, direction] = np.minimum(steps[:, direction], reached)
            if (better == steps).all():
                break
            steps = better
        found.append(steps)
    return np.stack(found)
