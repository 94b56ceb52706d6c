"""Names and plug-ins: a module's file name is its key, so a new one is one new file."""

import importlib
import pkgutil
from types import ModuleType

from oryx_marl.errors import OryxError


def names(package: str) -> list[str]:
    """The public modules of `oryx_marl.<package>`, without `base` and names that start with `_`."""
    folder = importlib.import_module(f"oryx_marl.{package}")
    found = (module.name for module in pkgutil.iter_modules(folder.__path__))
    return sorted(name for name in found if name != "base" and not name.startswith("_"))


def load(package: str, name: str) -> ModuleType:
    """The module `oryx_marl.<package>.<name>`, or an error that lists what there is."""
    known = names(package)
    if name not in known:
        raise OryxError(f"there is no '{name}' in {package}; there is: {', '.join(known)}")
    return importlib.import_module(f"oryx_marl.{package}.{name}")
