"""A hub on this machine: redirects, ranges, and connections that break on demand."""

import hashlib
import http.server
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Hub:
    """What the server does; tests change it while it runs."""

    files: dict[str, bytes] = field(default_factory=dict)
    """Content by path in the repository."""
    commit: str | None = COMMIT
    break_after: list[int] = field(default_factory=list)
    """Bytes after which each of the next answers breaks off."""
    announced: str | None = None
    """The hash in X-Linked-Etag, if not the true one."""
    etag: str | None = "true"
    """ETag of the storage: the content's hash if 'true'."""
    location: str | None = None
    """Where files are redirected to, if not to the storage."""
    status: int | None = None
    has_ranges: bool = True
    length: str | None = None
    """Content-Length of the storage, if not the true one; '' for none."""
    content_range: str | None = None
    """Content-Range of the storage, if not the true one."""
    requests: list[tuple[str, str | None]] = field(default_factory=list)
    """Path and Range of each request."""
    url: str = ""


@contextmanager
def serve() -> Iterator[Hub]:
    """A running Hub."""
    hub = Hub()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            hub.requests.append((self.path, self.headers["Range"]))
            if hub.status is not None:
                self.send_error(hub.status)
            elif self.path.startswith("/datasets/"):
                _redirect(self, hub)
            elif (path := self.path.removeprefix("/storage/")) in hub.files:
                _send(self, hub, hub.files[path])
            else:
                self.send_error(404)

        def log_message(self, *arguments: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    hub.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _redirect(handler: http.server.BaseHTTPRequestHandler, hub: Hub) -> None:
    found = re.fullmatch(r"/datasets/InstaDeepAI/og-marl/resolve/(\w+)/(.*)", handler.path)
    if not found or found[2] not in hub.files or found[1] not in ("main", hub.commit):
        handler.send_error(404)
        return
    handler.send_response(302)
    handler.send_header("Location", hub.location or f"/storage/{found[2]}")
    if hub.commit:
        handler.send_header("X-Repo-Commit", hub.commit)
    announced = hub.announced or hashlib.sha256(hub.files[found[2]]).hexdigest()
    handler.send_header("X-Linked-Etag", f'"{announced}"')
    handler.send_header("Content-Length", "0")
    handler.end_headers()


def _send(handler: http.server.BaseHTTPRequestHandler, hub: Hub, content: bytes) -> None:
    mark = f'"{hashlib.sha256(content).hexdigest()}"' if hub.etag == "true" else hub.etag
    start, asked = 0, re.fullmatch(r"bytes=(\d+)-", handler.headers["Range"] or "")
    condition = handler.headers["If-Range"]
    if asked and hub.has_ranges and (condition is None or condition == mark):
        start = int(asked[1])
        if start >= len(content):
            handler.send_response(416)
            handler.send_header("Content-Range", f"bytes */{len(content)}")
            handler.send_header("Content-Length", "0")
            handler.end_headers()
            return
        handler.send_response(206)
        true = f"bytes {start}-{len(content) - 1}/{len(content)}"
        handler.send_header("Content-Range", hub.content_range or true)
    else:
        handler.send_response(200)
    if mark:
        handler.send_header("ETag", mark)
    length = str(len(content) - start) if hub.length is None else hub.length
    if length:
        handler.send_header("Content-Length", length)
    handler.end_headers()
    end = start + hub.break_after.pop(0) if hub.break_after else len(content)
    handler.wfile.write(content[start:end])
