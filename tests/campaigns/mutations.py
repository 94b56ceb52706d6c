"""Ways to damage a file: each takes bytes and randomness, and gives other bytes."""

import json
import re
import struct
from collections.abc import Callable
from random import Random
from typing import Any

PAGE = 4096
NUMBER = re.compile(rb"-?\d+(\.\d+)?([eE][+-]?\d+)?")
ODD_NUMBERS = (
    b"-1 0 1 2147483648 -9223372036854775809 1000000000000 60000 1e308 1e999 NaN 0.1 7".split()
)
ODD_VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    10**12,
    2**63,
    1e308,
    "",
    "[/b]\x1b[31m",
    "\ud800",
    "a\x00b",
    "../../x",
    [],
    {},
    [[[[1]]]],
    {"a": {"b": None}},
    "x" * 10_000,
)
SIZES = (2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**64 - 1, 10**12, 0)

Mutation = Callable[[bytes, Random], bytes]


def flip_bit(content: bytes, random: Random) -> bytes:
    place = random.randrange(len(content))
    return _put(content, place, bytes([content[place] ^ 1 << random.randrange(8)]))


def change_bytes(content: bytes, random: Random) -> bytes:
    for _ in range(random.randint(2, 16)):
        content = _put(content, random.randrange(len(content)), random.randbytes(1))
    return content


def truncate(content: bytes, random: Random) -> bytes:
    return content[: random.choice((0, 1, len(content) - 1, random.randrange(len(content))))]


def swap_blocks(content: bytes, random: Random) -> bytes:
    size = max(1, min(random.choice((16, 512, PAGE)), len(content) // 2))
    first, second = sorted(random.randrange(len(content) - size + 1) for _ in range(2))
    if second - first < size:
        return content[size:] + content[:size]
    block, other = content[first : first + size], content[second : second + size]
    return _put(_put(content, first, other), second, block)


def zero_page(content: bytes, random: Random) -> bytes:
    start = random.randrange(0, len(content), PAGE)
    if len(content) <= PAGE:
        start = random.randrange(len(content))
    size = min(random.choice((64, 512, PAGE)), len(content) - start)
    return _put(content, start, bytes(size))


def huge_size(content: bytes, random: Random) -> bytes:
    """A number of the header, as sizes in binary files are."""
    number, form = random.choice(SIZES), random.choice(("<I", ">I", "<Q", ">Q"))
    packed = struct.pack(form, number & (2**32 - 1 if form[1] == "I" else 2**64 - 1))
    near = random.choice((0, max(0, len(content) - 256)))
    place = min(near + random.randrange(256), max(0, len(content) - len(packed)))
    return _put(content, place, packed)


def edit_number(content: bytes, random: Random) -> bytes:
    """A number in a text."""
    found = list(NUMBER.finditer(content[: 2**20]))
    if not found:
        return flip_bit(content, random)
    one = random.choice(found)
    return content[: one.start()] + random.choice(ODD_NUMBERS) + content[one.end() :]


def repeat_line(content: bytes, random: Random) -> bytes:
    lines = content.splitlines(keepends=True)
    place = random.randrange(len(lines))
    return b"".join([*lines[:place], *[lines[place]] * random.choice((2, 3)), *lines[place + 1 :]])


def drop_line(content: bytes, random: Random) -> bytes:
    lines = content.splitlines(keepends=True)
    del lines[random.randrange(len(lines))]
    return b"".join(lines)


def insert_junk(content: bytes, random: Random) -> bytes:
    place = random.randrange(len(content) + 1)
    junk = (b"\xff\xfe\x00", b"\n\n", b'"', b"[" * 5000, b"\x1b[2J", b",,,", b"\x00" * 300, b"{}")
    return content[:place] + random.choice(junk) + content[place:]


def append_junk(content: bytes, random: Random) -> bytes:
    return content + random.choice((b"\x00", b"\n", random.randbytes(100), content[:200]))


def edit_json(content: bytes, random: Random) -> bytes:
    """One value somewhere inside, by one of another kind."""
    try:
        values = json.loads(content)
    except ValueError:
        return edit_number(content, random)
    return json.dumps(change_value(values, random), ensure_ascii=True).encode()


def change_value(values: Any, random: Random) -> Any:
    """JSON with one odd value, or one entry less."""
    places: list[tuple[Any, Any]] = []
    _collect(values, places)
    if not places:
        return random.choice(ODD_VALUES)
    parent, key = random.choice(places)
    if random.random() < 0.15:
        del parent[key]
    else:
        parent[key] = random.choice(ODD_VALUES)
    return values


def _collect(values: Any, places: list[tuple[Any, Any]]) -> None:
    keys: Any = values if isinstance(values, dict) else range(len(values))
    for key in keys:
        places.append((values, key))
        if isinstance(values[key], dict | list):
            _collect(values[key], places)


def _put(content: bytes, place: int, new: bytes) -> bytes:
    return content[:place] + new + content[place + len(new) :]


BINARY: tuple[Mutation, ...] = (
    flip_bit,
    flip_bit,
    change_bytes,
    truncate,
    swap_blocks,
    zero_page,
    huge_size,
    insert_junk,
    append_junk,
)
TEXT: tuple[Mutation, ...] = (
    *BINARY,
    edit_number,
    edit_number,
    edit_json,
    edit_json,
    edit_json,
    repeat_line,
    drop_line,
)


def mutate(content: bytes, is_text: bool, random: Random) -> tuple[str, bytes]:
    """The name of a way, and what it makes of a content."""
    if not content:
        return "insert_junk", insert_junk(content, random)
    for _ in range(20):
        way = random.choice(TEXT if is_text else BINARY)
        found = way(content, random)
        if found != content:
            return way.__name__, found
    return "append_junk", content + b"\0"
