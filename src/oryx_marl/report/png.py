"""Palette PNG: pictures with few colours in few bytes, encoded with zlib alone."""

import heapq
import struct
import zlib

import numpy as np
from jaxtyping import Int, UInt8

COLOURS = 256
"""Most colours of a palette PNG."""


def encode(pixels: UInt8[np.ndarray, "height width 3"]) -> bytes:
    """A PNG file. Exact up to 256 colours; beyond that the nearest of 256 that median cut picks."""
    palette, indices = quantise(pixels)
    depth = next(bits for bits in (1, 2, 4, 8) if len(palette) <= 1 << bits)
    height, width = indices.shape
    rows = _pack(indices, depth)
    # Every row starts with its filter; 0, none, is the best one for palette indices.
    scanlines = np.concatenate([np.zeros((height, 1), np.uint8), rows], axis=1)
    header = struct.pack(">IIBBBBB", width, height, depth, 3, 0, 0, 0)
    return b"".join(
        [
            b"\x89PNG\r\n\x1a\n",
            _chunk(b"IHDR", header),
            _chunk(b"PLTE", palette.tobytes()),
            _chunk(b"IDAT", zlib.compress(scanlines.tobytes(), 9)),
            _chunk(b"IEND", b""),
        ]
    )


def quantise(
    pixels: UInt8[np.ndarray, "height width 3"],
) -> tuple[UInt8[np.ndarray, "colours 3"], UInt8[np.ndarray, "height width"]]:
    """The palette of a picture and, for each pixel, its place in the palette."""
    red, green, blue = np.moveaxis(pixels.astype(np.uint32), -1, 0)
    packed = red << 16 | green << 8 | blue
    # There are few colours: to look them up is faster than to sort all pixels with their places.
    codes = np.unique(packed)
    inverse = np.searchsorted(codes, packed)
    counts = np.bincount(inverse.ravel())
    colours = np.stack([codes >> 16, codes >> 8 & 255, codes & 255], axis=1)
    if len(colours) <= COLOURS:
        palette, label = colours, np.arange(len(colours))
    else:
        label = _median_cut(colours.astype(np.int64), counts)
        weight = np.bincount(label, counts)
        sums = [np.bincount(label, counts * colours[:, channel]) for channel in range(3)]
        palette = np.round(np.stack(sums, axis=1) / weight[:, None])
    return palette.astype(np.uint8), label[inverse].reshape(packed.shape).astype(np.uint8)


def sheet(
    frames: UInt8[np.ndarray, "T height width 3"], columns: int
) -> UInt8[np.ndarray, "sheet_height sheet_width 3"]:
    """All frames in one picture, row by row; side by side, zlib finds what did not change."""
    frames_in, height, width, _ = frames.shape
    rows = -(-frames_in // columns)
    blank = np.broadcast_to(frames[-1:], (rows * columns - frames_in, height, width, 3))
    grid = np.concatenate([frames, blank]).reshape(rows, columns, height, width, 3)
    return grid.swapaxes(1, 2).reshape(rows * height, columns * width, 3)


def _median_cut(
    colours: Int[np.ndarray, "unique 3"], counts: Int[np.ndarray, "unique"]
) -> Int[np.ndarray, "unique"]:
    """A box for each colour: the widest box is cut at the median pixel until there are 256."""
    everything = np.arange(len(colours))
    boxes = [(-int(np.ptp(colours, axis=0).max()), 0, everything)]
    for made in range(1, COLOURS):
        _, name, box = heapq.heappop(boxes)
        channel = np.ptp(colours[box], axis=0).argmax()
        box = box[np.argsort(colours[box, channel], kind="stable")]
        pixels = np.cumsum(counts[box])
        # Both sides keep at least one colour.
        cut = min(int(np.searchsorted(pixels, pixels[-1] / 2)) + 1, len(box) - 1)
        for new_name, part in ((name, box[:cut]), (made, box[cut:])):
            spread = int(np.ptp(colours[part], axis=0).max())
            heapq.heappush(boxes, (-spread, new_name, part))
    label = np.zeros(len(colours), np.int64)
    for _, name, box in boxes:
        label[box] = name
    return label


def _pack(
    indices: UInt8[np.ndarray, "height width"], depth: int
) -> UInt8[np.ndarray, "height bytes"]:
    """`depth` bits per pixel, the first pixel of a byte in its highest bits."""
    per_byte = 8 // depth
    height, width = indices.shape
    padded = np.pad(indices, ((0, 0), (0, -width % per_byte)))
    shifts = np.arange(per_byte - 1, -1, -1) * depth
    groups = padded.reshape(height, -1, per_byte).astype(np.uint16)
    return (groups << shifts).sum(axis=2).astype(np.uint8)


def _chunk(kind: bytes, data: bytes) -> bytes:
    """Length, kind, data and checksum, as PNG stores everything."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
