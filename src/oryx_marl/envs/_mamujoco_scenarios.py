"""Names of multi-agent MuJoCo's tasks, and what they stand for; without MuJoCo and JAX."""

import re
from typing import Any

from oryx_marl.envs._mamujoco_robots import ROBOTS
from oryx_marl.errors import OryxError

VIEWS = ("gymnasium", "omar", "omiga")
"""What agents see: see `_mamujoco_views.py`."""
TASKS = tuple(
    f"mamujoco-{name}-{each}" for name, robot in ROBOTS.items() for each in robot.factorisations
)
SCENARIOS = (*TASKS, "any of them with -obsk<K>, -omar or -omiga behind")
PATTERN = (
    r"mamujoco[-_](?P<robot>[a-z0-9]+)[-_](?P<agents>[a-z0-9]+)"
    r"(?:[-_](?:obsk(?P<obsk>\d+)|(?P<view>omar|omiga)))?"
)
MOST_DISTANT = 100
"""No robot has so many joints."""


def find_scenario(name: str) -> dict[str, Any] | None:
    """The settings of a task, also in gymnasium-robotics' capitals: mamujoco-HalfCheetah-6x1."""
    found = re.fullmatch(PATTERN, name.lower())
    if found is None:
        return None
    config: dict[str, Any] = {
        "robot": found["robot"],
        "agents": found["agents"],
        "view": found["view"] or VIEWS[0],
        "obsk": min(int(found["obsk"]), MOST_DISTANT) if found["obsk"] else 1,
    }
    if found["view"]:
        del config["obsk"]
    check_config(**config)
    return config


def name_of(robot: str, agents: str, view: str, obsk: int) -> str:
    """The shortest name of a task."""
    plain = f"mamujoco-{robot}-{agents}"
    if view != VIEWS[0]:
        return f"{plain}-{view}"
    return plain if obsk == 1 else f"{plain}-obsk{obsk}"


def check_config(robot: str, agents: str, view: str = VIEWS[0], obsk: int = 1) -> None:
    """Raises unless there is such a task."""
    if robot not in ROBOTS:
        raise OryxError(
            f"mamujoco: there is no robot '{robot}'; the tasks are: {', '.join(TASKS)}. Others of "
            "gymnasium-robotics can be named as package.module:make"
        )
    known = ROBOTS[robot].factorisations
    if agents not in known:
        raise OryxError(
            f"mamujoco: {robot} is not split into '{agents}'; it is into: {', '.join(known)}"
        )
    if view not in VIEWS:
        raise OryxError(f"mamujoco: view must be one of {', '.join(VIEWS)}, got '{view}'")
    if not isinstance(obsk, int) or obsk < 0:
        raise OryxError(f"mamujoco: obsk must be a whole number from 0 on, got {obsk!r}")
