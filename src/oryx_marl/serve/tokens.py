"""A recurrent state as a text that the client carries: it survives any restart of the server.

It is not secret and not signed: who changes it plays an episode that never was, and harms nobody
else. The hashes find what is damaged, or belongs to another policy.
"""

import base64
import binascii
import hashlib
import struct
from typing import NamedTuple

import numpy as np
from jaxtyping import UInt8

from oryx_marl.serve import refusals
from oryx_marl.serve.refusals import RefusedError

MARK = b"oryx\x01"
HEAD = struct.Struct("<32sQII")
CHECK = 8
"""Bytes of the hash over everything before it."""
MOST_STEPS = 2**31 - 2
"""Steps of an episode, which policies count with 32 bits."""


class Carried(NamedTuple):
    """What a client brings along."""

    random_seed: int
    episode: int
    step: int
    """Number of the next step."""
    state: UInt8[np.ndarray, "size"]


def write(policy_id: str, carried: Carried) -> str:
    """The text of a state."""
    head = HEAD.pack(bytes.fromhex(policy_id), carried.random_seed, carried.episode, carried.step)
    content = MARK + head + carried.state.tobytes()
    return base64.b64encode(content + _check(content)).decode()


def read(text: str, policy_id: str, size: int) -> Carried:
    """The state of a text that `write` gave; raises where it is no state of this policy."""
    try:
        whole = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise refusals.invalid("state is not what this server gave: it is no base64") from None
    content, check = whole[:-CHECK], whole[-CHECK:]
    if not content.startswith(MARK) or _check(content) != check:
        raise refusals.invalid("state is not what this server gave: it is damaged or cut off")
    if len(content) < len(MARK) + HEAD.size:
        raise refusals.invalid("state is not what this server gave: it is cut off")
    policy, random_seed, episode, step = HEAD.unpack_from(content, len(MARK))
    state = np.frombuffer(content, np.uint8, offset=len(MARK) + HEAD.size)
    if policy != bytes.fromhex(policy_id):
        raise RefusedError(
            409,
            "other_policy",
            "state belongs to another policy than the one that is served here now: begin a new "
            "episode by leaving it out",
        )
    if len(state) != size or not 0 < step <= MOST_STEPS:
        raise refusals.invalid("state does not fit this policy")
    return Carried(random_seed, episode, step, state)


def _check(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=CHECK).digest()
