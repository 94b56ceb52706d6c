"""Connections of strangers: their number, the size of their headers and their patience are bounded.

uvicorn bounds the time between two requests alone: a connection that sends nothing, or a header
without end, would be held for ever.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from oryx_marl.serve.packages import orjson

MOST_HEAD = 32768
"""Bytes of the first line and the headers of a request."""


class GuardedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with bounds; a subclass says which."""

    max_connections = 1024
    head_timeout = 15.0

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._in_head, self._is_idle, self._begun, self._head_bytes = False, True, 0, 0
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.max_connections:
            self._refuse(503, "busy", "too many connections are open: try again in a second")
        else:
            self._arm()

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        begun, was_idle = self._begun, self._is_idle
        super().data_received(data)
        if self.transport.is_closing():
            return
        # Whether the headers are still coming, or what came begins no request.
        if self._in_head or (was_idle and self._begun == begun):
            self._head_bytes += len(data)
            self._arm()
            if self._head_bytes > MOST_HEAD:
                self._refuse(431, "headers_too_large", "the headers of the request are too large")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._is_idle, self._head_bytes = True, False, 0
        self._begun += 1

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._disarm()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._is_idle = True
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, "no_http", "this is no valid HTTP request")

    def _unsupported_upgrade_warning(self) -> None:
        """Nothing is logged, and the connection is not read any further."""
        self.transport.close()

    def _arm(self) -> None:
        """Closes the connection unless the headers come in time."""
        if self._timer is None:
            self._timer = self.loop.call_later(self.head_timeout, self._give_up)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._timer = None
        if not self.transport.is_closing():
            self._refuse(408, "too_slow", "the request did not arrive in time")

    def _refuse(self, status: int, code: str, message: str) -> None:
        """Answers without the application, and closes."""
        self._disarm()
        body = orjson.dumps({"error": {"code": code, "message": message}})
        head = (
            f"HTTP/1.1 {status} {REASONS[status]}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nretry-after: 1\r\nconnection: close\r\n\r\n"
        )
        if self.cycle is None or self.cycle.response_complete:  # else another answer is under way
            self.transport.write(head.encode() + body)
        self.transport.close()


REASONS = {
    400: "Bad Request",
    408: "Request Timeout",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}


def make_protocol(connections: int, seconds: float) -> type[GuardedProtocol]:
    """The protocol with these bounds, as uvicorn wants it: a class."""
    bounds = {"max_connections": connections, "head_timeout": seconds}
    return type("Protocol", (GuardedProtocol,), bounds)
