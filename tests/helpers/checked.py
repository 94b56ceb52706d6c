"""The type checker of all tests, which the import hook of conftest.py applies to the package."""

from typing import Any

from beartype import BeartypeConf, beartype

_beartype = beartype(conf=BeartypeConf(is_pep484_tower=True))


def check(decorated: Any) -> Any:
    """All but functions within functions, which would be decorated anew whenever they are made."""
    return decorated if "<locals>" in decorated.__qualname__ else _beartype(decorated)
