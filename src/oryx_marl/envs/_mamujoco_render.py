"""Pictures of MuJoCo's robots, drawn from their geoms: no display or OpenGL is needed."""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int, UInt8

from oryx_marl.envs import base

HEIGHT, WIDTH = 72, 128
METRES = 3.6
"""Of the world that a picture is wide."""
SKY, GROUND, LINE = (244, 241, 233), (229, 224, 212), (196, 190, 176)
TORSO = (120, 128, 140)
AGENTS = (
    (232, 134, 40),
    (0, 142, 132),
    (150, 126, 168),
    (202, 50, 44),
    (70, 110, 180),
    (160, 150, 60),
)
"""Colours of the parts that each agent moves."""
STRIPES = 0.5
"""Metres between marks on the ground, by which one sees the robot move."""
SPHERE, CAPSULE, BOX = 2, 3, 6
"""MuJoCo's numbers of the shapes that are drawn; a box as a line of half its width."""


class Scene(NamedTuple):
    """Thick lines from `ends[:, 0]` to `ends[:, 1]`, from back to front."""

    ends: Float[np.ndarray, "geoms 2 2"]
    """Right and up, in metres, from the middle of the picture."""
    radii: Float[np.ndarray, " geoms"]
    owners: Int[np.ndarray, " geoms"]
    """The agent that moves it, or -1."""
    ground: float
    """Height of the ground in the picture; above it is sky. All is ground from above."""
    shift: float
    """How far the robot has moved over the ground."""


def rgb(
    model: Any,
    qpos: Float[np.ndarray, " nq"],
    motors: Int[np.ndarray, "N A"],
    seen_from_above: bool,
) -> UInt8[np.ndarray, "height width 3"]:
    """The robot in the middle, in the colours of its agents; from its side or from above."""
    return _draw(_look(model, qpos, motors, seen_from_above))


def _look(
    model: Any,
    qpos: Float[np.ndarray, " nq"],
    motors: Int[np.ndarray, "N A"],
    seen_from_above: bool,
) -> Scene:
    mujoco: Any = base.optional("mujoco")
    data = mujoco.MjData(model)
    data.qpos[:] = qpos
    mujoco.mj_kinematics(model, data)
    geoms = np.flatnonzero(
        np.isin(model.geom_type, (SPHERE, CAPSULE, BOX)) & (model.geom_bodyid > 0)
    )
    axes = data.geom_xmat.reshape(-1, 3, 3)[geoms, :, 2]
    half = np.where(model.geom_type[geoms] == CAPSULE, model.geom_size[geoms, 1], 0.0)
    middles, reach = data.geom_xpos[geoms], axes * half[:, None]
    ends = np.stack([middles - reach, middles + reach], axis=1)
    root = middles.mean(axis=0)
    root[2] = 0.0
    ends = ends - root
    up = 1 if seen_from_above else 2
    depth = ends[..., 2].mean(axis=1) if seen_from_above else -ends[..., 1].mean(axis=1)
    order = np.argsort(depth, kind="stable")
    return Scene(
        ends[order][..., [0, up]],
        model.geom_size[geoms, 0][order],
        _find_owners(model, motors)[model.geom_bodyid[geoms]][order],
        np.inf if seen_from_above else 0.0,
        float(root[0]),
    )


def _find_owners(model: Any, motors: Int[np.ndarray, "N A"]) -> Int[np.ndarray, " bodies"]:
    """Whose each body is: of the agent that moves its joint, else of its parent's agent."""
    owners = np.full(model.nbody, -1)
    agent_of = {int(motor): agent for agent, row in enumerate(motors) for motor in row}
    moved = {
        int(model.jnt_bodyid[model.actuator_trnid[motor, 0]]): agent
        for motor, agent in agent_of.items()
    }
    for body in range(1, model.nbody):
        owners[body] = moved.get(body, owners[model.body_parentid[body]])
    return owners


def _draw(scene: Scene) -> UInt8[np.ndarray, "height width 3"]:
    right, up = _pixels()
    is_side = np.isfinite(scene.ground)
    middle = 0.8 if is_side else 0.0  # the robot stands on the lower part of the picture
    up = up + middle
    picture = np.empty((HEIGHT, WIDTH, 3))
    picture[:] = SKY
    ground = up < scene.ground if is_side else np.ones_like(up, bool)
    marks = np.mod(right + scene.shift, STRIPES) < METRES / WIDTH
    picture[ground] = GROUND
    picture[ground & marks] = LINE
    for (start, end), radius, owner in zip(scene.ends, scene.radii, scene.owners, strict=True):
        colour = TORSO if owner < 0 else AGENTS[owner % len(AGENTS)]
        amount = _cover(right, up, start, end, radius)[..., None]
        picture = picture * (1 - amount) + np.array(colour) * amount
    return np.rint(picture).astype(np.uint8)


def _cover(
    right: Float[np.ndarray, "height width"],
    up: Float[np.ndarray, "height width"],
    start: Float[np.ndarray, "2"],
    end: Float[np.ndarray, "2"],
    radius: float,
) -> Float[np.ndarray, "height width"]:
    """How much of each pixel lies within `radius` of the line; in quarters, for few colours."""
    along = end - start
    length = float(along @ along)
    from_start = (right - start[0]) * along[0] + (up - start[1]) * along[1]
    share = np.clip(from_start / length, 0, 1) if length > 0 else np.zeros_like(right)
    distance = np.hypot(right - start[0] - share * along[0], up - start[1] - share * along[1])
    pixel = METRES / WIDTH
    covered: Float[np.ndarray, "height width"] = np.clip((radius - distance) / pixel + 0.5, 0, 1)
    return np.rint(4 * covered) / 4


@lru_cache
def _pixels() -> tuple[np.ndarray, np.ndarray]:
    """Right and up of each pixel's middle, in metres."""
    pixel = METRES / WIDTH
    columns = (np.arange(WIDTH) - (WIDTH - 1) / 2) * pixel
    rows = ((HEIGHT - 1) / 2 - np.arange(HEIGHT)) * pixel
    right, up = np.meshgrid(columns, rows)
    return right, up
