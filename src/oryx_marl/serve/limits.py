"""How much a server takes on; beyond that it refuses, and says so."""

import dataclasses
from dataclasses import dataclass
from typing import Annotated

import tyro

from oryx_marl.errors import OryxError

BODY = 2**20
"""Bytes of a request, where a state does not need more."""


@dataclass(frozen=True)
class ServeLimits:
    """Bounds on numbers, sizes and times."""

    max_sessions: int = 4096
    """Sessions at a time; their states are held in memory."""
    session_ttl: float = 600.0
    """Seconds without a request after which a session is ended."""
    max_batch: int = 256
    """Most requests that are computed together."""
    max_waiting: int = 4096
    """Requests that may wait to be computed; more are answered with 503."""
    max_connections: int = 8192
    """Open connections; more are answered with 503 and closed."""
    max_body: Annotated[
        int | None,
        tyro.conf.arg(help_behavior_hint="(default: 1 MiB, or what a state in a request needs)"),
    ] = None
    """Bytes of a request's body; more are answered with 413."""
    request_timeout: float = 15.0
    """Seconds in which a request must have arrived."""
    keep_alive: float = 75.0
    """Seconds after which a connection without requests is closed."""
    grace: float = 10.0
    """Seconds that a server which is told to stop gives to requests that have begun."""

    def __post_init__(self) -> None:
        for entry in dataclasses.fields(self):
            value = getattr(self, entry.name)
            if value is not None and not value > 0:
                flag = entry.name.replace("_", "-")
                raise OryxError(f"--{flag} must be greater than 0, got {value}")

    def with_state(self, state_bytes: int, numbers: int) -> "ServeLimits":
        """The same with room for a state and so many numbers in one request.

        Args:
            state_bytes: of one session.
            numbers: most numbers that a request shows.
        """
        needed = 4 * (state_bytes + 256) // 3 + 32 * numbers + 4096
        if self.max_body is None:
            return dataclasses.replace(self, max_body=max(BODY, needed))
        if self.max_body < needed:
            raise OryxError(
                f"--max-body {self.max_body} is too small: a request of this policy may have "
                f"{needed:,} bytes"
            )
        return self
