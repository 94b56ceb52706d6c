"""A server in this process: its application alone, or on a port of this machine."""

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

from oryx_marl.policy.artifact import PolicyArtifact
from oryx_marl.serve.limits import ServeLimits
from oryx_marl.serve.server import Service, address_of, bind, make_server

FEW = ServeLimits(max_batch=4, max_sessions=64)
"""Little to compile."""
TOKEN = "0123456789abcdef0123456789abcdef"


class Told(NamedTuple):
    """What a server answered."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def about(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """Of an error."""
        return self.about["error"]["code"]


class Ask(NamedTuple):
    """A request."""

    method: str
    path: str
    about: Any = None
    """As JSON, or bytes as they are."""
    headers: dict[str, str] | None = None


class Local:
    """Calls an application without a network, in an event loop that stays."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._runner = asyncio.Runner()

    def close(self) -> None:
        self._runner.close()

    def ask(self, method: str, path: str, about: Any = None, **headers: str) -> Told:
        return self.ask_all([Ask(method, path, about, headers)])[0]

    def ask_all(self, requests: list[Ask]) -> list[Told]:
        """Answers to requests that come at the same time."""
        return self._runner.run(self._gather(requests))

    def begin(self, **settings: Any) -> str:
        """The path of a new session."""
        told = self.ask("POST", "/v1/sessions", settings)
        assert told.status == 201, told.body
        return f"/v1/sessions/{told.about['session']}"

    async def _gather(self, requests: list[Ask]) -> list[Told]:
        return list(await asyncio.gather(*map(self._ask, requests)))

    async def _ask(self, request: Ask) -> Told:
        method, path, about, headers = request
        body = about if isinstance(about, bytes) else b"" if about is None else _dump(about)
        fields = {"content-type": "application/json", "content-length": str(len(body))}
        fields |= {name.replace("_", "-"): value for name, value in (headers or {}).items()}
        sent: list[Any] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "headers": [(name.encode(), value.encode()) for name, value in fields.items()],
        }
        await self.service.app(scope, receive, send)
        found = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        return Told(sent[0]["status"], found, b"".join(each["body"] for each in sent[1:]))


def _dump(about: Any) -> bytes:
    return json.dumps(about).encode()


def make_local(policy: PolicyArtifact, limits: ServeLimits = FEW, **options: Any) -> Local:
    return Local(Service(policy, limits=limits, **options))


@contextlib.contextmanager
def running(service: Service, port: int = 0) -> Iterator[str]:
    """The address of a server in a thread."""
    listener = bind("127.0.0.1", port)
    ready = threading.Event()
    server = make_server(service, ready.set)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        assert ready.wait(30)
        yield address_of(listener)
    finally:
        server.should_exit = True
        thread.join(30)
        listener.close()
        assert not thread.is_alive()


def send_raw(url: str, content: bytes, seconds: float = 10.0) -> bytes:
    """Everything that is answered to some bytes until the server closes, or time is over."""
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=seconds) as connection:
        with contextlib.suppress(OSError):
            connection.sendall(content)
        parts = []
        with contextlib.suppress(OSError):
            while part := connection.recv(65536):
                parts.append(part)
    return b"".join(parts)
