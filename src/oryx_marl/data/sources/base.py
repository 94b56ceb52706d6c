"""What a kind of source is, and how one is found, imported and written.

A module of this package, or a plug-in (see `registry`), is a kind of source if it has

    recognises(path) -> bool                             whether a file or folder is of this kind
    read(path, name, options) -> Iterator[Dataset]       its episodes, one part at a time

and one that can be written also has `write(parts, path)`. What can be told about such a source is
declared as a frozen dataclass `Options`, which extends that of this file; every field has a
default, and becomes a flag of `oryx data import`.
"""

import contextlib
import importlib
import os
import re
import shutil
import tomllib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import oryx_marl
from oryx_marl import files, installation, locks, registry, renamed
from oryx_marl.data._derive import ActionKind, ToldActions
from oryx_marl.data.dataset import Dataset
from oryx_marl.data.sources._actions import require_sound
from oryx_marl.errors import OryxError, OryxWarning

PACKAGE = "data.sources"
PARTIAL = ".partial"
KIND = "kind"
"""What a mapping may say beside the options."""


@dataclass(frozen=True)
class Options:
    """What every importer takes; each of them declares its own, which extend these."""

    time_limit: int | None = None
    """Episodes that end as terminal after so many steps were cut off by the clock: they count as
    truncated. Unset: of PyMARL's files the longest possible episode; 0: none."""


@dataclass(frozen=True)
class ActionOptions(Options):
    """What importers take that infer the action space."""

    action_kind: ActionKind = "auto"
    """Kind of the actions, where it is not plain from their numbers."""
    action_low: tuple[float, ...] = ()
    """Lowest possible value of continuous actions, one for all dimensions or one for each. Unset:
    -1 where all that was logged is between -1 and 1, else the lowest that was."""
    action_high: tuple[float, ...] = ()
    """Highest possible value, likewise."""

    @property
    def actions(self) -> ToldActions:
        """What is told of the actions."""
        return ToldActions(self.action_kind, self.action_low, self.action_high)


def options_of(kind: str) -> type[Options]:
    """The options that an importer declares; a plug-in that declares none takes those of tables."""
    declared: type[Options] | None = getattr(_load(kind), "Options", None)
    return declared or options_of("table")


def read_options(kind: str, path: Path) -> Options:
    """The options of an importer from a TOML file, which may also say the kind."""
    values = {name: value for name, value in _read_mapping(path).items() if name != KIND}
    return make_options(kind, values, f"the mapping {path}: ")


def read_kind(path: Path, kind: str | None = None) -> str | None:
    """The kind of source that a TOML file says, if it does; `kind` is what was told beside it."""
    told = _read_mapping(path).get(KIND)
    if not isinstance(told, str | None):
        raise OryxError(f"the mapping {path}: kind = {told!r} is not understood")
    if told and kind and told != kind:
        raise OryxError(f"the mapping {path} says kind = '{told}', but '{kind}' was told")
    return kind or told


