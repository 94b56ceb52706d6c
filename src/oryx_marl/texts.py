"""Texts out of files for people: short, and without what a terminal would obey."""

import re

from oryx_marl import limits

CONTROLS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Control characters but tab and newline, letters that turn the direction of a line, and halves of
letters, which come of names that are not UTF-8."""


def first_line(error: BaseException) -> str:
    """What an exception says, in one line that is not long."""
    if isinstance(error, MemoryError):
        return "there is not enough memory for what it claims to hold"
    if isinstance(error, KeyError):
        return f"the entry {shorten(str(error))} is missing"
    line = (str(error).strip().splitlines() or [""])[0]
    return shorten(line, 300) or type(error).__name__


def plain(text: str) -> str:
    """A text without what a terminal obeys or cannot show: written as Python writes it."""
    return CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def shorten(text: str, most: int = limits.TEXT) -> str:
    """The beginning of a text."""
    return text if len(text) <= most else f"{text[:most]}..."
