"""Inline SVG charts: the learning curve, the histogram of returns, one small chart per metric.

Lines and bars are SVG in a box of 1000 by 1000 that stretches to any width; letters are HTML placed
by percentages, so that they keep their size on a phone. Colours come from the style sheet.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from jaxtyping import Float

from oryx_marl.report import numbers

BOX = 1000
"""Width and height of the drawing, in its own units."""
MOST_POINTS = 200
"""A small chart draws no more points than it has pixels for."""

Shape = tuple[Float[np.ndarray, "points"], Float[np.ndarray, "points"]]
"""Values, and how often they occur."""


@dataclass(frozen=True)
class Axis:
    """Where values lie along one side of a chart."""

    low: float
    high: float
    ticks: tuple[float, ...]
    is_log: bool = False
    """Values are base-10 logarithms; only the labels show it."""
    names: tuple[str, ...] = ()
    """Texts that stand at the ticks instead of numbers."""

    def share(self, value: float) -> float:
        """0 at the low end, 1 at the high end."""
        return (value - self.low) / (self.high - self.low)

    def label(self, tick: float) -> str:
        """The text of a tick."""
        if self.names:
            return escape(self.names[self.ticks.index(tick)])
        return numbers.short(10.0**tick if self.is_log else tick)


def axis(
    values: Sequence[float],
    intervals: int = 4,
    *,
    is_tight: bool = False,
    bounds: tuple[float, float] | None = None,
) -> Axis:
    """An axis with round ticks around all finite values; `is_tight` ends where the values end.

    It never leaves `bounds`, between which all values lie.
    """
    finite = [value for value in values if math.isfinite(value)] or [0.0, 1.0]
    low, high = min(finite), max(finite)
    if high - low <= 1e-12 * max(1.0, abs(low), abs(high)):
        if is_tight:
            return Axis(low - 0.5, high + 0.5, (low,))
        margin = 0.5 * max(1.0, abs(low))
        low, high = (low - margin, high + margin) if low else (0.0, 1.0)
        if bounds is not None:
            low, high = bounds
    step = _round_step((high - low) / intervals)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    ticks = tuple(round(place * step, 12) for place in range(first, last + 1))
    if bounds is not None:
        ticks = tuple(tick for tick in ticks if bounds[0] <= tick <= bounds[1])
    if is_tight:
        inside = tuple(tick for tick in ticks if low <= tick <= high)
        return Axis(low, high, inside)
    return Axis(ticks[0], ticks[-1], ticks)


def learning_curve(
    updates: Float[np.ndarray, "points"],
    scores: Float[np.ndarray, "S points"],
    mean: Float[np.ndarray, "points"],
    low: Float[np.ndarray, "points"],
    high: Float[np.ndarray, "points"],
    reference: float,
    bounds: tuple[float, float] | None = None,
) -> str:
    """Mean, band and one faint line per seed over updates; `reference` is a dashed level."""
    across = axis([0.0, *updates.tolist()], is_tight=True)
    up = axis(
        [*scores.ravel().tolist(), *low.tolist(), *high.tolist(), reference], 5, bounds=bounds
    )
    drawing = [_band(across, up, updates, low, high)]
    if math.isfinite(reference):
        drawing.append(_line(across, up, np.array([across.low, across.high]), reference, "level"))
    drawing += [_line(across, up, updates, seed, "seed") for seed in scores]
    drawing.append(_line(across, up, updates, mean, "mean"))
    drawing.append(_dots(across, up, updates, mean))
    halves = (updates[1:] + updates[:-1]) / 2
    borders = [across.low, *halves.tolist(), across.high]
    for place, update in enumerate(updates.tolist()):
        texts = numbers.together([mean[place], low[place], high[place]])
        interval = f" [{texts[1]}, {texts[2]}]" if math.isfinite(low[place]) else ""
        left, right = _x(across, borders[place]), _x(across, borders[place + 1])
        drawing.append(
            f'<rect class="touch" x="{_u(left)}" y="0" width="{_u(right - left)}" height="{BOX}">'
            f"<title>update {numbers.one(update)}: {texts[0]}{interval}</title></rect>"
        )
    described = f"Mean return over {len(scores)} seeds against gradient updates"
    return _plot("".join(drawing), across, up, described, "gradient updates", "curve")


def histogram(
    edges: Float[np.ndarray, "edges"],
    counts: Float[np.ndarray, "bins"],
    levels: dict[str, float],
    title: str = "return of an episode",
    noun: str = "episodes",
    kind: str = "histogram",
) -> str:
    """Bars of counts of a noun; `levels` are upright lines, by the class that styles each.

    A single bin stands for a single value, so it is drawn as a narrow bar in the middle.
    """
    if len(counts) == 1:
        low, high = edges
        middle, half = (low + high) / 2, (high - low) / 40
        edges = np.array([low, middle - half, middle + half, high])
        counts = np.array([0.0, counts[0], 0.0])
    across = axis([*edges.tolist(), *levels.values()], is_tight=True)
    up = axis([0.0, *counts.tolist()], 3)
    bars = []
    for left, right, count in zip(edges[:-1], edges[1:], counts, strict=True):
        x, top = _x(across, left), _y(up, count)
        name = f"{numbers.one(left)} to {numbers.one(right)}: {numbers.one(count)} {escape(noun)}"
        bars.append(
            f'<rect class="bar" x="{_u(x)}" y="{_u(top)}" width="{_u(_x(across, right) - x)}" '
            f'height="{_u(BOX - top)}"><title>{name}</title></rect>'
        )
    for style, value in levels.items():
        place = _u(_x(across, value))
        bars.append(f'<path class="{escape(style)}" d="M{place} 0V{BOX}"/>')
    total = f"{numbers.one(float(counts.sum()))} {noun}"
    described = f"Histogram of {total}" + (f" by {title}" if title else "")
    return _plot("".join(bars), across, up, described, title, kind)


def violins(shapes: dict[str, Shape]) -> str:
    """One upright shape per name: values, and how wide it is (at most 1) at each of them.

    A single value is a line across.
    """
    up = axis([value for values, _ in shapes.values() for value in values.tolist()], 5)
    places = tuple(float(place) for place in range(len(shapes)))
    across = Axis(-0.5, len(shapes) - 0.5, places, names=tuple(shapes))
    drawing = []
    for place, (name, (values, width)) in zip(places, shapes.items(), strict=True):
        sides = np.concatenate([place - 0.4 * width, (place + 0.4 * width)[::-1]])
        heights = np.concatenate([values, values[::-1]])
        points = "L".join(
            f"{_u(_x(across, x))} {_u(_y(up, y))}" for x, y in zip(sides, heights, strict=True)
        )
        if points:
            title = f"<title>{escape(name)}</title>"
            drawing.append(f'<path class="body" d="M{points}Z">{title}</path>')
    return _plot("".join(drawing), across, up, "Densities of returns", "", "violins")


def ranges(
    low: Float[np.ndarray, "bars"],
    high: Float[np.ndarray, "bars"],
    middle: Float[np.ndarray, "bars"],
    title: str,
) -> str:
    """One upright bar from low to high per entry, with a dot at its middle."""
    across = axis([-0.5, len(low) - 0.5], is_tight=True)
    up = axis([*low.tolist(), *high.tolist()])
    bars = []
    for place, (bottom, top) in enumerate(zip(low, high, strict=True)):
        if not (math.isfinite(bottom) and math.isfinite(top)):
            continue
        y, height = _y(up, top), _y(up, bottom) - _y(up, top)
        ends = f"{numbers.one(bottom)} to {numbers.one(top)}"
        name = f"{place}: {ends}, mean {numbers.one(middle[place])}"
        left, right = _x(across, place - 0.4), _x(across, place + 0.4)
        bars.append(
            f'<rect class="bar" x="{_u(left)}" y="{_u(y)}" width="{_u(right - left)}" '
            f'height="{_u(max(height, 2))}"><title>{name}</title></rect>'
        )
    places = np.arange(len(low), dtype=np.float64)
    dots = _dots(across, up, places, middle)
    return _plot("".join(bars) + dots, across, up, f"Ranges: {title}", title, "histogram")


def small(
    updates: Float[np.ndarray, "lines"],
    values: Float[np.ndarray, "S lines"],
    name: str,
    bounds: tuple[float, float] | None = None,
) -> str:
    """One logged metric: the mean over seeds and the range of all seeds, spikes included."""
    bins = np.array_split(np.arange(len(updates)), min(len(updates), MOST_POINTS))
    at = np.array([updates[part].mean() for part in bins])
    finite = np.where(np.isfinite(values), values, np.nan)
    parts = [finite[:, part][np.isfinite(finite[:, part])] for part in bins]
    mean = np.array([part.mean() if part.size else np.nan for part in parts])
    low = np.array([part.min() if part.size else np.nan for part in parts])
    high = np.array([part.max() if part.size else np.nan for part in parts])
    lows, means = low[np.isfinite(low)], mean[np.isfinite(mean)]
    is_log = bool(lows.size and lows.min() > 0 and np.ptp(np.log10(means)) > 2)
    if is_log:
        mean, low, high = np.log10(mean), np.log10(low), np.log10(high)
        ends = (float(np.floor(np.nanmin(low))), float(np.ceil(np.nanmax(high))))
    else:
        ticks = axis([*low.tolist(), *high.tolist()], 2, bounds=bounds).ticks
        ends = (ticks[0], ticks[-1])
    up = Axis(*ends, ends, is_log)
    across = axis(updates.tolist(), 2, is_tight=True)
    across = Axis(across.low, across.high, (across.low, across.high))
    drawing = _band(across, up, at, low, high) + _line(across, up, at, mean, "mean")
    described = f"{name} against gradient updates" + (", logarithmic" if is_log else "")
    return _plot(drawing, across, up, described, "log scale" if is_log else "", "small")


def _plot(drawing: str, across: Axis, up: Axis, described: str, title: str, kind: str) -> str:
    """A drawing with its grid and the labels around it."""
    grid = "".join(f'<path class="grid" d="M0 {_u(_y(up, t))}H{BOX}"/>' for t in up.ticks)
    lefts = "".join(
        f'<span style="bottom:{_u(100 * up.share(t))}%">{up.label(t)}</span>' for t in up.ticks
    )
    bottoms = "".join(
        f'<span{_edge(across.share(t))} style="left:{_u(100 * across.share(t))}%">'
        f"{across.label(t)}</span>"
        for t in across.ticks
    )
    name = f'<div class="title">{escape(title)}</div>' if title else ""
    return (
        f'<div class="plot {kind}" role="img" aria-label="{escape(described)}">'
        f'<div class="up">{lefts}</div>'
        f'<svg viewBox="0 0 {BOX} {BOX}" preserveAspectRatio="none">{grid}{drawing}</svg>'
        f'<div class="across">{bottoms}</div>{name}</div>'
    )


def _line(
    across: Axis,
    up: Axis,
    x: Float[np.ndarray, "points"],
    y: Float[np.ndarray, "points"] | float,
    kind: str,
) -> str:
    """A line through all finite points, broken where one is missing."""
    words, pen = [], "M"
    for left, height in zip(x, np.broadcast_to(y, x.shape), strict=True):
        if math.isfinite(height):
            words.append(f"{pen}{_u(_x(across, left))} {_u(_y(up, height))}")
            pen = "L"
        else:
            pen = "M"
    return f'<path class="{kind}" d="{"".join(words)}"/>'


def _dots(
    across: Axis, up: Axis, x: Float[np.ndarray, "points"], y: Float[np.ndarray, "points"]
) -> str:
    """A dot per finite point: strokes without length keep their round ends when stretched."""
    pairs = [(a, b) for a, b in zip(x, y, strict=True) if math.isfinite(b)]
    places = "".join(f"M{_u(_x(across, a))} {_u(_y(up, b))}h0" for a, b in pairs)
    return f'<path class="dots" d="{places}"/>'


def _band(
    across: Axis,
    up: Axis,
    x: Float[np.ndarray, "points"],
    low: Float[np.ndarray, "points"],
    high: Float[np.ndarray, "points"],
) -> str:
    """The area between two lines, where both are finite."""
    there = np.isfinite(low) & np.isfinite(high)
    if there.sum() < 2:
        return ""
    over = [
        f"{_u(_x(across, a))} {_u(_y(up, b))}" for a, b in zip(x[there], high[there], strict=True)
    ]
    back = [
        f"{_u(_x(across, a))} {_u(_y(up, b))}" for a, b in zip(x[there], low[there], strict=True)
    ]
    return f'<path class="band" d="M{"L".join(over + back[::-1])}Z"/>'


def _x(across: Axis, value: float) -> float:
    """Left is 0."""
    return BOX * across.share(value)


def _y(up: Axis, value: float) -> float:
    """Top is 0."""
    return BOX * (1 - up.share(value))


def _edge(share: float) -> str:
    """A label at an end of the chart stays inside of it."""
    if share < 0.02:
        return ' class="start"'
    return ' class="end"' if share > 0.97 else ""


def _u(value: float) -> str:
    """A coordinate in few letters."""
    return f"{round(float(value), 1) + 0.0:g}"


def _round_step(rough: float) -> float:
    """The 1, 2 or 5 times a power of ten at or above a rough step."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * nice for nice in (1, 2, 5, 10) if power * nice >= rough * (1 - 1e-9))
