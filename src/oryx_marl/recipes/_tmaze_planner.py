"""An optimal planner for both agents of a T-Maze at once, and the logs it leaves.

Two agents on C cells have C² joint states, few enough to tabulate: every joint move is tried once
in the real environment, distances to the joint goal are searched backwards, and a joint move is
optimal if it leads one step closer.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Int8

from oryx_marl.envs.tmaze import CHOOSE_0, MOVES, NUM_ACTIONS, NUM_AGENTS, State, TMaze
from oryx_marl.errors import OryxError
from oryx_marl.types import Observation, Spec

JOINT_MOVES = np.indices((len(MOVES),) * NUM_AGENTS, np.int32).reshape(NUM_AGENTS, -1).T
"""[25, N]: every pair of the five moves."""
UNREACHABLE = 10**6
EPISODES_PER_CALL = 2048
"""Episodes of one compiled call; the logs do not depend on it."""


@dataclass(frozen=True)
class Behaviour:
    """How far a logged episode departs from the plan."""

    noise_levels: tuple[float, ...]
    """One is drawn for each episode: the probability, for each agent and step, of a uniformly
    random legal action in place of the planned one."""
    random_colours: float
    """Probability of an episode in which each agent draws its colour by itself, so that half of
    these episodes cannot be solved; in all others the colours differ."""


BEHAVIOURS = {
    "planner-expert": Behaviour(noise_levels=(0.0,), random_colours=0.0),
    "planner-mixed": Behaviour(noise_levels=(0.0, 0.2, 0.4, 0.6, 0.8), random_colours=0.5),
}
"""Of the episodes of the default maze whose colours differ, the noise levels of the second solve
about 1.00, 0.98, 0.67, 0.19 and 0.02; as a quarter has the same colour twice, its mean return is
about 0.43. Both ends matter: clean solutions to learn from, and wanderings that lead nowhere."""


class Plan(NamedTuple):
    """The tables, by the sides (0 left, 1 right) of both agents' goals and by both cells."""

    cells: np.ndarray
    """[cells, 2] int32: row and column of each cell."""
    distances: np.ndarray
    """[2, 2, cells, cells] int32: moves to the joint goal."""
    optimal: np.ndarray
    """[2, 2, cells, cells, 25] bool: the legal joint moves that lead one step closer."""


class Log(NamedTuple):
    """Episodes as they were played, [T, ...] each; steps after the end are not live."""

    observations: jax.Array
    action_mask: jax.Array
    actions: jax.Array
    rewards: jax.Array
    terminals: jax.Array
    truncations: jax.Array
    state: jax.Array
    live: jax.Array
    """[T] bool."""


def make_plan(env: TMaze) -> Plan:
    """Search the joint state space of a maze.

    The joint goal are the joint states with the smallest sum of both agents' ways to their goals:
    both goals where the colours differ; where they do not, one agent on the goal and the other
    beside it, as the two cannot share it.
    """
    successors, allowed = _transitions(env)
    ways = np.abs(env.cells[:, None] - env.goals).sum(axis=-1)  # exact: a T has no detours
    shape = (len(env.cells), len(env.cells))
    distances = np.empty((2, 2, *shape), np.int32)
    optimal = np.empty((2, 2, *shape, len(JOINT_MOVES)), bool)
    for sides in np.ndindex(2, 2):
        costs = ways[:, None, sides[0]] + ways[None, :, sides[1]]
        np.fill_diagonal(costs, UNREACHABLE)
        found = _search(costs.ravel() == costs.min(), successors, allowed)
        closer = allowed & (found[successors] == np.maximum(found - 1, 0)[:, None])
        distances[sides] = found.reshape(shape)
        optimal[sides] = closer.reshape(*shape, -1)
    return Plan(env.cells, distances, optimal)


def _transitions(
    env: TMaze,
) -> tuple[Int[np.ndarray, "joint moves"], Bool[np.ndarray, "joint moves"]]:
    """The joint state each joint move leads to, and whether it is legal for both agents."""
    cells = env.cells
    first, second = np.indices((len(cells), len(cells))).reshape(2, -1)
    positions = jnp.asarray(np.stack([cells[first], cells[second]], axis=1))

    def move(positions: Array, actions: Array) -> tuple[Array, Array]:
        state = State(positions, jnp.bool_(True), jnp.arange(NUM_AGENTS), jnp.int32(1))
        state, step = env.step(state, actions, jax.random.key(0))
        return state.positions, step.observation.action_mask

    over_moves = jax.vmap(move, in_axes=(None, 0))
    moved, masks = jax.jit(jax.vmap(over_moves, in_axes=(0, None)))(positions, JOINT_MOVES)
    # The first joint move is to stay, so the mask after it is the mask before any move.
    of_each = np.asarray(masks)[:, 0]
    is_cell = np.all(np.asarray(moved)[..., None, :] == cells, axis=-1)
    successors = is_cell.argmax(axis=-1) @ np.array([len(cells), 1])
    allowed = of_each[:, 0][:, JOINT_MOVES[:, 0]] & of_each[:, 1][:, JOINT_MOVES[:, 1]]
    return successors, allowed


def _search(
    is_goal: Bool[np.ndarray, "joint"],
    successors: Int[np.ndarray, "joint moves"],
    allowed: Bool[np.ndarray, "joint moves"],
) -> Int[np.ndarray, "joint"]:
    """Moves to the goal from every joint state, breadth first and backwards."""
    distances = np.where(is_goal, 0, UNREACHABLE)
    frontier, depth = is_goal, 0
    while frontier.any():
        depth += 1
        frontier = np.any(allowed & frontier[successors], axis=1) & (distances == UNREACHABLE)
        distances[frontier] = depth
    return distances


