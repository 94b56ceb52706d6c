"""Names and plug-ins: a module's file name is its key, so a new one is one new file.

A room is a sub-package by its name, such as `algorithms` or `data.sources`. Beside its own modules
some rooms (see `PLUGGABLE`) hold plug-ins: entry points of installed packages, group
`oryx_marl.<room>`, and files that the user has named (`add_file`). An installed plug-in is imported
when its name is asked for. A dataset or a run can name a plug-in but never cause an import of
anything else: what is not registered is an error.
"""

import ast
import difflib
import importlib
import importlib.util
import inspect
import pkgutil
import sys
import traceback
import warnings
from collections.abc import Sequence
from functools import lru_cache
from importlib.abc import InspectLoader
from importlib.machinery import SourceFileLoader
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import CodeType, ModuleType
from typing import NamedTuple

from oryx_marl.errors import OryxError, OryxWarning, UnknownNameError

PLUGGABLE = {
    "algorithms": ("Config", "make"),
    "envs": ("make",),
    "recipes": ("FAMILIES", "find_family"),
    "data.sources": ("recognises", "read"),
}
"""Rooms that can be added to, and what a module of each defines."""
EXPECTED = (
    "an algorithm defines Config and make(config, spec); an environment make(**config) and no "
    "Config; a data source recognises(path) and read(path, name, options); recipes FAMILIES and "
    "find_family(name)"
)
SINGULAR = {
    "algorithms": "algorithm",
    "envs": "environment",
    "recipes": "family of recipes",
    "data.sources": "kind of source",
    "bench.suites": "suite",
    "loggers": "logger",
}
"""What one of a room is called."""
LOAD_FIRST = (
    ". One of a plug-in must be loaded first: --plugin FILE, or oryx_marl.load_plugin(FILE), "
    "or install its package; an environment can also be named by --env package.module:make"
)


class _Added(NamedTuple):
    """A file that was added."""

    path: Path
    """As the user has named it."""
    module: ModuleType


_added: dict[str, _Added] = {}
"""By name."""


def names(room: str) -> list[str]:
    """All names of a room: the package's own modules, then plug-ins.

    Sub-packages, `base` and what starts with `_` have no name.
    """
    own = _own(room)
    plugins = {*_files(room), *_installed(room)} - {*own}
    return [*own, *sorted(plugins)]


def canonical(room: str, name: str) -> str:
    """The name as it is listed: `iql-cql` is that of `iql_cql`, as the command line writes it."""
    return name.replace("-", "_") if name.replace("-", "_") in names(room) else name


def load(room: str, name: str) -> ModuleType:
    """The module of a name, or an error that lists what there is."""
    name = canonical(room, name)
    if name in _own(room):
        return importlib.import_module(f"oryx_marl.{room}.{name}")
    if name in _files(room):
        return _files(room)[name]
    if name in _installed(room):
        return _load_installed(room, _installed(room)[name])
    hint = LOAD_FIRST if room in PLUGGABLE else ""
    raise UnknownNameError(f"{tell_unknown(SINGULAR.get(room, room), name, names(room))}{hint}")


def tell_unknown(what: str, name: str, known: Sequence[str]) -> str:
    """That a name is none of those known, and which is close to it."""
    close = difflib.get_close_matches(name, known, 1, cutoff=0.6)
    hint = f"did you mean {close[0]}? There" if close else "there"
    return f"there is no {what} '{name}'; {hint} is: {', '.join(known)}"


def describe(room: str, name: str) -> str:
    """The first sentence of a module's docstring; modules of the package are not imported."""
    if name in _own(room):
        return read_summary(f"oryx_marl.{room}.{name}")
    return _summarise(load(room, name).__doc__)


def read_summary(module: str, name: str | None = None) -> str:
    """The first sentence of the docstring of a module, or of a class of it, without an import."""
    spec = importlib.util.find_spec(module)
    assert spec is not None
    loader = spec.loader
    if not isinstance(loader, InspectLoader):
        return ""
    tree = ast.parse(loader.get_source(module) or "")
    found = (each for each in tree.body if isinstance(each, ast.ClassDef) and each.name == name)
    return _summarise(ast.get_docstring(tree if name is None else next(found)))


def _summarise(docstring: str | None) -> str:
    """The first sentence in one line."""
    first = inspect.cleandoc(docstring or "").split("\n\n")[0]
    sentence = " ".join(first.split()).partition(". ")[0]
    return sentence if not sentence or sentence[-1] in ".?!" else f"{sentence}."


