"""Films as MP4: H.264 with colours in half the resolution, which every player and browser shows."""

import io
from fractions import Fraction

import numpy as np
from jaxtyping import UInt8

from oryx_marl.errors import OryxError
from oryx_marl.installation import optional

ENCODER = "libx264"
BT709 = 1
"""How colours are coded, in the numbers of the standard: players need not guess."""
LIMITED_RANGE = 1


class Mp4Writer:
    """Pictures one after another, of an even height and width; `finish` gives the file."""

    def __init__(self, height: int, width: int, title: str, fps: int) -> None:
        self._av = optional("av", "video")
        if ENCODER not in self._av.codecs_available:
            raise OryxError(
                f"the installed package av has no encoder {ENCODER}, which MP4 needs; install av "
                "from PyPI, or write a GIF"
            )
        self._av.logging.set_level(self._av.logging.ERROR)
        self._fps, self._told, self._count = fps, 0.0, 0
        self._file = io.BytesIO()
        self._container = self._av.open(self._file, "w", format="mp4")
        self._container.metadata["title"] = title
        self._container.metadata["comment"] = title
        stream = self._container.add_stream(ENCODER, rate=Fraction(fps))
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.options = {"crf": "16", "preset": "medium", "tune": "animation"}
        context = stream.codec_context
        context.colorspace = context.color_primaries = context.color_trc = BT709
        context.color_range = LIMITED_RANGE
        self._stream = stream

    def add(self, picture: UInt8[np.ndarray, "H W 3"], seconds: float) -> None:
        """The next picture, repeated for so long."""
        self._told += seconds
        frame = self._av.VideoFrame.from_ndarray(picture, format="rgb24").reformat(
            format="yuv420p", dst_colorspace="ITU709", dst_color_range="MPEG"
        )
        for _ in range(max(1, round(self._told * self._fps) - self._count)):
            frame.pts, frame.time_base = self._count, Fraction(1, self._fps)
            self._container.mux(self._stream.encode(frame))
            self._count += 1

    def finish(self) -> bytes:
        """The whole file."""
        self._container.mux(self._stream.encode(None))
        self._container.close()
        return self._file.getvalue()
