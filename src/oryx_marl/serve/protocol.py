"""Connections of strangers: their number, the size of their headers and their patience are bounded.

uvicorn bounds the time between two requests alone: a connection that sends nothing, or a request
that never ends, would be held for ever.
"""

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from oryx_marl.serve.packages import orjson

MOST_HEAD = 32768
"""Bytes of the first line and the headers of a request."""


class GuardedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with bounds; a subclass says which."""

    max_connections = 1024
    request_timeout = 15.0
    count: Callable[[int], None] = staticmethod(lambda status: None)
    """Told the status of each answer that the application does not give."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._in_head, self._is_whole = False, True
        self._begun, self._head_bytes = 0, 0
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.connections) > self.max_connections:
            self._refuse(503, "busy", "too many connections are open: try again in a second")
        else:
            self._arm()

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        begun, was_whole = self._begun, self._is_whole
        super().data_received(data)
        if self.transport.is_closing():
            return
        is_nothing = was_whole and self._begun == begun  # such as empty lines between requests
        if self._is_whole and not is_nothing:
            self._disarm()
            return
        self._arm()
        if self._in_head or is_nothing:
            self._head_bytes += len(data)
            if self._head_bytes > MOST_HEAD:
                self._refuse(431, "headers_too_large", "the headers of the request are too large")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._is_whole, self._head_bytes = True, False, 0
        self._begun += 1

    def on_headers_complete(self) -> None:
        self._in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._is_whole = True
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, "no_http", "this is no valid HTTP request")

    def _unsupported_upgrade_warning(self) -> None:
        """Nothing is logged; what follows would be another protocol, so nothing is read."""
        self._refuse(400, "no_upgrade", "this server speaks HTTP/1.1 alone")

    def _arm(self) -> None:
        """Closes the connection unless the request comes in time."""
        if self._timer is None:
            self._timer = self.loop.call_later(self.request_timeout, self._give_up)

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
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nretry-after: 1\r\nconnection: close\r\n\r\n"
        )
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            if self._in_head or self._is_whole:  # a good request is before this one
                cycle.keep_alive = False  # uvicorn closes when it is answered
                return
            if cycle.response_started:
                self.transport.close()
                return
        self.transport.write(head.encode() + body)
        self.transport.close()
        self.count(status)


def make_protocol(
    connections: int, seconds: float, count: Callable[[int], None]
) -> type[GuardedProtocol]:
    """The protocol with these bounds, as uvicorn wants it: a class."""
    bounds = {
        "max_connections": connections,
        "request_timeout": seconds,
        "count": staticmethod(count),
    }
    return type("Protocol", (GuardedProtocol,), bounds)
