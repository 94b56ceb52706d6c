"""Animated GIFs: a palette that keeps flat colours exact, and only what changes from picture to
picture.

Pillow compresses the pixels. The blocks around them are written here, since its own writer holds
all pictures in memory and joins those that are equal, so that their number would not be known.
"""

import io
import struct

import numpy as np
from jaxtyping import Int, UInt8

from oryx_marl.installation import optional

COLOURS = 256
HEADER = 13
"""Bytes before the colours that all pictures share."""
EXACT = 192
"""Colours that are kept as they are where a picture has too many."""
FLAT = 0.9
"""Share of the pixels that the most frequent colours must cover to be kept as they are: where they
cover less, as in photographs, colours are mixed."""


class GifWriter:
    """Pictures one after another; `finish` gives the file."""

    def __init__(self, height: int, width: int, comment: str) -> None:
        self._image = optional("PIL.Image", "video")
        self._palette = np.zeros((COLOURS, 3), np.uint8)
        self._count = 0
        self._places = np.full(2**24, -1, np.int16)
        """Of each colour in the palette, or -1."""
        self._before: UInt8[np.ndarray, "H W 3"] | None = None
        self._told, self._written = 0.0, 0
        self._file = io.BytesIO()
        self._file.write(struct.pack("<6sHHBBB", b"GIF89a", width, height, 0xF7, 0, 0))
        self._file.write(bytes(3 * COLOURS))  # the palette, once it is known
        self._file.write(b"\x21\xff\x0bNETSCAPE2.0\x03\x01\x00\x00\x00")  # plays for ever
        self._file.write(b"\x21\xfe" + _in_blocks(comment.encode()))

    def add(self, picture: UInt8[np.ndarray, "H W 3"], seconds: float) -> None:
        """The next picture, shown for so long."""
        top, left, changed = self._crop(picture)
        places, palette = self._index(changed)
        height, width = places.shape
        # Lengths are in hundredths; rounding the time since the beginning, errors do not add up.
        self._told += seconds
        length = max(2, round(100 * self._told) - self._written)
        self._written += length
        self._file.write(struct.pack("<BBBBHBB", 0x21, 0xF9, 4, 0x04, min(length, 65535), 0, 0))
        own = 0 if palette is None else 0x87
        self._file.write(struct.pack("<BHHHHB", 0x2C, left, top, width, height, own))
        self._file.write(b"" if palette is None else palette.tobytes())
        self._file.write(self._compress(places))

    def finish(self) -> bytes:
        """The whole file."""
        self._file.write(b"\x3b")
        self._file.seek(HEADER)
        self._file.write(self._palette.tobytes())
        return self._file.getvalue()

    def _crop(self, picture: UInt8[np.ndarray, "H W 3"]) -> tuple[int, int, np.ndarray]:
        """Where the part that differs from the picture before begins, and that part."""
        before, self._before = self._before, picture
        if before is None:
            return 0, 0, picture
        differs = (picture != before).any(axis=-1)
        if not differs.any():
            return 0, 0, picture[:1, :1]
        rows, columns = np.flatnonzero(differs.any(axis=1)), np.flatnonzero(differs.any(axis=0))
        top, left = int(rows[0]), int(columns[0])
        return top, left, picture[top : rows[-1] + 1, left : columns[-1] + 1]

    def _index(
        self, picture: UInt8[np.ndarray, "h w 3"]
    ) -> tuple[UInt8[np.ndarray, "h w"], UInt8[np.ndarray, "256 3"] | None]:
        """The place of every pixel's colour in the palette of all, or else in one of its own."""
        packed = _pack(picture)
        places = self._places[packed]
        unknown = np.unique(packed[places < 0])
        if self._count + len(unknown) > COLOURS:
            return self._index_alone(picture, packed)
        new = np.arange(self._count, self._count + len(unknown))
        self._places[unknown] = new
        self._palette[new] = _unpack(unknown)
        self._count += len(unknown)
        return self._places[packed].astype(np.uint8), None

    def _index_alone(
        self, picture: UInt8[np.ndarray, "h w 3"], packed: Int[np.ndarray, "h w"]
    ) -> tuple[UInt8[np.ndarray, "h w"], UInt8[np.ndarray, "256 3"]]:
        """The most frequent colours are kept; others become the nearest of those or of mixtures."""
        colours, inverse, counts = np.unique(packed, return_inverse=True, return_counts=True)
        order, rgb = np.argsort(-counts, kind="stable"), _unpack(colours)
        if counts[order[:COLOURS]].sum() < FLAT * packed.size:
            palette = self._mix(picture, COLOURS)
        else:
            rest = self._mix(rgb[None, order[EXACT:]], COLOURS - EXACT)
            palette = np.concatenate([rgb[order[:EXACT]], rest])
        nearest = np.empty(len(colours), np.uint8)
        for start in range(0, len(colours), COLOURS):
            part = slice(start, start + COLOURS)
            apart = rgb[part, None].astype(np.int32) - palette[None]
            nearest[part] = (apart**2).sum(axis=-1).argmin(axis=1)
        return nearest[inverse].reshape(packed.shape), palette

    def _mix(self, picture: UInt8[np.ndarray, "h w 3"], count: int) -> UInt8[np.ndarray, "K 3"]:
        """So many colours that are near those of a picture."""
        mixed = self._image.fromarray(picture).quantize(count, dither=0)
        found = np.frombuffer(bytes(mixed.getpalette()), np.uint8).reshape(-1, 3)[:count]
        return np.concatenate([found, np.zeros((count - len(found), 3), np.uint8)])

    def _compress(self, places: UInt8[np.ndarray, "h w"]) -> bytes:
        """The pixels as the blocks of a GIF, taken from a file of one picture."""
        height, width = places.shape
        image = self._image.frombytes("P", (width, height), np.ascontiguousarray(places).tobytes())
        image.putpalette(bytes(range(COLOURS)) * 3)
        whole = io.BytesIO()
        image.save(whole, "GIF", optimize=False, interlace=0)
        return _find_pixels(whole.getvalue())


def _pack(picture: UInt8[np.ndarray, "h w 3"]) -> Int[np.ndarray, "h w"]:
    """A number for each colour."""
    red, green, blue = (picture[..., channel].astype(np.int32) for channel in range(3))
    return red << 16 | green << 8 | blue


def _unpack(colours: Int[np.ndarray, " K"]) -> UInt8[np.ndarray, "K 3"]:
    return np.stack([colours >> 16, colours >> 8, colours], axis=-1).astype(np.uint8)


def _in_blocks(content: bytes) -> bytes:
    """Content in blocks of at most 255 bytes, each after its length."""
    parts = [content[start : start + 255] for start in range(0, len(content), 255)]
    return b"".join(bytes([len(part)]) + part for part in parts) + b"\x00"


def _find_pixels(file: bytes) -> bytes:
    """The compressed pixels of a GIF's first picture, with the blocks they are in."""

    def table(flags: int) -> int:
        return 3 * 2 ** ((flags & 7) + 1) if flags & 0x80 else 0

    def skip(place: int) -> int:
        while file[place]:
            place += 1 + file[place]
        return place + 1

    place = HEADER + table(file[10])
    while file[place] == 0x21:  # an extension
        place = skip(place + 2)
    start = place + 10 + table(file[place + 9])
    return file[start : skip(start + 1)]
