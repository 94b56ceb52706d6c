"""Takes all connections that wait, not one in each round of the event loop.

libuv, below uvloop, accepts one connection per round since its version 1.48. Under load a round
computes a batch, so the last of a thousand clients that come at once would wait for minutes.
"""

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from typing import Any

PAUSE = 0.5
"""Seconds without new connections where the system has no more files or memory for them."""
NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
log = logging.getLogger("oryx_marl.serve")


class Acceptor:
    """Stands where uvicorn has an asyncio.Server."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listener: socket.socket,
        make_protocol: Callable[[], asyncio.Protocol],
        backlog: int,
    ) -> None:
        self._loop, self._listener, self._make_protocol = loop, listener, make_protocol
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_open = True
        listener.setblocking(False)
        listener.listen(backlog)
        self._resume()

    def close(self) -> None:
        """Takes no more connections; those that there are stay."""
        if self._is_open:
            self._is_open = False
            self._loop.remove_reader(self._listener.fileno())

    async def wait_closed(self) -> None:
        """Waits for connections that are being taken."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _resume(self) -> None:
        if self._is_open:
            self._loop.add_reader(self._listener.fileno(), self._accept)

    def _accept(self) -> None:
        while self._is_open:
            try:
                connection, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in NO_ROOM:
                    raise
                log.error("no new connections for a moment: %s", error.strerror)
                self._loop.remove_reader(self._listener.fileno())
                self._loop.call_later(PAUSE, self._resume)
                return
            connection.setblocking(False)
            task = self._loop.create_task(self._take(connection))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _take(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._make_protocol, connection)
        except OSError:  # it has gone again
            connection.close()
