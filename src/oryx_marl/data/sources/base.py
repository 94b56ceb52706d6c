"""What a kind of source is, and how one is found, imported and written.

A module of this package, or a plug-in (see `registry`), is a kind of source if it has

    recognises(path) -> bool                             whether a file or folder is of this kind
    read(path, name, options) -> Iterator[Dataset]       its episodes, one part at a time

and one that can be written also has `write(parts, path)`.
"""

import contextlib
import importlib
import os
import shutil
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import oryx_marl
from oryx_marl import registry
from oryx_marl.data._derive import ActionKind
from oryx_marl.data.dataset import Dataset
from oryx_marl.errors import OryxError

PACKAGE = "data.sources"
PARTIAL = ".partial"


@dataclass(frozen=True)
class Options:
    """How a source is to be understood; what is not told is found out.

    Each of the first fields names a column of a table, or several; the name `obs` also stands for
    all columns that begin with `obs_`.
    """

    episode: str | None = None
    """Column that tells episodes apart."""
    step: str | None = None
    """Column that orders the steps of an episode: a number or a time."""
    agent: str | None = None
    """Column with the agent's name or number."""
    observation: tuple[str, ...] = ()
    """What the agent saw: columns, or one column with a list in each cell."""
    action: tuple[str, ...] = ()
    """What it did: a number or a word, or several numbers."""
    reward: str | None = None
    """What it got for it."""
    terminal: str | None = None
    """Whether the task ended after this step."""
    truncated: str | None = None
    """Whether the recording ended after this step, although the task would have gone on."""
    action_mask: tuple[str, ...] = ()
    """Which actions were possible: 0 or 1 for each."""
    state: tuple[str, ...] = ()
    """Global state, if there is one."""
    agent_mask: str | None = None
    """Whether the agent took part in this step."""
    agents: tuple[str, ...] = ()
    """The agents in their order (default: by name)."""
    action_names: tuple[str, ...] = ()
    """Words for the actions in the order of their ids (default: by alphabet)."""
    action_kind: ActionKind = "auto"
    """Kind of the actions, where it is not plain from their numbers."""
    sort: bool = False
    """Bring the rows of each episode together first, in memory."""
    time_limit: int | None = None
    """Episodes that end as terminal after so many steps were cut off by the clock: they count as
    truncated. Default: of a PyMARL file, its longest possible episode; 0: none."""


def read_options(path: Path) -> Options:
    """Options from a TOML file."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise OryxError(f"the mapping {path} cannot be read: {error}") from error
    return make_options(values, path)


def make_options(values: Mapping[str, Any], path: Path) -> Options:
    """Options from plain values, each of which must be known and of the right type."""
    default = Options()
    known = {entry.name: entry for entry in fields(Options)}
    if unknown := sorted(set(values) - set(known)):
        raise OryxError(
            f"the mapping {path} has unknown entries {', '.join(unknown)}; "
            f"known are {', '.join(known)}"
        )
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(getattr(default, name), tuple):
            value = (value,) if isinstance(value, str) else value
            is_right = isinstance(value, list | tuple) and all(isinstance(v, str) for v in value)
            value = tuple(value) if is_right else value
        elif name == "sort":
            is_right = isinstance(value, bool)
        elif name == "time_limit":
            is_right = isinstance(value, int) and not isinstance(value, bool)
        elif name == "action_kind":
            is_right = value in ("auto", "discrete", "box")
        else:
            is_right = isinstance(value, str)
        if not is_right:
            raise OryxError(f"the mapping {path} has {name} = {value!r}, which is not understood")
        found[name] = value
    return Options(**found)


def names() -> list[str]:
    """The kinds of source that can be imported."""
    return registry.names(PACKAGE)


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
    raise OryxError(
        f"{path} is not of a kind that can be imported. Known are: tables (.parquet, .csv), "
        "arrays (.h5, .npz, a folder of .npy) in the layout of PyMARL or flat, folders of Minari, "
        "and Vaults; see docs/guides/your-logs.md"
    )


def read(
    path: Path, name: str, options: Options | None = None, kind: str | None = None
) -> Iterator[Dataset]:
    """The episodes of a source, part by part, labelled with where they come from."""
    kind = find(path, kind)
    options = options or Options()
    told = {
        entry.name: getattr(options, entry.name)
        for entry in fields(Options)
        if getattr(options, entry.name) != entry.default
    }
    with explained(path):
        for part in _load(kind).read(path, name, options):
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
    if os.path.lexists(path):
        raise OryxError(f"{path} is there already; remove it or choose another name")
    partial = path.with_name(path.name + PARTIAL)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove(partial)
        _load(kind).write(parts, partial)
        partial.rename(path)
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
            f"this needs the package {package.split('.')[0]}; install it with "
            "pip install 'oryx-marl[sources]'"
        ) from error


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
