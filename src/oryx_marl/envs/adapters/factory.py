"""Things that a user names as `package.module:name`; without JAX, as worker processes use it."""

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

from oryx_marl.errors import OryxError, UnknownNameError


def resolve(name: str) -> Callable[..., Any]:
    """What `package.module:make` names; modules in the current folder are found too."""
    module_name, colon, attribute = name.partition(":")
    if not (module_name and colon and attribute):
        raise UnknownNameError(
            f"'{name}' names no function: write package.module:function, with a colon, such as "
            "my_env:make"
        )
    folder = os.getcwd()
    if folder not in sys.path:
        sys.path.insert(0, folder)
        importlib.invalidate_caches()
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise OryxError(
                f"'{name}': the module {module_name} needs {error.name}, which is not installed"
            ) from error
        raise UnknownNameError(
            f"'{name}': there is no module {error.name}; run this in the folder that holds it, or "
            "install the package"
        ) from error
    except Exception as error:  # a user's module may do anything
        raise OryxError(
            f"'{name}': {module_name} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise UnknownNameError(f"'{name}': {module_name} has no '{attribute}'")
        found = getattr(found, part)
    if not callable(found):
        raise OryxError(f"'{name}' is no function but a {type(found).__name__}")
    return found
