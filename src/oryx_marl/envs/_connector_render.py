"""Pictures of Connector, in characters and in pixels; every agent has a colour of its own."""

import colorsys
from functools import lru_cache

import numpy as np
from jaxtyping import Bool, Float, Int, UInt8

FLOOR = (244, 241, 233)
LINE = (221, 216, 204)
"""Thin lines between the cells."""
MARKS = "~@x"
"""Trail, head and target, in the order of their codes."""
PALE = 0.4
"""How much of its colour a trail has."""


def text(grid: Int[np.ndarray, "G G"], connected: Bool[np.ndarray, "N"], step: int) -> str:
    """The board under a line with the step and how many are connected."""
    width = len(str(len(connected) - 1)) + 1

    def show(code: int) -> str:
        agent, kind = divmod(code - 1, 3)
        return ("." if code == 0 else f"{MARKS[kind]}{agent}").ljust(width)

    rows = [" ".join(show(int(code)) for code in row).rstrip() for row in grid]
    title = f"step {step}: {int(connected.sum())} of {len(connected)} connected"
    return "\n".join([title, *rows])


def rgb(
    grid: Int[np.ndarray, "G G"], connected: Bool[np.ndarray, "N"], step: int
) -> UInt8[np.ndarray, "height width 3"]:
    """The board: heads are discs, trails pale cells, targets frames; both where they met."""
    del step
    size = len(grid)
    cell = max(12, min(32, 400 // size))
    agent, kind = np.divmod(np.maximum(grid - 1, 0), 3)
    look = np.where(grid > 0, 1 + kind, 0)
    look = np.where((look == 2) & connected[agent], 4, look)
    amount = _looks(cell)[look][..., None]
    tint = _colours(len(connected))[agent][:, :, None, None]
    picture = _tile(cell) * (1 - amount) + tint * amount
    return np.rint(picture).astype(np.uint8).swapaxes(1, 2).reshape(size * cell, size * cell, 3)


@lru_cache
def _colours(count: int) -> Float[np.ndarray, "N 3"]:
    """Hues a golden section apart, so that neighbours in number are far apart in colour."""
    hues = [(0.38 + 0.618034 * index) % 1 for index in range(count)]
    shades = [(0.85, 0.75), (0.65, 0.55), (0.95, 0.95)]
    return np.array(
        [colorsys.hsv_to_rgb(hue, *shades[i % len(shades)]) for i, hue in enumerate(hues)]
    ) * np.array(255.0)


@lru_cache
def _tile(cell: int) -> Float[np.ndarray, "cell cell 3"]:
    tile = np.full((cell, cell, 3), FLOOR, float)
    tile[0], tile[:, -1] = LINE, LINE
    return tile


@lru_cache
def _looks(cell: int) -> Float[np.ndarray, "5 cell cell"]:
    """How much of its agent's colour each pixel has: free, trail, head, target, connected."""
    axis = np.arange(cell) - (cell - 1) / 2
    disc = np.clip(0.36 * cell + 0.5 - np.hypot(axis[:, None] - 0.5, axis + 0.5), 0, 1)
    frame, thick = np.zeros((cell, cell)), max(2, cell // 8)
    frame[2:-1, 1:-2] = 1
    frame[2 + thick : -1 - thick, 1 + thick : -2 - thick] = 0
    trail = np.zeros((cell, cell))
    trail[1:, :-1] = PALE
    head = np.maximum(disc, trail)
    return np.stack([np.zeros((cell, cell)), trail, head, frame, np.maximum(head, frame)])
