"""Pictures of RWARE, in characters and in pixels."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, UInt8

HIGHWAY = (244, 241, 233)
PLACE = (229, 224, 212)
"""Where shelves may stand."""
GOAL = (120, 128, 140)
LINE = (221, 216, 204)
SHELVES = ((0, 0, 0), (150, 126, 168), (0, 142, 132))
"""None, one, a requested one."""
AGENT = (232, 134, 40)
LOADED = (202, 50, 44)
MARK = (40, 40, 46)
ARROWS = "^v<>"
"""Up, down, left, right."""
MARKS = ".x$"
"""No shelf, one, a requested one."""


class Scene(NamedTuple):
    """What is drawn; the border is left out."""

    shelves: Int[np.ndarray, "rows columns"]
    """0 none, 1 a shelf, 2 a requested one."""
    highway: Bool[np.ndarray, "rows columns"]
    goals: Bool[np.ndarray, "rows columns"]
    places: Int[np.ndarray, "N 2"]
    """Row and column."""
    directions: Int[np.ndarray, "N"]
    carries: Bool[np.ndarray, "N"]
    step: int
    deliveries: int


def text(scene: Scene) -> str:
    """The floor under a line with the step: x shelves, $ requested ones, G goals, _ empty places of
    shelves, arrows agents; an agent with a shelf has its mark behind the number."""
    width = len(str(len(scene.places) - 1)) + 3
    empty = np.where(scene.goals, "G", np.where(scene.highway, ".", "_"))
    marks = np.where(scene.shelves > 0, np.array(list(MARKS))[scene.shelves], empty).tolist()
    for agent, (row, column) in enumerate(scene.places):
        load = marks[row][column] if scene.carries[agent] else ""
        marks[row][column] = f"{ARROWS[scene.directions[agent]]}{agent}{load}"
    title = f"step {scene.step}: {scene.deliveries} delivered"
    rows = ["".join(mark.ljust(width) for mark in row).rstrip() for row in marks]
    return "\n".join([title, *rows])


def rgb(scene: Scene) -> UInt8[np.ndarray, "height width 3"]:
    """The floor: shelves are squares, agents discs over them, with a mark in their direction."""
    rows, columns = scene.shelves.shape
    cell = max(9, min(28, 560 // max(rows, columns)))
    block, discs = _square(cell), _discs(cell)
    ground = np.where(scene.highway[..., None], HIGHWAY, PLACE)
    ground = np.where(scene.goals[..., None], GOAL, ground)
    tiles = np.broadcast_to(ground[:, :, None, None], (rows, columns, cell, cell, 3)).astype(float)
    tiles = tiles.copy()
    tiles[:, :, 0], tiles[:, :, :, -1] = LINE, LINE
    amount = (scene.shelves > 0)[..., None, None, None] * block
    tiles = tiles * (1 - amount) + np.array(SHELVES)[scene.shelves][:, :, None, None] * amount
    for place, direction, carries in zip(
        scene.places, scene.directions, scene.carries, strict=True
    ):
        body, mark = discs[direction]
        tile = tiles[tuple(place)] * (1 - body) + np.array(LOADED if carries else AGENT) * body
        tiles[tuple(place)] = tile * (1 - mark) + np.array(MARK) * mark
    picture = np.rint(tiles).astype(np.uint8)
    return picture.swapaxes(1, 2).reshape(rows * cell, columns * cell, 3)


@lru_cache
def _square(cell: int) -> Float[np.ndarray, "cell cell 1"]:
    square = np.zeros((cell, cell, 1))
    square[2:-1, 1:-2] = 1
    return square


@lru_cache
def _discs(cell: int) -> Float[np.ndarray, "4 2 cell cell 1"]:
    """How much of each pixel is an agent's, and its mark's, by direction."""
    axis = np.arange(cell) - (cell - 1) / 2
    rows, columns = axis[:, None] - 0.5, axis[None, :] + 0.5
    body = np.clip(0.38 * cell + 0.5 - np.hypot(rows, columns), 0, 1)
    found = []
    for down, right in ((-1, 0), (1, 0), (0, -1), (0, 1)):
        there = np.hypot(rows - 0.22 * cell * down, columns - 0.22 * cell * right)
        found.append([body, np.clip(0.13 * cell + 0.5 - there, 0, 1)])
    return np.array(found)[..., None]
