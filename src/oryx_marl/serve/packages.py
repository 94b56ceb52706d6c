"""The packages of the extra `serve`."""

from oryx_marl.errors import OryxError
from oryx_marl.installation import how_to_install

try:
    import httptools
    import orjson
    import uvicorn
except ImportError as error:
    raise OryxError(
        f"oryx serve needs the package {error.name}: {how_to_install('serve')}"
    ) from error

__all__ = ["httptools", "orjson", "uvicorn"]
