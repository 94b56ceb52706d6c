"""Puts the parts together, compiles, and then listens until it is told to stop."""

import asyncio
import contextlib
import gc
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oryx_marl.errors import OryxError
from oryx_marl.policy.artifact import PolicyArtifact
from oryx_marl.serve import logs, openapi, page
from oryx_marl.serve.accepting import Acceptor
from oryx_marl.serve.access import Access, read_tokens, require_safe
from oryx_marl.serve.app import App, make_routes
from oryx_marl.serve.batching import Batcher
from oryx_marl.serve.engine import Engine
from oryx_marl.serve.handlers import Answer, Handlers
from oryx_marl.serve.limits import ServeLimits
from oryx_marl.serve.metrics import Metrics
from oryx_marl.serve.packages import orjson, uvicorn
from oryx_marl.serve.protocol import make_protocol
from oryx_marl.serve.sessions import Sessions

BACKLOG = 2048
FILES = 256
"""Open files beside connections."""


@dataclass(frozen=True)
class ServeSettings:
    """Where to listen, and for whom."""

    host: str = "127.0.0.1"
    """Address to listen on; others than this machine's need a token."""
    port: int = 8000
    """Port to listen on; 0 takes a free one."""
    token_file: Path | None = None
    """File with the tokens of clients, one in a line; without it $ORYX_SERVE_TOKEN is the token."""
    no_token: bool = False
    """Serve everyone who reaches the address."""
    access_log: bool = False
    """Log each request: method, route, status and time, and nothing that a client has sent."""


class Service:
    """Everything but the socket."""

    def __init__(
        self,
        artifact: PolicyArtifact,
        seed: int | None = None,
        act: str | float | None = None,
        limits: ServeLimits | None = None,
        tokens: list[str] | None = None,
        access_log: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        given = limits or ServeLimits()
        spec = artifact.spec
        self.engine = Engine(artifact, seed, given.max_batch, given.max_sessions)
        shown = spec.num_agents * (spec.observation_size + 2 * spec.action.size + 1)
        self.limits = given.with_state(self.engine.layout.size, shown)
        self.metrics = Metrics()
        self.batcher = Batcher(self.engine, given.max_batch, given.max_waiting, self.metrics)
        self.sessions = Sessions(given.max_sessions, given.session_ttl, self.metrics, clock)
        self.is_stopping = False
        self.handlers = Handlers(
            artifact, seed, act, self.engine, self.batcher, self.sessions, self.limits
        )
        self.metrics.watch("oryx_serve_sessions", "Live sessions.", lambda: len(self.sessions))
        self.metrics.watch(
            "oryx_serve_waiting", "Requests being computed.", lambda: self.batcher.waiting
        )
        self.app = self._make_app(tokens or [], access_log)

    def is_ready(self) -> bool:
        return not self.is_stopping

    def _make_app(self, tokens: list[str], access_log: bool) -> App:
        document = openapi.make_document()
        documents = {
            "/openapi.json": Answer(200, orjson.dumps(document)),
            "/docs": Answer(200, page.render(document).encode(), "text/html; charset=utf-8"),
        }
        routes = make_routes(self.handlers, self.metrics, self.is_ready, documents)
        assert self.limits.max_body is not None  # by `with_state`
        return App(routes, Access(tokens), self.metrics, self.limits.max_body, access_log)


def serve(
    artifact: PolicyArtifact,
    settings: ServeSettings,
    limits: ServeLimits,
    seed: int | None = None,
    act: str | float | None = None,
    tell: Callable[[str], None] = lambda _: None,
    tell_ready: Callable[[str], None] = lambda _: None,
) -> None:
    """Serves a policy until a signal ends it.

    Args:
        artifact: the policy.
        settings: where to listen.
        limits: how much to take on.
        seed: number of the training's seed (default: the first).
        act: how sessions act that do not say (default: that of the policy's action space).
        tell: told of what is done before it can listen.
        tell_ready: told the address when it listens.
    """
    tokens = read_tokens(settings.token_file)
    require_safe(settings.host, tokens, settings.no_token)
    listener = bind(settings.host, settings.port)
    try:
        allow_files(limits.max_connections)
        service = Service(artifact, seed, act, limits, tokens, settings.access_log)
        size = service.engine.slot_bytes
        tell(f"states of {limits.max_sessions:,} sessions take up to {size / 1e6:,.1f} MB")
        service.engine.compile(
            lambda rows, seconds: tell(f"compiled for batches of {rows}: {seconds:.1f} s")
        )
        logs.set_up()
        gc.collect()
        gc.freeze()  # what there is now stays: to search it for garbage takes 100 ms at a time
        server = make_server(service, lambda: tell_ready(address_of(listener)))
        server.run(sockets=[listener])
        service.batcher.stop()
    finally:
        listener.close()


def make_server(service: Service, tell_ready: Callable[[], None]) -> "PolicyServer":
    """A server, to be run with a socket; its application is compiled already."""
    limits = service.limits
    config = uvicorn.Config(
        service.app,
        http=make_protocol(
            limits.max_connections, limits.request_timeout, service.metrics.count_refusal
        ),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=int(max(1, limits.keep_alive)),
        timeout_graceful_shutdown=int(max(1, limits.grace)),
    )
    return PolicyServer(config, service, tell_ready)


class PolicyServer(uvicorn.Server):
    """uvicorn's server; a signal that ends it is not raised again when it has ended."""

    def __init__(
        self, config: uvicorn.Config, service: Service, tell_ready: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._service, self._tell_ready = service, tell_ready
        self.servers: list[Any] = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        def make_protocol() -> asyncio.Protocol:
            kind: Any = self.config.http_protocol_class
            return kind(config=self.config, server_state=self.server_state, app_state={})

        loop, backlog = asyncio.get_running_loop(), self.config.backlog
        self.servers = [Acceptor(loop, each, make_protocol, backlog) for each in sockets or ()]
        self.started = True
        self._tell_ready()

    async def on_tick(self, counter: int) -> bool:
        if counter % 10 == 0:
            self._service.sessions.expire()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._service.is_stopping = True
        await super().shutdown(sockets=sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        with super().capture_signals():
            yield
            self._captured_signals.clear()


def bind(host: str, port: int) -> socket.socket:
    """A socket at an address, which listens when all is ready; whether it is free is told now."""
    if not 0 <= port <= 65535:
        raise OryxError(f"--port must be from 0 to 65535, got {port}")
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, number, _, address = found[0]
        listener = socket.socket(family, kind, number)
    except OSError as error:
        raise OryxError(f"{host} is no address of this machine: {error.strerror}") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise OryxError(
            f"cannot listen on {host} port {port}: {error.strerror}; choose another --port"
        ) from error
    return listener


def address_of(listener: socket.socket) -> str:
    """The URL of a socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def allow_files(connections: int) -> None:
    """Raises the limit of open files to what the connections need, as far as the system lets."""
    try:
        import resource
    except ImportError:  # Windows, which has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + FILES
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
