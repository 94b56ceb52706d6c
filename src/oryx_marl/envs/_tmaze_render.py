"""Pictures of the T-Maze, in characters and in pixels.

A scene holds the maze as a padded array (True: a cell) and everything in it as (row, column) of
that array, row 0 at the bottom.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, UInt8

CELL = 32
"""Pixels a side."""
WALL = (52, 58, 70)
FLOOR = (244, 241, 233)
LINE = (221, 216, 204)
"""Thin lines between the cells."""
COLOURS = ((38, 155, 92), (240, 138, 36))
"""Green and orange."""
UNDECIDED = (150, 156, 166)
RING = (32, 36, 44)
DOT = (255, 255, 255)
NAMES = ("green", "orange")


class Scene(NamedTuple):
    """What there is to draw."""

    maze: np.ndarray
    """[rows, columns] bool."""
    goals: list[tuple[int, int]]
    """The cell of each colour's goal."""
    agents: list[tuple[int, int]]
    colours: list[int]
    """Each agent's colour, -1 before the choice."""
    step: int


def text(scene: Scene) -> str:
    """The maze, top row first, under a line with the step and who wants which goal."""
    picture = np.where(scene.maze, ".", "#")
    for name, cell in zip(NAMES, scene.goals, strict=True):
        picture[cell] = name[0].upper()
    for agent, cell in enumerate(scene.agents):
        picture[cell] = str(agent)
    wants = [NAMES[colour] if colour >= 0 else "undecided" for colour in scene.colours]
    title = ", ".join(f"agent_{agent} {want}" for agent, want in enumerate(wants))
    return "\n".join([f"step {scene.step}: {title}", *(" ".join(row) for row in picture[::-1])])


def rgb(scene: Scene) -> UInt8[np.ndarray, "height width 3"]:
    """The maze, top row first: goals are coloured cells, agents discs with one or two dots."""
    tiles = np.stack([_tile(WALL, WALL), _tile(FLOOR, LINE)])
    board = tiles[scene.maze.astype(np.int8)]
    for tint, cell in zip(COLOURS, scene.goals, strict=True):
        board[cell] = _goal(tint)
    for agent, (cell, colour) in enumerate(zip(scene.agents, scene.colours, strict=True)):
        picture, cover = _disc(agent, COLOURS[colour] if colour >= 0 else UNDECIDED)
        board[cell] = np.rint(board[cell] * (1 - cover) + picture * cover)
    rows, columns = scene.maze.shape
    return board[::-1].swapaxes(1, 2).reshape(rows * CELL, columns * CELL, 3)


Colour = tuple[int, int, int]


@lru_cache
def _tile(fill: Colour, line: Colour) -> UInt8[np.ndarray, "height width 3"]:
    """A plain cell; its top and right line belong to it, so that lines are one pixel thin."""
    tile = np.full((CELL, CELL, 3), fill, np.uint8)
    tile[0], tile[:, -1] = line, line
    return tile


@lru_cache
def _goal(colour: Colour) -> UInt8[np.ndarray, "height width 3"]:
    """A pale cell with a frame, on which a disc of the same colour still stands out."""
    pale = np.rint(0.35 * np.array(colour) + 0.65 * np.array(FLOOR))
    tile = _tile(FLOOR, LINE).copy()
    tile[2:-1, 1:-2] = colour
    tile[5:-4, 4:-5] = pale
    return tile


@lru_cache
def _disc(
    agent: int, colour: Colour
) -> tuple[Float[np.ndarray, "height width 3"], Float[np.ndarray, "height width 1"]]:
    """An agent's picture and how far it covers each pixel."""
    picture = np.full((CELL, CELL, 3), RING, float)
    spread = 4.2 * agent
    layers = [(0.0, 9.5, colour), (-spread, 2.5, DOT), (spread, 2.5, DOT)]
    for offset, radius, fill in layers:
        cover = _circle(offset, radius)
        picture = picture * (1 - cover) + np.array(fill) * cover
    return picture, _circle(0.0, 11.5)


def _circle(offset: float, radius: float) -> Float[np.ndarray, "height width 1"]:
    """Share of each pixel inside a circle that is `offset` pixels right of the cell's centre."""
    axis = np.arange(CELL) - (CELL - 1) / 2
    distance = np.hypot(axis[:, None] - 0.5, axis[None, :] + 0.5 - offset)
    return np.clip(radius + 0.5 - distance, 0, 1)[..., None]
