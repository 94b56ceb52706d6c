"""JSON over one HTTP connection that is kept open, and tried again while a server restarts."""

import contextlib
import http.client
import json
import random
import time
from typing import Any
from urllib.parse import urlsplit

from oryx_marl_runtime.errors import OryxError

FIRST_WAIT, LONGEST_WAIT = 0.05, 2.0
MOST_BYTES = 2**28
RETRIED = (502, 503, 504)
"""Of a server that is full, and of a proxy whose server restarts."""
UNAUTHORIZED = "the token is missing or wrong: give it as token=..."


class AnswerError(OryxError):
    """A server's refusal."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


class Connection:
    """Requests to one server, one at a time.

    Args:
        url: such as http://127.0.0.1:8000; a path in it is put before every path.
        token: of the server, if it has one.
        timeout: seconds to wait for an answer.
        retry_for: seconds to try again when the connection is lost or the server is full.
    """

    def __init__(self, url: str, token: str | None, timeout: float, retry_for: float) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise OryxError(f"url must be such as http://127.0.0.1:8000, got {url!r}")
        if parts.query or parts.fragment or parts.username:
            raise OryxError("url must have no query and no user; give the token as token=...")
        secure = parts.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        self._open = kind(parts.hostname, parts.port, timeout=timeout)
        self._prefix, self._retry_for = parts.path.rstrip("/"), retry_for
        self._headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self.url = url

    def ask(self, method: str, path: str, about: Any = None, retries: bool = True) -> Any:
        """The server's answer; raises an AnswerError where it refuses.

        Every request of this client may be sent twice: a step has its number.
        """
        body = None if about is None else _to_json(about)
        until, wait = time.monotonic() + (self._retry_for if retries else 0), FIRST_WAIT
        while True:
            try:
                return self._ask_once(method, path, body)
            except (OSError, http.client.HTTPException) as error:
                self.close()
                if time.monotonic() >= until:
                    why = f"{type(error).__name__}: {error}"
                    raise OryxError(f"there is no answer from {self.url} ({why})") from error
            except AnswerError as refusal:
                if refusal.status not in RETRIED or time.monotonic() >= until:
                    raise
            # Clients of a server that restarts must not come back all at once.
            time.sleep(min(wait * random.uniform(0.5, 1.0), max(0.0, until - time.monotonic())))
            wait = min(2 * wait, LONGEST_WAIT)

    def close(self) -> None:
        """Ends the connection; the next request opens it again."""
        with contextlib.suppress(OSError):
            self._open.close()

    def _ask_once(self, method: str, path: str, body: bytes | None) -> Any:
        self._open.request(method, self._prefix + path, body, self._headers)
        answer = self._open.getresponse()
        content = answer.read(MOST_BYTES)
        if 200 <= answer.status < 300:
            return _parse(content) if content else None
        raise _explain(answer.status, content)


def _to_json(about: Any) -> bytes:
    try:
        return json.dumps(about, separators=(",", ":"), allow_nan=False).encode()
    except ValueError as error:
        raise OryxError("what is shown has numbers that are not finite") from error
    except TypeError as error:
        raise OryxError(f"what is shown must be numbers, in lists or by name: {error}") from error


def _parse(content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError as error:
        raise OryxError("the answer is no JSON: is this the address of `oryx serve`?") from error


def _explain(status: int, content: bytes) -> AnswerError:
    try:
        error = json.loads(content)["error"]
        if status == 401:
            return AnswerError(status, str(error["code"]), UNAUTHORIZED)
        return AnswerError(status, str(error["code"]), str(error["message"]))
    except (ValueError, KeyError, TypeError):
        return AnswerError(status, "", f"the server answered with status {status}")
