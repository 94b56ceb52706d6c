"""The encoder's files are decoded by hand and compared pixel by pixel."""

import struct
import zlib

import numpy as np
import pytest

from oryx_marl.report import png


def decode(data: bytes) -> np.ndarray:
    """A palette PNG without filters, as the encoder writes it; checksums are checked."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, place = {}, 8
    while place < len(data):
        (length,) = struct.unpack(">I", data[place : place + 4])
        kind = data[place + 4 : place + 8]
        body = data[place + 8 : place + 8 + length]
        (checksum,) = struct.unpack(">I", data[place + 8 + length : place + 12 + length])
        assert checksum == zlib.crc32(kind + body)
        chunks[kind] = body
        place += 12 + length
    assert list(chunks) == [b"IHDR", b"PLTE", b"IDAT", b"IEND"]
    width, height, depth, colour, *rest = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert (colour, rest) == (3, [0, 0, 0])
    palette = np.frombuffer(chunks[b"PLTE"], np.uint8).reshape(-1, 3)
    stride = 1 + -(-width * depth // 8)
    raw = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, stride)
    assert not raw[:, 0].any()
    bits = np.unpackbits(raw[:, 1:], axis=1)[:, : width * depth].reshape(height, width, depth)
    indices = bits @ (1 << np.arange(depth)[::-1])
    return palette[indices]


@pytest.mark.parametrize("colours", [1, 2, 3, 4, 5, 16, 17, 256])
@pytest.mark.parametrize("width", [1, 7, 16])
def test_few_colours_come_back_exactly(colours: int, width: int) -> None:
    generator = np.random.default_rng(colours * 100 + width)
    palette = generator.integers(0, 256, (colours, 3), dtype=np.uint8)
    pixels = palette[generator.integers(0, colours, (40, width))]
    np.testing.assert_array_equal(decode(png.encode(pixels)), pixels)


def test_two_colours_take_one_bit_per_pixel() -> None:
    pixels = np.zeros((3, 9, 3), np.uint8)
    pixels[1, 8] = 255
    data = png.encode(pixels)
    assert data[24] == 1  # bit depth: after signature, length, kind, width and height
    np.testing.assert_array_equal(decode(data), pixels)


def test_many_colours_become_256_that_are_near() -> None:
    rows, columns = np.mgrid[:64, :64]
    pixels = np.stack([rows * 4, columns * 4, (rows + columns) * 2], axis=2).astype(np.uint8)
    back = decode(png.encode(pixels))
    assert len(np.unique(back.reshape(-1, 3), axis=0)) <= 256
    # 4096 colours on a plane, 16 to a box of about 16 by 16 levels: at most 8 from its middle.
    assert np.abs(back.astype(int) - pixels).max() <= 8
    assert np.abs(back.astype(int) - pixels).mean() < 5


def test_a_colour_that_fills_the_picture_survives_many_rare_ones() -> None:
    pixels = np.full((100, 100, 3), 250, np.uint8)
    pixels[:5] = np.random.default_rng(0).integers(0, 120, (5, 100, 3))
    back = decode(png.encode(pixels))
    np.testing.assert_array_equal(back[5:], pixels[5:])


def test_sheet_is_filled_row_by_row() -> None:
    frames = np.arange(3, dtype=np.uint8)[:, None, None, None] * np.ones((1, 2, 2, 3), np.uint8)
    expected = [[0, 0, 1, 1], [0, 0, 1, 1], [2, 2, 2, 2], [2, 2, 2, 2]]
    np.testing.assert_array_equal(png.sheet(frames, 2)[:, :, 0], expected)