def add_file(path: Path | str) -> ModuleType:
    """Runs a Python file and adds what it defines, under the name of the file without `.py`.

    A file that is added again is run again, so that its changes count.
    """
    path = Path(path)
    if not path.is_file() or path.suffix != ".py":
        raise OryxError(
            f"there is no plug-in {path}: a plug-in is a Python file, such as my_env.py"
        )
    name = path.stem
    module = _run(path, f"oryx_marl_plugin_{name}")
    rooms = _rooms(module)
    if not rooms:
        raise OryxError(f"the plug-in {path} provides nothing: {EXPECTED}")
    for room in rooms:
        if name in _own(room):
            _warn(
                f"the plug-in {path} is not used in {room}: the package has a '{name}' of its own"
            )
        elif name in _installed(room):
            package = _package(_installed(room)[name])
            _warn(f"the plug-in {path} is used instead of '{name}' of the package {package}")
    before = _added.get(name)
    if before is not None and before.path.resolve() != path.resolve():
        _warn(f"the plug-in {path} is used instead of {before.path}, which has the same name")
    _added[name] = _Added(path, module)
    return module


def files() -> list[Path]:
    """The files that were added, as they were named."""
    return [path for path, _ in _added.values()]


def given(room: str) -> list[str]:
    """Names in a room that come from files that were added."""
    return [name for name in names(room) if name in _files(room) and name not in _own(room)]


def installed(room: str) -> dict[str, str]:
    """Names in a room that come from installed packages, and the name of each package."""
    apart = {*_own(room), *_files(room)}
    return {name: _package(point) for name, point in _installed(room).items() if name not in apart}


def _own(room: str) -> list[str]:
    """The public modules of `oryx_marl.<room>`."""
    folder = importlib.import_module(f"oryx_marl.{room}")
    found = (each.name for each in pkgutil.iter_modules(folder.__path__) if not each.ispkg)
    return sorted(name for name in found if name != "base" and not name.startswith("_"))


def _files(room: str) -> dict[str, ModuleType]:
    return {name: module for name, (_, module) in _added.items() if room in _rooms(module)}


def _rooms(module: ModuleType) -> list[str]:
    """The rooms that a module belongs into, by what it defines."""
    found = [room for room, parts in PLUGGABLE.items() if _defines(module, parts)]
    if "algorithms" in found:  # its `make` is that of an algorithm
        found.remove("envs")
    return found


def _defines(module: ModuleType, parts: tuple[str, ...]) -> bool:
    return all(hasattr(module, part) for part in parts)


def _installed(room: str) -> dict[str, EntryPoint]:
    """Entry points of a room by name."""
    return _find_installed(room, tuple(sys.path)) if room in PLUGGABLE else {}


@lru_cache
def _find_installed(room: str, path: tuple[str, ...]) -> dict[str, EntryPoint]:
    """Reads what is installed, anew only where `path`, which is that of `sys`, has changed."""
    own, found = _own(room), dict[str, EntryPoint]()
    for point in entry_points(group=f"oryx_marl.{room}"):
        if point.name in own:
            _warn(
                f"'{point.name}' of the package {_package(point)} is not used in {room}: "
                "oryx-marl has one of that name"
            )
        elif point.name in found and found[point.name].value != point.value:
            _warn(
                f"'{point.name}' of the package {_package(point)} is not used in {room}: the "
                f"package {_package(found[point.name])} has one of that name"
            )
        else:
            found[point.name] = point
    return found


def _load_installed(room: str, point: EntryPoint) -> ModuleType:
    about = f"the plug-in '{point.name}' of the package {_package(point)}"
    try:
        module = point.load()
    except Exception as error:
        raise OryxError(
            f"{about} cannot be loaded: {_explain(error)}; repair or uninstall it"
        ) from error
    if not isinstance(module, ModuleType) or not _defines(module, PLUGGABLE[room]):
        raise OryxError(
            f"{about} ({point.value}) does not fit into {room}: its entry point must name a module "
            f"that defines {' and '.join(PLUGGABLE[room])}"
        )
    return module


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.value


class _Uncached(SourceFileLoader):
    """Reads the file itself: kept bytecode would hide a change within a second."""

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


def _run(path: Path, name: str) -> ModuleType:
    """The module that a file makes, known to Python as `name`."""
    loader = _Uncached(name, str(path.resolve()))
    spec = importlib.util.spec_from_loader(name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    before = sys.modules.get(name)
    sys.modules[name] = module  # dataclasses look up their annotations there
    try:
        loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        if before is not None:
            sys.modules[name] = before
        if isinstance(error, OryxError):
            raise
        raise OryxError(f"the plug-in {path} cannot be loaded: {_explain(error)}") from error
    return module


def _explain(error: Exception) -> str:
    """What went wrong, and where."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    is_syntax = isinstance(error, SyntaxError)  # which says by itself where it is
    place = "" if is_syntax else f" ({where.filename}, line {where.lineno})"
    return f"{type(error).__name__}: {error}{place}"


def _warn(message: str) -> None:
    warnings.warn(message, OryxWarning, stacklevel=3)
