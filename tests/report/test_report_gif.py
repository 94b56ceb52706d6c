"""The GIF writer, read back by Pillow: colours, lengths and number of pictures."""

import io

import numpy as np
import pytest
from PIL import Image

from oryx_marl.report.gif import GifWriter


def write(pictures: list[np.ndarray], seconds: float = 0.1, comment: str = "") -> Image.Image:
    writer = GifWriter(*pictures[0].shape[:2], comment)
    for picture in pictures:
        writer.add(picture, seconds)
    return Image.open(io.BytesIO(writer.finish()))


def read(file: Image.Image, index: int) -> np.ndarray:
    file.seek(index)
    return np.asarray(file.convert("RGB"))


def gradient(count: int) -> np.ndarray:
    """As many colours as that, one in each column."""
    columns = np.arange(count)
    row = np.stack([columns % 256, columns // 256 * 20, 255 - columns % 256], axis=-1)
    return np.broadcast_to(row.astype(np.uint8), (20, count, 3)).copy()


def test_every_picture_is_as_it_was() -> None:
    rng = np.random.default_rng(0)
    colours = rng.integers(0, 256, (40, 3)).astype(np.uint8)
    pictures = [colours[rng.integers(0, 40, (30, 50))] for _ in range(4)]
    pictures.append(pictures[-1].copy())  # equal ones are pictures too
    pictures.append(pictures[-1].copy())
    pictures[-1][7, 9] = (1, 2, 3)  # a single pixel
    file = write(pictures)
    assert file.n_frames == len(pictures)
    for index, picture in enumerate(pictures):
        np.testing.assert_array_equal(read(file, index), picture)


@pytest.mark.parametrize("count", [1, 2, 255, 256])
def test_as_many_colours_as_a_palette_has(count: int) -> None:
    np.testing.assert_array_equal(read(write([gradient(count)]), 0), gradient(count))


def test_more_colours_than_one_palette_has_over_time() -> None:
    pictures = [np.roll(gradient(256), 40 * shift, axis=-1) for shift in range(3)]
    file = write(pictures)
    for index, picture in enumerate(pictures):
        np.testing.assert_array_equal(read(file, index), picture)


def test_more_colours_at_once_keep_the_areas() -> None:
    picture = np.full((100, 300, 3), (10, 200, 30), np.uint8)
    picture[:5] = gradient(300)[:5]
    picture[90:] = (200, 0, 0)
    shown = read(write([picture]), 0)
    np.testing.assert_array_equal(shown[5:], picture[5:])
    assert np.abs(shown[:5].astype(int) - picture[:5]).max() < 24


def test_photographs_are_near() -> None:
    rng = np.random.default_rng(1)
    smooth = np.linspace(0, 200, 64)[:, None, None] + np.linspace(0, 50, 64)[None, :, None]
    picture = (smooth + rng.integers(0, 5, (64, 64, 3))).astype(np.uint8)
    shown = read(write([picture]), 0)
    assert np.abs(shown.astype(int) - picture).mean() < 6


@pytest.mark.parametrize("fps", [3, 7, 30, 50])
def test_lengths_add_up(fps: int) -> None:
    file = write([gradient(3 + index % 2)[:, :3] for index in range(60)], 1 / fps)
    total = 0
    for index in range(60):
        file.seek(index)
        total += file.info["duration"]
    assert total / 1000 == pytest.approx(60 / fps, abs=0.011)
    assert file.info["loop"] == 0


def test_a_long_comment_is_whole() -> None:
    comment = "six episodes – not chosen; " * 40
    assert write([gradient(2)], comment=comment).info["comment"].decode() == comment
