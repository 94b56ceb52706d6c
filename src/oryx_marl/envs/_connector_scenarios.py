"""Names of Connector's scenarios, and what they stand for; without JAX, so that lists are quick."""

import re
from typing import Any

from oryx_marl import limits
from oryx_marl.errors import OryxError

SIZES = ((5, 3), (7, 5), (10, 10), (15, 23), (18, 30), (22, 40), (25, 50))
"""(G, N) of the paper's scenarios."""
SCENARIOS = (*(f"con-{size}x{size}x{agents}a" for size, agents in SIZES), "any con-<G>x<G>x<N>a")
OBSERVATION_MODES = ("published", "clean")


def find_scenario(name: str) -> dict[str, Any] | None:
    """The settings of con-<G>x<G>x<N>a, with -clean behind it of the clean features."""
    found = re.fullmatch(r"con-(\d+)x(\d+)x(\d+)a(?:-(\w+))?", name)
    if found is None:
        return None
    rows, columns, num_agents = (int(number) for number in found.groups()[:3])
    if rows != columns:
        raise OryxError(f"{name}: boards are square, such as con-{rows}x{rows}x{num_agents}a")
    mode = found[4] or OBSERVATION_MODES[0]
    check_config(rows, num_agents, mode)
    return {"grid_size": rows, "num_agents": num_agents, "observation_mode": mode}


def check_config(grid_size: int, num_agents: int, observation_mode: str) -> None:
    """Raises unless there are such boards."""
    limits.require_whole("connector", grid_size=grid_size, num_agents=num_agents)
    limits.require("connector's board", grid_size**2, limits.BOARD_CELLS, "cells")
    limits.require("connector", num_agents, limits.AGENTS, "agents")
    if num_agents < 1:
        raise OryxError(f"connector: num_agents must be at least 1, got {num_agents}")
    # Heads and first moves are placed pair by pair, at random: up to here there is always room.
    if 4 * num_agents > grid_size**2:
        raise OryxError(
            f"connector: {num_agents} agents need a board of at least 4 cells each, got "
            f"{grid_size} x {grid_size}"
        )
    if observation_mode not in OBSERVATION_MODES:
        raise OryxError(
            f"connector: observation_mode must be one of {', '.join(OBSERVATION_MODES)}, "
            f"got '{observation_mode}'"
        )