def _read_mapping(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise OryxError(f"the mapping {path} cannot be read: {error}") from error


def make_options(
    kind: str, values: Mapping[str, Any], where: str = "", spell: Callable[[str], str] = str
) -> Options:
    """The options of an importer from plain values, each of which it must take.

    Args:
        where: where the values come from, for messages, such as "the mapping depot.toml: ".
        spell: how a name is written there, such as `--action-kind` on the command line.
    """
    options = options_of(kind)
    known, types = [entry.name for entry in fields(options)], get_type_hints(options)
    found: dict[str, Any] = {}
    for name, value in values.items():
        if name in renamed.OPTIONS and name not in known:
            new = renamed.OPTIONS[name]
            warnings.warn(
                f"{where}{spell(name)} is now called {spell(new)}", OryxWarning, stacklevel=2
            )
            if new in values:
                raise OryxError(f"{where}{spell(name)} and {spell(new)} are the same; give one")
            name = new
        if name not in known:
            raise OryxError(
                f"{where}a source of kind '{kind}' takes no {spell(name)}; it takes: "
                f"{', '.join(map(spell, known))}"
            )
        found[name] = _checked(value, types[name], f"{where}{spell(name)} = {value!r}")
    return options(**found)


def _checked(value: Any, hint: Any, what: str) -> Any:
    """A value of an option's type; a text or number alone is a list of one, and a list a tuple."""
    if get_origin(hint) is tuple:
        kind = float | int if get_args(hint)[0] is float else str
        value = (value,) if isinstance(value, kind) else value
        is_right = isinstance(value, list | tuple) and all(
            isinstance(v, kind) and not isinstance(v, bool) for v in value
        )
        value = tuple(value) if is_right else value
    elif get_origin(hint) is Literal:
        is_right = value in get_args(hint)
    else:
        is_right = isinstance(value, hint) and (hint is bool or not isinstance(value, bool))
    if not is_right:
        raise OryxError(f"{what} is not understood")
    return value


def names() -> list[str]:
    """The kinds of source that can be imported."""
    return registry.names(PACKAGE)


def own_names() -> list[str]:
    """The same without those of installed packages, which are imported only when asked for."""
    apart = registry.installed(PACKAGE)
    return [name for name in names() if name not in apart]


def find(path: Path, kind: str | None = None) -> str:
    """The kind of a file or folder, which may be told."""
    if not path.exists():
        raise OryxError(f"there is no file or folder {path}")
    if kind is not None:
        if kind not in names():
            raise OryxError(f"there is no kind of source '{kind}'; there are: {', '.join(names())}")
        return kind
    # A file that the user has named knows its own logs better than we do.
    added = registry.given(PACKAGE)
    for name in (*added, *(name for name in names() if name not in added)):
        if _load(name).recognises(path):
            return name
    if path.suffix.lower() == ".json":
        raise OryxError(
            f"{path} is one JSON document; JSON is imported with one object per row and line, by "
            "pandas: df.to_json('log.jsonl', orient='records', lines=True)"
        )
    raise OryxError(
        f"{path} is not of a kind that can be imported. Known are: tables (.parquet, .csv, "
        ".jsonl), arrays (.h5, .npz, a folder of .npy, of PyMARL also a folder of .h5 or .npz) in "
        "the layout of PyMARL or flat, folders of Minari, and Vaults; see "
        f"{installation.point_to_page('Your logs', 'guides/your-logs.md')}"
    )


def read(
    path: Path, name: str, options: Options | None = None, kind: str | None = None
) -> Iterator[Dataset]:
    """The episodes of a source, part by part, labelled with where they come from."""
    kind = find(path, kind)
    options = options_of(kind)() if options is None else options
    if not isinstance(options, options_of(kind)):
        raise OryxError(
            f"{path} is of kind '{kind}', but the options are those of another: "
            f"{type(options).__module__.rpartition('.')[2]}"
        )
    told = {
        entry.name: getattr(options, entry.name)
        for entry in fields(options)
        if getattr(options, entry.name) != entry.default
    }
    has_bounds = isinstance(options, ActionOptions) and options.actions.has_bounds
    episodes = 0
    with explained(path):
        for part in _load(kind).read(path, name, options):
            require_sound(part, episodes, has_bounds)
            episodes += part.num_episodes
            origin = {
                **part.origin,
                "imported_from": path.name,
                "kind": kind,
                "options": {key: list(v) if isinstance(v, tuple) else v for key, v in told.items()},
                "version": oryx_marl.__version__,
            }
            part = replace(part, name=name, origin=origin)
            yield _cut_off(part, options.time_limit) if options.time_limit else part
            del part


def _cut_off(part: Dataset, limit: int) -> Dataset:
    """Episodes that end as terminal after `limit` steps end as truncated instead."""
    ends = (part.episode_starts + part.episode_lengths - 1)[part.episode_lengths == limit]
    terminals, truncations = part.terminals.copy(), part.truncations.copy()
    truncations[ends] |= terminals[ends]
    terminals[ends] = False
    return replace(part, terminals=terminals, truncations=truncations)


def write(parts: Iterable[Dataset], path: Path, kind: str) -> Path:
    """Writes a dataset as another kind, whole or not at all."""
    if kind not in names() or not hasattr(_load(kind), "write"):
        writers = [name for name in names() if hasattr(_load(name), "write")]
        raise OryxError(f"'{kind}' cannot be written; these can: {', '.join(writers)}")
    with locks.hold(locks.beside(path), f"the export {path}"):
        if os.path.lexists(path):
            raise OryxError(f"{path} is there already; remove it or choose another name")
        partial = path.with_name(path.name + PARTIAL)
        try:
            _remove(partial)
            _load(kind).write(parts, partial)
            files.sync_tree(partial) if partial.is_dir() else files.sync(partial)
            partial.rename(path)
            files.sync(path.parent)
        except OSError as error:
            raise OryxError(
                f"{path} could not be written: {error}. Is there space, and may you write?"
            ) from error
        finally:
            with contextlib.suppress(OSError):
                _remove(partial)
    return path


def require(package: str) -> Any:
    """An optional package, or an error that says how to get it."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise OryxError(
            f"this needs the package {package.split('.')[0]}; install it: "
            f"{installation.how_to_install('sources')}"
        ) from error


def natural(name: str) -> list[tuple[int, int, str]]:
    """So that agent_10 comes after agent_9."""
    pieces = re.findall(r"\d+|\D+", name)
    return [(0, int(piece), "") if piece.isdecimal() else (1, 0, piece) for piece in pieces]


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Whatever a damaged or odd file makes the libraries below raise becomes an OryxError."""
    try:
        yield
    except OryxError as error:
        if str(path) in str(error):
            raise
        raise OryxError(f"{path} cannot be imported: {error}") from error
    except Exception as error:
        what = (str(error).splitlines() or [""])[0][:300] or type(error).__name__
        raise OryxError(
            f"{path} cannot be read: {what}. Is it whole, and of the kind its name says?"
        ) from error


def watched(parts: Iterable[Dataset], report: Callable[[int], None]) -> Iterator[Dataset]:
    """The same parts; `report` is told the rows so far."""
    rows = 0
    for part in parts:
        rows += part.num_rows
        yield part
        del part
        report(rows)


def _load(kind: str) -> ModuleType:
    return registry.load(PACKAGE, kind)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif os.path.lexists(path):
        path.unlink()
