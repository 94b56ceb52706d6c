"""What a server answers instead: a status, a code for programs, a sentence for people."""

from collections.abc import Mapping


class RefusedError(Exception):
    """Becomes {"error": {"code", "message"}}; its text is written for the one who asks."""

    def __init__(
        self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message
        self.headers = dict(headers or {})


def invalid(message: str) -> RefusedError:
    """A request that is wrong in itself."""
    return RefusedError(400, "invalid_request", message)


def try_later(code: str, message: str, seconds: int = 1) -> RefusedError:
    """A request that may succeed later."""
    return RefusedError(503, code, message, {"retry-after": str(seconds)})
