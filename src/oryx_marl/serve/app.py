"""The ASGI application: finds the handler, checks token and size, and answers in JSON.

It is written by hand and not with a framework: a dozen routes need none, which would take a fifth
of the time of a request (35 of 150 µs), and no answer repeats what a stranger sent.
"""

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from typing import Any, NamedTuple

from oryx_marl import texts
from oryx_marl.serve.access import Access
from oryx_marl.serve.handlers import Answer, Handlers, Request
from oryx_marl.serve.metrics import Metrics
from oryx_marl.serve.packages import orjson
from oryx_marl.serve.refusals import RefusedError

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Handler = Callable[[Request], Awaitable[Answer]]

SESSION = "/v1/sessions/"
LONGEST_NAME = 64
LINGER = 2.0
"""Seconds in which what is too large is read and dropped, so that the client sees the answer."""
HEADERS = [(b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff")]
PAGE_POLICY = (
    b"content-security-policy",
    b"default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
)
log = logging.getLogger("oryx_marl.serve")


class Route(NamedTuple):
    """What may be done at a path."""

    name: str
    """The path, with {session} for the name of one: what is counted and logged."""
    handlers: dict[str, Handler]
    """By method."""
    is_public: bool = False


class App:
    """Answers every request, whatever comes, with what is meant for the one who asks."""

    def __init__(
        self,
        routes: list[Route],
        access: Access,
        metrics: Metrics,
        max_body: int,
        access_log: bool = False,
    ) -> None:
        self._routes = {route.name: route for route in routes}
        self._access, self._metrics = access, metrics
        self._max_body, self._access_log = max_body, access_log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        began = time.perf_counter()
        route, headers = None, dict[str, str]()
        body = _Body(scope, receive, self._max_body)
        try:
            name, session = _find(scope["path"])
            route = self._routes.get(name)
            answer = await self._answer(route, session, scope, body)
        except RefusedError as error:
            answer, headers = _refuse(error.status, error.code, error.message), error.headers
        except Exception as error:
            answer = _fail(error)
        await _send(send, answer, headers, body)
        seconds = time.perf_counter() - began
        place = "-" if route is None else route.name
        self._metrics.count_request(place, answer.status, seconds)
        if self._access_log:
            method = scope["method"] if route and scope["method"] in route.handlers else "-"
            log.info("%s %s %d %.1f ms", method, place, answer.status, 1e3 * seconds)

    async def _answer(
        self, route: Route | None, session: str, scope: Scope, body: "_Body"
    ) -> Answer:
        is_public = route is not None and route.is_public
        if not is_public and not self._access.admits(body.headers.get(b"authorization")):
            raise RefusedError(
                401,
                "unauthorized",
                "the token is missing or wrong: send the header Authorization: Bearer TOKEN",
                {"www-authenticate": "Bearer"},
            )
        if route is None:
            raise RefusedError(404, "no_such_path", "there is nothing here; see /docs")
        handler = route.handlers.get(scope["method"])
        if handler is None:
            allowed = ", ".join(route.handlers)
            raise RefusedError(
                405, "wrong_method", f"this path takes: {allowed}", {"allow": allowed}
            )
        return await handler(Request(session, await body.read()))


class _Body:
    """What comes with a request, up to a size; how long that may take, the protocol knows."""

    def __init__(self, scope: Scope, receive: Receive, most: int) -> None:
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self._receive, self._most = receive, most
        length, coding = self.headers.get(b"content-length"), b"transfer-encoding" in self.headers
        self._length = int(length) if length is not None and length.isdigit() else None
        self.is_read = not coding and not self._length
        """Whether nothing more can come."""

    async def read(self) -> bytes:
        """All of it; raises where it is too large or no JSON."""
        if self.is_read:
            return b""
        if self._length is not None and self._length > self._most:
            raise self._too_large()
        kind = self.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if kind != b"application/json":
            raise RefusedError(
                415, "no_json", "send JSON, with the header Content-Type: application/json"
            )
        parts: list[bytes] = []
        size = 0
        while not self.is_read:
            message = await self._receive()
            if message["type"] != "http.request":
                raise RefusedError(400, "gone", "the client has gone")
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            self.is_read = not message.get("more_body", False)
            if size > self._most:
                raise self._too_large()
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def drop(self) -> None:
        """Reads what is left for a short while."""
        try:
            async with asyncio.timeout(LINGER):
                while not self.is_read:
                    message = await self._receive()
                    self.is_read = not message.get("more_body", False)
        except TimeoutError:
            return

    def _too_large(self) -> RefusedError:
        return RefusedError(
            413, "too_large", f"a request may have {self._most} bytes; this one has more"
        )


def _find(path: str) -> tuple[str, str]:
    """The name of a path's route, and the session in it."""
    if not path.startswith(SESSION):
        return path, ""
    session, slash, rest = path.removeprefix(SESSION).partition("/")
    if not 0 < len(session) <= LONGEST_NAME or (slash and not rest):
        return "", ""
    return f"{SESSION}{{session}}{slash}{rest}", session


async def _send(send: Send, answer: Answer, headers: dict[str, str], body: _Body) -> None:
    fields = [*HEADERS, (b"content-length", str(len(answer.body)).encode())]
    if answer.body:
        fields.append((b"content-type", answer.kind.encode()))
    if answer.kind.startswith("text/html"):
        fields.append(PAGE_POLICY)
    fields += [(name.encode(), value.encode()) for name, value in headers.items()]
    if body.is_read:
        await send({"type": "http.response.start", "status": answer.status, "headers": fields})
        await send({"type": "http.response.body", "body": answer.body})
        return
    # The answer goes out first; the connection, which is in the middle of a request, is closed.
    fields.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": answer.status, "headers": fields})
    await send({"type": "http.response.body", "body": answer.body, "more_body": True})
    await body.drop()
    await send({"type": "http.response.body", "body": b""})


def _refuse(status: int, code: str, message: str) -> Answer:
    said = texts.plain(texts.shorten(message, 600)).replace("\n", " ")
    about = {"error": {"code": code, "message": said}}
    return Answer(status, orjson.dumps(about))


def _fail(error: Exception) -> Answer:
    """Says nothing but a number, under which the log has the rest."""
    number = secrets.token_hex(4)
    log.error("error %s", number, exc_info=error)
    return _refuse(500, "internal", f"something went wrong here; the server's log has it: {number}")


def make_routes(
    handlers: Handlers, metrics: Metrics, is_ready: Callable[[], bool], documents: dict[str, Answer]
) -> list[Route]:
    """All that can be asked."""

    async def tell_health(request: Request) -> Answer:
        return Answer(200, b'{"status":"ok"}')

    async def tell_ready(request: Request) -> Answer:
        if not is_ready():
            raise RefusedError(503, "not_ready", "this server takes no requests", RETRY)
        return Answer(200, b'{"status":"ready"}')

    async def tell_metrics(request: Request) -> Answer:
        return Answer(200, metrics.render().encode(), "text/plain; version=0.0.4; charset=utf-8")

    session = f"{SESSION}{{session}}"
    return [
        Route("/healthz", {"GET": tell_health}, is_public=True),
        Route("/readyz", {"GET": tell_ready}, is_public=True),
        Route("/metrics", {"GET": tell_metrics}),
        Route("/v1/policy", {"GET": handlers.tell_policy}),
        Route("/v1/act", {"POST": handlers.act_with_state}),
        Route("/v1/sessions", {"POST": handlers.open_session}),
        Route(session, {"GET": handlers.tell_session, "DELETE": handlers.end_session}),
        Route(f"{session}/act", {"POST": handlers.act_in_session}),
        Route(f"{session}/reset", {"POST": handlers.reset_session}),
        *_fixed(documents),
    ]


RETRY = {"retry-after": "1"}


def _fixed(documents: dict[str, Answer]) -> Iterator[Route]:
    """Pages that say nothing of the policy, and so are for everyone."""
    for path, answer in documents.items():
        yield Route(path, {"GET": _Fixed(answer)}, is_public=True)


class _Fixed:
    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    async def __call__(self, request: Request) -> Answer:
        return self._answer
