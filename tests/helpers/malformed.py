"""Requests that are wrong in many ways, made from a number."""

import json
import random
from typing import Any

CONTROLS = ["\x1b[31m", "\n", "\r\n", "\x00", "\u202e", "\x9b", "<script>", "%s%n", "../../etc"]
FINE = {"observations": [[0.5] * 5, [0.1] * 3, [0.2] * 4]}
WRONG_VALUES: list[Any] = [
    None,
    True,
    "x",
    [],
    {},
    -1,
    1.5,
    10**30,
    [[]],
    [[[[[[1]]]]]],
    [None] * 7,
    [["1"] * 5, ["2"] * 3, ["3"] * 4],
    [[1e39] * 5, [0] * 3, [0] * 4],
    {"ship": [1]},
    {"ant": {"features": [1]}},
    {"ant": "x" * 300},
    [[1] * 6, [1] * 3, [1] * 4],
]
NAMES = ["observations", "action_mask", "rewards", "noise", "step", "act", "random_seed", "state"]


def make_body(rng: random.Random) -> bytes:
    """What no step is: broken JSON, or JSON with something wrong in it."""
    kind = rng.randrange(9)
    if kind == 0:
        return rng.randbytes(rng.randrange(1, 200))
    if kind == 1:
        return b"[" * rng.randrange(1, 3000)
    if kind == 2:
        return json.dumps(FINE).encode()[: rng.randrange(1, 40)]
    if kind == 3:
        return json.dumps(rng.choice([1, "x", [FINE], None, True])).encode()
    if kind == 4:
        text = json.dumps(FINE)[:-1] + ', "observations": []}'
        return text.encode()
    if kind == 5:
        number = rng.choice(["NaN", "Infinity", "-Infinity", "1e999", "01", "1" * 5000, "0x1"])
        return f'{{"observations": [[{number}, 0, 0, 0, 0], [0, 0, 0], [0, 0, 0, 0]]}}'.encode()
    if kind == 6:
        return json.dumps({**FINE, rng.choice(CONTROLS) + "x": 1}).encode()
    if kind == 7:
        seen = {rng.choice(CONTROLS) * rng.randrange(1, 9): [1, 2, 3]}
        return json.dumps({"observations": seen}).encode()
    # Never null, which is as if nothing were said, and never {}, which says that nobody is there.
    name = rng.choice(["observations", "action_mask", "noise", "step", "act", "random_seed"])
    value = rng.choice([each for each in WRONG_VALUES if each not in (None, {})])
    if name in ("step", "random_seed", "act"):
        value = rng.choice([-1, "x\x1b", [], {}, 10**30, 1e308])
    return json.dumps({**FINE, name: value}).encode()


def make_raw(rng: random.Random) -> bytes:
    """Bytes that are no request to a path, or no HTTP at all."""
    noise = rng.choice(CONTROLS).encode()
    kind = rng.randrange(8)
    if kind == 0:
        return rng.randbytes(rng.randrange(1, 300)) + b"\r\n\r\n"
    if kind == 1:
        return b"GET /" + noise + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    if kind == 2:
        method = rng.choice([b"PUT", b"PATCH", b"OPTIONS", b"HEAD", b"TRACE", b"BREW", b"get"])
        return method + b" /v1/act HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    if kind == 3:
        head = b"POST /v1/act HTTP/1.1\r\nHost: x\r\nContent-Length: "
        return head + rng.choice([b"-1", b"x", b"9" * 30, b"5, 6"]) + b"\r\n\r\n{}"
    if kind == 4:
        head = b"POST /v1/act HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        return head + rng.choice([b"zz\r\n", b"-5\r\n{}", b"ffffffffffffffffff\r\n"])
    if kind == 5:
        return b"GET /v1/act HTTP/1.1\r\nX: " + noise + b"\r\nBad Header\r\n\r\n"
    if kind == 6:
        path = rng.choice([b"//", b"/v1/sessions/%0a%1b[31m/act", b"/%ff%fe", b"*", b"/docs/../x"])
        return b"GET " + path + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    head = b"GET /docs/x HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    return head + b"Sec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n\r\n"
