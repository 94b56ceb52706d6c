"""The robots of multi-agent MuJoCo: what gymnasium's -v5 tasks and their factorisations consist of.

Without MuJoCo, so that names are listed where it is not installed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float

Positions = Float[np.ndarray, "E nq"]
Velocities = Float[np.ndarray, "E nv"]
Partition = tuple[tuple[str, ...], ...]
"""Names of each agent's joints, in the order of its action."""


@dataclass(frozen=True)
class Robot:
    """One task: its model, its rewards and ends, its joints and who moves them."""

    model: str
    """File of gymnasium's that describes the bodies."""
    frame_skip: int
    """Steps of the physics in one of the environment."""
    num_hidden: int
    """Leading positions that nobody sees: where on the ground the robot is."""
    control_cost: float
    reset_noise: float
    velocity_noise: Literal["normal", "uniform"]
    edges: tuple[tuple[str, ...], ...]
    """Joints that are neighbours of each other."""
    factorisations: Mapping[str, Partition]
    """By gymnasium-robotics' names."""
    root_positions: tuple[int, ...]
    """Of the robot as a whole, which every agent sees."""
    root_velocities: tuple[int, ...]
    is_healthy: Callable[[Positions, Velocities], Bool[np.ndarray, " E"]] | None = None
    """Whether the episode goes on, with a reward of 1; None where robots cannot fall."""
    velocity_limit: float = np.inf
    """Velocities in the global state are clipped there."""
    seen_velocity_limit: float = np.inf
    """The same of the observations."""
    joint_bodies: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Bodies whose contact forces belong to a joint; empty where no force is observed."""
    joint_velocities: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Velocities that are seen with a joint, where it is not its own alone."""
    contact_cost: float = 0.0
    distance_of_body: int | None = None
    """The body whose way is rewarded; None: the first position's."""

    @property
    def has_contacts(self) -> bool:
        """Whether contact forces are part of the state."""
        return bool(self.joint_bodies)


def _hopper_stands(qpos: Positions, qvel: Velocities) -> Bool[np.ndarray, " E"]:
    rest = np.concatenate([qpos, qvel], axis=1)[:, 2:]
    height, angle = qpos[:, 1], qpos[:, 2]
    is_bounded = ((rest > -100.0) & (rest < 100.0)).all(axis=1)
    return is_bounded & (height > 0.7) & (angle > -0.2) & (angle < 0.2)


def _walker_stands(qpos: Positions, qvel: Velocities) -> Bool[np.ndarray, " E"]:
    height, angle = qpos[:, 1], qpos[:, 2]
    return (height > 0.8) & (height < 2.0) & (angle > -1.0) & (angle < 1.0)


def _ant_stands(qpos: Positions, qvel: Velocities) -> Bool[np.ndarray, " E"]:
    is_finite = np.isfinite(qpos).all(axis=1) & np.isfinite(qvel).all(axis=1)
    return is_finite & (qpos[:, 2] >= 0.2) & (qpos[:, 2] <= 1.0)


def _leg(number: int) -> tuple[str, str]:
    return f"hip_{number}", f"ankle_{number}"


_BACK, _FRONT = ("bthigh", "bshin", "bfoot"), ("fthigh", "fshin", "ffoot")
_HOPPER = ("thigh_joint", "leg_joint", "foot_joint")
_RIGHT = ("foot_joint", "leg_joint", "thigh_joint")
_LEFT = ("foot_left_joint", "leg_left_joint", "thigh_left_joint")
_SWIMMER = ("motor1_rot", "motor2_rot")
_LEGS = {number: 3 * number - 1 for number in (1, 2, 3, 4)}
"""The first body of each leg of the ant: leg, aux and ankle follow each other."""

ROBOTS: dict[str, Robot] = {
    "halfcheetah": Robot(
        model="half_cheetah.xml",
        frame_skip=5,
        num_hidden=1,
        control_cost=0.1,
        reset_noise=0.1,
        velocity_noise="normal",
        edges=(
            ("bfoot", "bshin"),
            ("bshin", "bthigh"),
            ("bthigh", "fthigh"),
            ("fthigh", "fshin"),
            ("fshin", "ffoot"),
        ),
        factorisations={
            "2x3": (_BACK, _FRONT),
            "6x1": tuple((joint,) for joint in (*_BACK, *_FRONT)),
        },
        root_positions=(1, 2),
        root_velocities=(0, 1, 2),
    ),
    "hopper": Robot(
        model="hopper.xml",
        frame_skip=4,
        num_hidden=1,
        control_cost=1e-3,
        reset_noise=5e-3,
        velocity_noise="uniform",
        edges=(("foot_joint", "leg_joint"), ("leg_joint", "thigh_joint")),
        factorisations={"3x1": tuple((joint,) for joint in _HOPPER)},
        root_positions=(1, 2),
        root_velocities=(0, 1, 2),
        is_healthy=_hopper_stands,
        velocity_limit=10.0,
        seen_velocity_limit=10.0,
    ),
    "walker2d": Robot(
        model="walker2d_v5.xml",
        frame_skip=4,
        num_hidden=1,
        control_cost=1e-3,
        reset_noise=5e-3,
        velocity_noise="uniform",
        edges=(
            ("foot_joint", "leg_joint"),
            ("leg_joint", "thigh_joint"),
            ("foot_left_joint", "leg_left_joint"),
            ("leg_left_joint", "thigh_left_joint"),
            ("thigh_joint", "thigh_left_joint"),
        ),
        factorisations={"2x3": (_RIGHT, _LEFT)},
        root_positions=(1, 2),
        root_velocities=(0, 1, 2),
        is_healthy=_walker_stands,
        velocity_limit=10.0,  # the state's alone: gymnasium-robotics shows agents the rest
    ),
    "swimmer": Robot(
        model="swimmer.xml",
        frame_skip=4,
        num_hidden=2,
        control_cost=1e-4,
        reset_noise=0.1,
        velocity_noise="uniform",
        edges=(_SWIMMER,),
        factorisations={"2x1": tuple((joint,) for joint in _SWIMMER)},
        root_positions=(2,),
        root_velocities=(2,),
        joint_velocities={"motor1_rot": (0, 3), "motor2_rot": (1, 4)},
    ),
    "ant": Robot(
        model="ant.xml",
        frame_skip=5,
        num_hidden=2,
        control_cost=0.5,
        contact_cost=5e-4,
        reset_noise=0.1,
        velocity_noise="normal",
        edges=(*(_leg(number) for number in _LEGS), tuple(f"hip_{n}" for n in _LEGS)),
        factorisations={
            "2x4": (_leg(1) + _leg(2), _leg(3) + _leg(4)),
            "2x4d": (_leg(1) + _leg(4), _leg(2) + _leg(3)),
            "4x2": tuple(_leg(number) for number in _LEGS),
        },
        root_positions=(2, 3, 4, 5, 6),
        root_velocities=(0, 1, 2, 3, 4, 5),
        is_healthy=_ant_stands,
        joint_bodies={
            **{f"hip_{number}": (1, first) for number, first in _LEGS.items()},
            **{f"ankle_{number}": (first, first + 1, first + 2) for number, first in _LEGS.items()},
        },
        distance_of_body=1,
    ),
}
"""By the names on the command line."""
