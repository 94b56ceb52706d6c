"""Steps of rware 2.0 itself, with all that chance decided in them, as arrays of our rules."""

from typing import Any

import gymnasium
import numpy as np
from rware.warehouse import RewardType, Warehouse

from oryx_marl.envs._rware_rules import NOTHING
from oryx_marl.envs.rware import Rware

REWARD_TYPES = {
    "individual": RewardType.INDIVIDUAL,
    "global": RewardType.GLOBAL,
    "two-stage": RewardType.TWO_STAGE,
}
CROWDED_STEPS = 50
"""After which a crowd is placed anew, so that it stays one."""
CROWDED_ACTIONS = (0.05, 0.7, 0.08, 0.08, 0.09)


class Draws:
    """The generator of a warehouse, which notes the requests that it draws one by one."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.noted: list[int] = []

    def choice(self, items: Any, size: int | None = None, replace: bool = True) -> Any:
        if size is not None:
            return self.rng.choice(items, size=size, replace=replace)
        self.noted.append(int(self.rng.integers(len(items))))
        return items[self.noted[-1]]


def make(ours: Rware) -> Warehouse:
    """rware's warehouse of the same settings."""
    return Warehouse(
        shelf_columns=ours.size.shelf_columns,
        column_height=ours.size.column_height,
        shelf_rows=ours.size.shelf_rows,
        n_agents=ours.spec.num_agents,
        msg_bits=0,
        sensor_range=1,
        request_queue_size=ours.num_requests,
        max_inactivity_steps=None,
        max_steps=500,
        reward_type=REWARD_TYPES[ours.reward],
    )


def make_registered(name: str) -> Warehouse:
    """The warehouse that rware has under a name."""
    import rware  # noqa: F401  (registers them)

    return gymnasium.make(name).unwrapped


def snapshot(env: Warehouse) -> dict[str, np.ndarray]:
    """What is where, in our arrays."""
    stride = env.grid_size[1] + 2
    return {
        "cells": np.array([(a.y + 1) * stride + a.x + 1 for a in env.agents]),
        "directions": np.array([a.dir.value for a in env.agents]),
        "carried": np.array(
            [a.carrying_shelf.id - 1 if a.carrying_shelf else NOTHING for a in env.agents]
        ),
        "has_delivered": np.array([a.has_delivered for a in env.agents]),
        "shelves": np.array([(s.y + 1) * stride + s.x + 1 for s in env.shelfs]),
        "requests": np.array([s.id - 1 for s in env.request_queue]),
        "step_count": np.array(env._cur_steps),
    }


def crowd(env: Warehouse, rng: np.random.Generator) -> None:
    """All agents close together before the goals, most of them with a requested shelf."""
    height, width = env.grid_size
    near = [
        (x, y)
        for y in range(height - 5, height)
        for x in range(width // 2 - 3, width // 2 + 3)
        if env.highways[y, x]
    ]
    for agent, place in zip(env.agents, rng.permutation(near), strict=False):
        agent.x, agent.y = (int(number) for number in place)
    loads = rng.permutation([*env.request_queue, *env.shelfs[:3]])
    for agent, shelf in zip(env.agents, loads, strict=False):
        if env.highways[agent.y, agent.x] and shelf not in [a.carrying_shelf for a in env.agents]:
            agent.carrying_shelf = shelf
            shelf.x, shelf.y = agent.x, agent.y
    env._recalc_grid()


def record(ours: Rware, steps: int, seed: int, crowded: bool) -> dict[str, Any]:
    """`before` and `after` (snapshots), actions, draws, observations and rewards, [steps, ...]."""
    env, rng, draws = make(ours), np.random.default_rng(seed), Draws(seed)
    env._np_random = draws
    found: dict[str, list[Any]] = {name: [] for name in NAMES}
    done, goal = True, env.goals[0]
    for index in range(steps):
        if done or (crowded and index % CROWDED_STEPS == 0):
            env.reset()
            if crowded:
                crowd(env, rng)
        before, draws.noted = snapshot(env), []
        chances = CROWDED_ACTIONS if crowded else (0.2,) * 5
        actions = rng.choice(5, size=ours.spec.num_agents, p=chances)
        observations, rewards, done, _, _ = env.step(actions.tolist())
        is_left = env.grid[1, goal[1], goal[0]] - 1 in before["requests"]
        noted = draws.noted if is_left else [0, *draws.noted]
        row = (before, snapshot(env), actions, [*noted, 0][:2], observations, rewards, done)
        for name, value in zip(NAMES, row, strict=True):
            found[name].append(value)
    return {
        name: {key: np.stack([each[key] for each in values]) for key in values[0]}
        if name in ("before", "after")
        else np.array(values)
        for name, values in found.items()
    }


NAMES = ("before", "after", "actions", "draws", "observations", "rewards", "done")
