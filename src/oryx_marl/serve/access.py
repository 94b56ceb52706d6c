"""Who may ask: whoever has a token; without any, only clients on this machine."""

import hashlib
import hmac
import ipaddress
import os
import stat
import warnings
from collections.abc import Sequence
from pathlib import Path

from oryx_marl.errors import OryxError, OryxWarning

VARIABLE = "ORYX_SERVE_TOKEN"
SHORTEST = 16
MOST_BYTES = 65536


class Access:
    """Compares what a request brings with the tokens, in a time that tells nothing of them."""

    def __init__(self, tokens: Sequence[str] = ()) -> None:
        self._digests = [_digest(token.encode()) for token in tokens]

    def admits(self, authorization: bytes | None) -> bool:
        """Whether the header `Authorization: Bearer TOKEN` has one of the tokens."""
        if not self._digests:
            return True
        kind, _, token = (authorization or b"").partition(b" ")
        given = _digest(token.strip())
        matches = [hmac.compare_digest(given, each) for each in self._digests]
        return any(matches) and kind.lower() == b"bearer"


def read_tokens(file: Path | None) -> list[str]:
    """Tokens of a file, one in a line, or that of $ORYX_SERVE_TOKEN."""
    if file is None:
        told = os.environ.get(VARIABLE, "").strip()
        found, where = [told] if told else [], f"${VARIABLE}"
    else:
        where = str(file)
        found = _read_file(file)
    for token in found:
        if len(token) < SHORTEST or not token.isascii() or not token.isprintable() or " " in token:
            raise OryxError(
                f"a token in {where} is too short or has strange letters: it must have at least "
                f"{SHORTEST} letters and digits, such as those of `openssl rand -hex 32`"
            )
    return found


def _read_file(file: Path) -> list[str]:
    if not file.is_file():
        raise OryxError(f"there is no token file {file}")
    if file.stat().st_size > MOST_BYTES:
        raise OryxError(f"the token file {file} is too large: it has one token in a line")
    if os.name == "posix" and file.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
        warnings.warn(
            f"other users can read the token file {file}: chmod 600 it", OryxWarning, stacklevel=2
        )
    text = file.read_text(encoding="utf-8", errors="replace")
    found = [line.strip() for line in text.splitlines() if line.strip()]
    if not found:
        raise OryxError(f"there is no token in the token file {file}")
    return found


def require_safe(host: str, tokens: Sequence[str], no_token: bool) -> None:
    """Raises where strangers could ask a server that has no token, and nobody said they may."""
    if tokens and no_token:
        raise OryxError("give either a token or --no-token, not both")
    if tokens or no_token or is_loopback(host):
        return
    raise OryxError(
        f"on {host} everyone who reaches this machine could use the policy: give a token "
        f"(--token-file FILE, or ${VARIABLE}), or say --no-token if that is meant"
    )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()