def record(
    env: TMaze, behaviour: Behaviour, rows: int, seed: int
) -> tuple[Spec, dict[str, np.ndarray]]:
    """Whole episodes, cut after the first one with which `rows` steps are reached."""
    if rows < 1:
        raise OryxError(f"a dataset needs at least one row, got rows={rows}")
    plan, key = make_plan(env), jax.random.key(seed)
    levels = jnp.array(behaviour.noise_levels, jnp.float32)
    colours = jnp.array(behaviour.random_colours, jnp.float32)
    logs: list[Log] = []
    finals: list[np.ndarray] = []
    total = 0
    while total < rows:
        first = len(logs) * EPISODES_PER_CALL
        indices = jnp.arange(first, first + EPISODES_PER_CALL)
        log, final = jax.device_get(_play(env, plan, levels, colours, key, indices))
        logs.append(log)
        finals.append(final)
        total += int(log.live.sum())
    log = jax.tree.map(lambda *parts: np.concatenate(parts), *logs)
    ends = np.cumsum(log.live.sum(axis=1, dtype=np.int64))
    count = int(np.searchsorted(ends, rows)) + 1
    live = log.live[:count]
    arrays = {name: part[:count][live] for name, part in log._asdict().items() if name != "live"}
    arrays["final_observations"] = np.concatenate(finals)[:count]
    arrays["episode_starts"] = np.append(0, ends[: count - 1])
    return env.spec, arrays


@partial(jax.jit, static_argnums=0)
def _play(
    env: TMaze,
    plan: Plan,
    noise_levels: Float[Array, "levels"],
    random_colours: Float[Array, ""],
    key: jax.Array,
    indices: Int[Array, "E"],
) -> tuple[Log, Int8[Array, "E N O"]]:
    """One episode for each index: its log and its last observation."""

    def play(index: Array) -> tuple[Log, Array]:
        episode_key, noise_key, colour_key = jax.random.split(jax.random.fold_in(key, index), 3)
        noise = jax.random.choice(noise_key, noise_levels)
        colours = _draw_colours(random_colours, colour_key)
        return _play_episode(env, plan, noise, colours, episode_key)

    return jax.vmap(play)(indices)


def _play_episode(
    env: TMaze, plan: Plan, noise: Float[Array, ""], colours: Int[Array, "N"], key: jax.Array
) -> tuple[Log, Int8[Array, "N O"]]:
    reset_key, draws_key, step_key = jax.random.split(key, 3)
    state, first = env.reset(reset_key)

    Carry = tuple[State, Observation, Array, Array]

    def advance(carry: Carry, draws: Array) -> tuple[Carry, Log]:
        state, observation, known, live = carry
        moves = _draw_moves(env, plan, state, observation.action_mask, noise, draws)
        actions = jnp.where(state.step_count == 0, CHOOSE_0 + colours, moves)
        next_state, step = env.step(state, actions, step_key)  # the maze draws nothing from it
        log = Log(
            observation.features,
            observation.action_mask,
            actions,
            step.rewards,
            step.terminal,
            step.truncated,
            known,
            live,
        )
        # After its end an episode stands still, so its last observation is what remains.
        state, observation, known = jax.tree.map(
            partial(jnp.where, live),
            (next_state, step.observation, step.state),
            (state, observation, known),
        )
        return (state, observation, known, live & ~step.terminal.any()), log

    # All random numbers of an episode at once: one generator compiles, not one for each use.
    numbers = len(JOINT_MOVES) + NUM_AGENTS * NUM_ACTIONS + NUM_AGENTS
    draws = jax.random.uniform(draws_key, (env.time_limit, numbers))
    assert first.state is not None
    carry = (state, first.observation, first.state, jnp.bool_(True))
    (_, last, _, _), log = jax.lax.scan(advance, carry, draws)
    return log, last.features


def _draw_colours(random_colours: Float[Array, ""], key: jax.Array) -> Int[Array, "N"]:
    """Different colours, whose is which at random, or now and then each at random."""
    pair_key, is_random_key = jax.random.split(key)
    drawn = jax.random.bernoulli(pair_key, shape=(NUM_AGENTS,)).astype(jnp.int32)
    different = jnp.stack([drawn[0], 1 - drawn[0]])
    is_random = jax.random.bernoulli(is_random_key, random_colours)
    return jnp.where(is_random, drawn, different)


def _draw_moves(
    env: TMaze,
    plan: Plan,
    state: State,
    action_mask: Bool[Array, "N A"],
    noise: Float[Array, ""],
    draws: Float[Array, "numbers"],
) -> Int[Array, "N"]:
    """An optimal joint move, ties broken at random; each agent's may give way to a random one.

    The largest of equally distributed numbers is equally likely to be any of them.
    """
    ends = np.cumsum([len(JOINT_MOVES), action_mask.size])
    for_plan, for_random, for_noise = jnp.split(draws, ends)
    sides = jnp.all(env.targets(state) == jnp.asarray(env.goals[1]), axis=-1).astype(jnp.int32)
    here = jnp.all(state.positions[:, None] == jnp.asarray(plan.cells), axis=-1).argmax(axis=-1)
    best = jnp.asarray(plan.optimal)[sides[0], sides[1], here[0], here[1]]
    planned = jnp.asarray(JOINT_MOVES)[jnp.where(best, for_plan, -1).argmax()]
    random = jnp.where(action_mask, for_random.reshape(action_mask.shape), -1).argmax(axis=-1)
    return jnp.where(for_noise < noise, random, planned)
