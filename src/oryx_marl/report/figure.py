"""Pictures for documents: each one SVG file that needs no style sheet."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

import numpy as np

from oryx_marl.report import numbers
from oryx_marl.report.charts import Axis, axis

WIDTH, HEIGHT = 640, 320
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 40, 48
"""Margins around the drawing."""
COLOURS = ("#1f6f70", "#a65f1a", "#5b4b9a", "#a3341f", "#3f7d3a", "#7a7a7a")

Line = tuple[np.ndarray, np.ndarray]
"""Places and heights of its points."""


class Point(NamedTuple):
    """A value with its interval."""

    at: float
    value: float
    low: float
    high: float
    is_lost: bool = False
    """A cross at the foot instead: what it says is not to be compared."""


def lines(title: str, across_title: str, up_title: str, series: Mapping[str, Line]) -> str:
    """One line per entry, named in a legend."""
    across = axis([0.0, *np.concatenate([x for x, _ in series.values()]).tolist()], is_tight=True)
    up = axis([0.0, *np.concatenate([y for _, y in series.values()]).tolist()])
    drawing = []
    for number, (name, (x, y)) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(f"{_x(across, a):.1f},{_y(up, b):.1f}" for a, b in zip(x, y, strict=True))
        drawing.append(
            f'<polyline fill="none" stroke="{colour}" stroke-width="1.8" points="{path}"/>'
        )
        drawing.append(_key(name, colour, len(series) - 1 - number))
    labels = {across.label(tick): _x(across, tick) for tick in across.ticks}
    return _frame(title, across_title, up_title, labels, up, "".join(drawing))


def points(
    title: str, across_title: str, up_title: str, series: Mapping[str, Sequence[Point]]
) -> str:
    """One line per entry through its points, each with its interval; entries stand side by side."""
    found = [point for each in series.values() for point in each]
    across = axis([0.0, *(point.at for point in found)], is_tight=True)
    ends = [value for point in found if not point.is_lost for value in (point.low, point.high)]
    up, foot = axis([0.0, *ends]), HEIGHT - BOTTOM - 5
    drawing = []
    for number, (name, each) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        aside = 4 * (number - (len(series) - 1) / 2)
        every = [(_x(across, point.at) + aside, point) for point in each]
        places = [place for place in every if not place[1].is_lost]
        line = " ".join(f"{x:.1f},{_y(up, point.value):.1f}" for x, point in places)
        drawing.append(
            f'<polyline fill="none" stroke="{colour}" stroke-width="1.8" points="{line}"/>'
        )
        for x, point in places:
            drawing.append(
                f'<path d="M{x:.1f} {_y(up, point.low):.1f}V{_y(up, point.high):.1f}" '
                f'stroke="{colour}" stroke-width="1.4"/>'
                f'<circle cx="{x:.1f}" cy="{_y(up, point.value):.1f}" r="3" fill="{colour}"/>'
            )
        for x in (x for x, point in every if point.is_lost):
            cross = f"M{x - 4:.1f} {foot - 4}l8 8m0 -8l-8 8"
            drawing.append(f'<path d="{cross}" stroke="{colour}" stroke-width="2"/>')
        drawing.append(_key(name, colour, len(series) - 1 - number))
    labels = {across.label(tick): _x(across, tick) for tick in across.ticks}
    return _frame(title, across_title, up_title, labels, up, "".join(drawing))


def _key(name: str, colour: str, from_below: int) -> str:
    """An entry of the legend."""
    x, y = WIDTH - RIGHT - 110, HEIGHT - BOTTOM - 14 - 18 * from_below
    return (
        f'<path d="M{x} {y - 4}h22" stroke="{colour}" stroke-width="3"/>'
        f'<text x="{x + 28}" y="{y}">{escape(name)}</text>'
    )


def bars(title: str, across_title: str, up_title: str, counts: Mapping[str, float]) -> str:
    """One bar per entry, with its height written on it."""
    up = axis([0.0, *counts.values()])
    share = (WIDTH - LEFT - RIGHT) / len(counts)
    drawing, labels = [], {}
    for number, (name, count) in enumerate(counts.items()):
        middle, top = LEFT + share * (number + 0.5), _y(up, count)
        drawing.append(
            f'<rect x="{middle - share * 0.3:.1f}" y="{top:.1f}" width="{share * 0.6:.1f}" '
            f'height="{HEIGHT - BOTTOM - top:.1f}" fill="{COLOURS[0]}"/>'
            f'<text x="{middle:.1f}" y="{top - 5:.1f}" text-anchor="middle">'
            f"{numbers.one(count)}</text>"
        )
        labels[name] = middle
    return _frame(title, across_title, up_title, labels, up, "".join(drawing))


def _frame(
    title: str, across_title: str, up_title: str, labels: dict[str, float], up: Axis, drawing: str
) -> str:
    """A drawing with its title, grid, ticks and names of the axes."""
    grid = "".join(
        f'<path d="M{LEFT} {_y(up, tick):.1f}H{WIDTH - RIGHT}" stroke="#dddddd"/>'
        f'<text x="{LEFT - 8}" y="{_y(up, tick) + 4:.1f}" text-anchor="end">{up.label(tick)}</text>'
        for tick in up.ticks
    )
    below = "".join(
        f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{escape(name)}</text>'
        for name, x in labels.items()
    )
    middle = (TOP + HEIGHT - BOTTOM) / 2
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'font-family="sans-serif" font-size="12" fill="#1f2428">'
        f"<title>{escape(title)}</title>"
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>'
        f'<text x="{LEFT}" y="22" font-size="14" font-weight="bold">{escape(title)}</text>'
        f"{grid}{below}{drawing}"
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 10}" text-anchor="middle">'
        f"{escape(across_title)}</text>"
        f'<text transform="translate(16 {middle}) rotate(-90)" text-anchor="middle">'
        f"{escape(up_title)}</text></svg>\n"
    )


def _x(across: Axis, value: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * across.share(value)


def _y(up: Axis, value: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * up.share(value)
