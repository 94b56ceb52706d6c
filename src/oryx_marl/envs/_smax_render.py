"""Pictures of SMAX, in characters and in pixels. Units are numbered allies first."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, UInt8

SCALE = 12
"""Pixels for one unit of length."""
FLOOR = (244, 241, 233)
LINE = (221, 216, 204)
RING = (32, 36, 44)
LETTER = (255, 255, 255)
COLOURS = ((44, 110, 190), (206, 66, 52))
"""Allies and enemies."""
LETTERS = "MRSZLH"
"""Marine, marauder, stalker, zealot, zergling, hydralisk."""
GLYPHS = {
    "M": "101111111101101",
    "R": "110101110101101",
    "S": "011100010001110",
    "Z": "111001010100111",
    "L": "100100100100111",
    "H": "101101111101101",
}
"""Three pixels wide, five high."""

Colour = tuple[int, int, int]


class Scene(NamedTuple):
    """What there is to draw."""

    size: tuple[int, int]
    """Width and height of the field."""
    places: np.ndarray
    """[units, 2] float: x and y, y upwards."""
    types: np.ndarray
    """[units] int."""
    radii: np.ndarray
    """[units] float."""
    health: np.ndarray
    """[units] float: share that is left; the dead have none."""
    victims: np.ndarray
    """[units] int: whom each unit attacked last, or -1."""
    step: int

    @property
    def team_size(self) -> int:
        return len(self.places) // 2


def text(scene: Scene) -> str:
    """The field, one character per unit of length, under a line with the step and who is left."""
    width, height = scene.size
    picture = np.full((height, width), ".")
    alive = np.flatnonzero(scene.health > 0)
    for unit in alive:
        x, y = np.clip(scene.places[unit].astype(int), 0, (width - 1, height - 1))
        letter = LETTERS[scene.types[unit]]
        picture[y, x] = letter if unit < scene.team_size else letter.lower()
    allies = int((alive < scene.team_size).sum())
    title = f"step {scene.step}: {allies} allies (capitals), {len(alive) - allies} enemies"
    return "\n".join([title, *(" ".join(row) for row in picture[::-1])])


def rgb(scene: Scene) -> UInt8[np.ndarray, "height width 3"]:
    """The field: pale discs, filled as far as they are healthy; thin lines are attacks."""
    width, height = scene.size
    canvas = np.full((height * SCALE, width * SCALE, 3), FLOOR, float)
    canvas[:: 4 * SCALE] = canvas[:, :: 4 * SCALE] = LINE
    # (row, column) of every unit in pixels, row 0 at the top.
    spots = (scene.places * (1, -1) + (0, height))[:, ::-1] * SCALE
    alive = np.flatnonzero(scene.health > 0)
    for unit in alive:
        if scene.victims[unit] >= 0:
            colour = COLOURS[int(unit >= scene.team_size)]
            _stroke(canvas, spots[unit], spots[scene.victims[unit]], 1.5, colour)
    for unit in alive:
        colour = COLOURS[int(unit >= scene.team_size)]
        pale: Colour = tuple(round(0.3 * c + 0.7 * 255) for c in colour)  # type: ignore[assignment]
        wide = max(2 * scene.radii[unit] * SCALE, 11)
        layers = [(wide + 2, RING), (wide, pale), (wide * np.sqrt(scene.health[unit]), colour)]
        for diameter, fill in layers:
            _stroke(canvas, spots[unit], spots[unit], diameter, fill)
        _write(canvas, spots[unit], LETTERS[scene.types[unit]])
    return np.rint(canvas).astype(np.uint8)


def _stroke(
    canvas: Float[np.ndarray, "height width 3"],
    start: Float[np.ndarray, "2"],
    end: Float[np.ndarray, "2"],
    width: float | np.floating,
    colour: Colour,
) -> None:
    """A line with round ends, so a disc where it ends at its start; painted onto the canvas."""
    limits = np.array(canvas.shape[:2])
    low = np.clip(np.minimum(start, end) - width / 2 - 1, 0, limits).astype(int)
    high = np.clip(np.maximum(start, end) + width / 2 + 2, 0, limits).astype(int)
    rows, columns = np.mgrid[low[0] : high[0], low[1] : high[1]] + 0.5 - start[:, None, None]
    way = end - start
    along = (rows * way[0] + columns * way[1]) / max(way @ way, 1e-9)
    along = np.clip(along, 0, 1)
    distance = np.hypot(rows - along * way[0], columns - along * way[1])
    cover = np.clip(width / 2 + 0.5 - distance, 0, 1)[..., None]
    part = canvas[low[0] : high[0], low[1] : high[1]]
    part[:] = part * (1 - cover) + np.array(colour) * cover


def _write(
    canvas: Float[np.ndarray, "height width 3"], spot: Float[np.ndarray, "2"], letter: str
) -> None:
    """A letter in the middle of a unit; what would stick out of the picture is left out."""
    glyph = np.array([*GLYPHS[letter]]).reshape(5, 3) == "1"
    rows, columns = np.argwhere(glyph).T + np.rint(spot - (2.5, 1.5)).astype(int)[:, None]
    inside = (rows >= 0) & (rows < canvas.shape[0]) & (columns >= 0) & (columns < canvas.shape[1])
    canvas[rows[inside], columns[inside]] = LETTER
