"""Recorded episodes as the pictures of a film: a title, then every step above a strip of text."""

import math
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import UInt8

from oryx_marl.errors import OryxError
from oryx_marl.installation import optional
from oryx_marl.report import numbers
from oryx_marl.report.gif import GifWriter
from oryx_marl.report.mp4 import Mp4Writer
from oryx_marl.runs.replay import Episode

FORMATS = {".gif": "GIF", ".mp4": "MP4"}
TITLE_SECONDS = 1.5
END_SECONDS = 0.6
"""How long the last picture of an episode is shown at least."""
SLOWEST, FASTEST = 4, 30
"""Pictures per second where nobody says how many."""
EPISODE_SECONDS = 20
"""How long an episode may take where nobody says how fast; longer ones are shown faster."""
MOST_FPS = 50
"""GIFs count time in hundredths of a second, and browsers slow down what is faster than this."""
SMALLEST = 320
"""Pixels of a film's width, and of the larger side of a picture that is enlarged by itself."""
LEAST_HEIGHT = 160
LARGEST = 4096
"""Pixels of a film's side: decoders in browsers show no more."""
TEXT = 13
"""Pixels of the letters."""
STRIP = 24
MARGIN = 6
LEVELS = 3
"""Shades between the colours of text and paper, few so that a GIF's palette has room for others."""


class Shot(NamedTuple):
    """A picture and how long it is shown."""

    picture: UInt8[np.ndarray, "H W 3"]
    seconds: float


@dataclass(frozen=True)
class Layout:
    """Sizes of a film, in pixels."""

    height: int
    width: int
    scale: int
    fps: int

    @classmethod
    def choose(
        cls, size: tuple[int, int], longest: int, fps: int | None, scale: int | None
    ) -> "Layout":
        """For pictures of a height and width, and for the pictures of the longest episode."""
        if fps is None:
            fps = min(FASTEST, max(SLOWEST, math.ceil(longest / EPISODE_SECONDS)))
        if not 1 <= fps <= MOST_FPS:
            raise OryxError(f"fps must be from 1 to {MOST_FPS}, got {fps}")
        if scale is None:
            scale = max(1, SMALLEST // max(size))
        if scale < 1:
            raise OryxError(f"scale must be at least 1, got {scale}")
        height, width = (_even(scale * side) for side in size)
        height, width = max(height + STRIP, LEAST_HEIGHT), max(width, SMALLEST)
        if max(height, width) > LARGEST:
            raise OryxError(
                f"the film would have {width:,} x {height:,} pixels, more than {LARGEST:,} a side; "
                f"choose a smaller scale than {scale}"
            )
        return cls(height, width, scale, fps)


def _even(pixels: int) -> int:
    """MP4 has colours for every second pixel."""
    return pixels + pixels % 2


def make_writer(suffix: str, layout: Layout, title: str) -> GifWriter | Mp4Writer:
    """What writes a file of an ending."""
    if suffix == ".gif":
        return GifWriter(layout.height, layout.width, title)
    return Mp4Writer(layout.height, layout.width, title, layout.fps)


def shots(episodes: Iterable[Episode], count: int, title: str, layout: Layout) -> Iterator[Shot]:
    """The title, and then all steps of all episodes, of which there are `count`."""
    yield Shot(_draw_title(title, layout), TITLE_SECONDS)
    for number, episode in enumerate(episodes, 1):
        last = len(episode.frames) - 1
        for place, frame in enumerate(episode.frames):
            told = tell_step(episode, place, number, count)
            seconds = max(1 / layout.fps, END_SECONDS if place == last else 0.0)
            yield Shot(_draw_step(frame, told, layout), seconds)


def tell_step(episode: Episode, place: int, number: int, count: int) -> str:
    """What stands below a picture: the episode's number, the step and the return so far."""
    step, so_far = min(place * episode.every, episode.length), sum(episode.rewards[:place])
    is_last = place == len(episode.frames) - 1
    return (
        f"episode {number} of {count} · step {step} of {episode.length} · "
        f"return{'' if is_last else ' so far'} {numbers.one(so_far)}"
    )


def _draw_step(
    frame: UInt8[np.ndarray, "h w 3"], told: str, layout: Layout
) -> UInt8[np.ndarray, "H W 3"]:
    """A step's picture in the middle, above what is told of it."""
    canvas = np.full((layout.height, layout.width, 3), 255, np.uint8)
    scaled = frame.repeat(layout.scale, axis=0).repeat(layout.scale, axis=1)
    height, width = layout.height - STRIP, layout.width
    scaled = scaled[:height, :width]  # a file may hold pictures of several sizes
    top, left = ((height - scaled.shape[0]) // 2, (width - scaled.shape[1]) // 2)
    canvas[top : top + scaled.shape[0], left : left + scaled.shape[1]] = scaled
    _write(canvas, told, MARGIN, height + (STRIP - TEXT) // 2 - 1, TEXT)
    return canvas


def _draw_title(title: str, layout: Layout) -> UInt8[np.ndarray, "H W 3"]:
    """The sentence, in letters that are as large as there is room for."""
    canvas = np.full((layout.height, layout.width, 3), 255, np.uint8)
    for size in range(22, 7, -1):
        lines = _wrap(title, size, layout.width - 4 * MARGIN)
        spacing = round(1.4 * size)
        if len(lines) * spacing <= layout.height - 2 * MARGIN:
            break
    top = max(MARGIN, (layout.height - len(lines) * spacing) // 2)
    for number, line in enumerate(lines):
        _write(canvas, line, 2 * MARGIN, top + number * spacing, size)
    return canvas


def _wrap(text: str, size: int, width: int) -> list[str]:
    """Lines that are at most so wide."""
    font, plain = _font(size), _plain(text)
    for letters in range(len(plain) or 1, 8, -1):
        lines = textwrap.wrap(plain, letters, break_on_hyphens=False)
        if max((font.getlength(line) for line in lines), default=0) <= width:
            return lines
    return textwrap.wrap(plain, 8)


def _write(canvas: UInt8[np.ndarray, "H W 3"], text: str, left: int, top: int, size: int) -> None:
    """Black letters on a picture, in place, cut off where it ends."""
    image, draw = (optional(f"PIL.{name}", "video") for name in ("Image", "ImageDraw"))
    height = min(2 * size, canvas.shape[0] - top)
    paper = image.new("L", (canvas.shape[1] - left, height), 255)
    draw.Draw(paper).text((0, 0), _plain(text), fill=0, font=_font(size))
    ink = np.asarray(paper, np.float32) / 255
    shades = np.round(np.round(ink * LEVELS) / LEVELS * 255).astype(np.uint8)
    area = canvas[top : top + height, left:]
    area[:] = np.minimum(area, shades[..., None])


@cache
def _font(size: int) -> Any:
    return optional("PIL.ImageFont", "video").load_default(size)


def _plain(text: str) -> str:
    """The letters that the font of the package Pillow has."""
    text = text.replace("−", "-").replace("–", "-")
    return "".join(letter if " " <= letter <= "~" or letter == "·" else "?" for letter in text)
