"""Datasets by name, `family/variant`: those on this disk and those within this package.

This finds and opens; how datasets are made is a matter of `oryx_marl.recipes`.
"""

import difflib
import os
import re
import warnings
from collections.abc import Collection
from pathlib import Path
from typing import Literal, NamedTuple

from oryx_marl.data import vault
from oryx_marl.data.dataset import Dataset
from oryx_marl.data.hub import archives as hub
from oryx_marl.data.vault_view import VaultView
from oryx_marl.errors import OryxError, OryxWarning, UnknownNameError

EMBEDDED = Path(__file__).parent / "embedded"
"""Small datasets that are installed with the package."""


class Entry(NamedTuple):
    """A dataset that can be opened, or made."""

    name: str
    where: Literal["local", "embedded", "recipe"]
    description: str


def default_root() -> Path:
    """The folder of local datasets: $ORYX_DATA, or `datasets` in the current folder."""
    return Path(os.environ.get("ORYX_DATA") or "datasets")


def names(root: Path | None = None) -> list[Entry]:
    """All datasets that are there, each as `open` would find it."""
    found: dict[str, Entry] = {}
    places: tuple[tuple[Literal["embedded", "local"], Path], ...] = (
        ("local", root or default_root()),
        ("embedded", EMBEDDED),
    )
    for where, place in places:
        for path in sorted(place.glob("*.vlt/*")):
            if vault.is_vault(path):
                name = f"{path.parent.stem}/{path.name}"
                found[name] = Entry(name, where, _describe(path))
    return [found[name] for name in sorted(found)]


def open(name_or_path: str | Path, root: Path | None = None) -> Dataset:
    """The dataset in a folder, or of a name (see `find`)."""
    return vault.read(find(name_or_path, root))


def view(name_or_path: str | Path, root: Path | None = None) -> VaultView:
    """The same without reading it: of any size, in pieces."""
    return VaultView(find(name_or_path, root))


def find(name_or_path: str | Path, root: Path | None = None) -> Path:
    """The folder itself, or that of a name: those of the package first, then local ones.

    So a name of the package always means the same data, even where the current folder has one that
    is called so, which is warned of; it is opened as ./family/variant, or as a Path.
    """
    folder = locate(name_or_path, root)
    if folder is None:
        raise explain_missing(str(name_or_path), [entry.name for entry in names(root)])
    return folder


def locate(name_or_path: str | Path, root: Path | None = None) -> Path | None:
    """What `find` finds, or None."""
    name = str(name_or_path)
    if "\0" in name:  # no folder can be called so, and the system raises a ValueError
        return None
    packaged = folder_of(name, EMBEDDED) if is_name(name) else None
    if packaged is not None and vault.is_vault(packaged) and isinstance(name_or_path, str):
        _tell_shadowed(name, root)
        return packaged
    if vault.is_vault(Path(name_or_path)):
        return Path(name_or_path)
    if not is_name(name):
        return None
    places = (folder_of(name, place) for place in (EMBEDDED, root or default_root()))
    return next((folder for folder in places if vault.is_vault(folder)), None)


def _tell_shadowed(name: str, root: Path | None) -> None:
    """Warns where a name of the package is also that of a folder here, which is not meant."""
    for other in (Path(name), folder_of(name, root or default_root())):
        if vault.is_vault(other):
            shown = other if other.is_absolute() or len(other.parts) > 2 else f"./{other}"
            warnings.warn(
                f"'{name}' is the dataset of that name in the package, not the one in {shown}; to "
                "open the folder, write it like that",
                OryxWarning,
                stacklevel=3,
            )


def explain_missing(name: str, known: Collection[str]) -> OryxError:
    """Why a dataset is not found, and what to do, where these names are known."""
    if is_name(name) and name.split("/")[0] in hub.archives():
        return OryxError(f"dataset '{name}' is not here yet: oryx data download {name}")
    if "\0" in name:
        return UnknownNameError(f"there is no dataset {name!r}; {suggest(name, known)}")
    if Path(name).is_file():
        return UnknownNameError(
            f"{name} is a file; import it first: oryx data import {name} NAME/VARIANT"
        )
    if (Path(name) / "config.json").is_file():
        return UnknownNameError(
            f"{name} is a run, not a dataset; continue it with `oryx train --resume {name}`"
        )
    inside = " in this folder" if Path(name).is_dir() else ""
    return UnknownNameError(f"there is no dataset '{name}'{inside}; {suggest(name, known)}")


def suggest(name: str, known: Collection[str]) -> str:
    """The closest of the known names, at most three, and how to see all."""
    close = difflib.get_close_matches(name, known, 3, cutoff=0.5)
    hint = f"did you mean {', '.join(close)}? A" if close else "a"
    return f"{hint}ll names: `oryx data list` (oryx_marl.list_datasets() in Python)"


def new_folder(name: str, root: Path | None = None) -> Path:
    """Where a dataset of this name is to be stored; nothing is there yet."""
    if not is_name(name):
        raise OryxError(
            f"'{name}' is no name for a dataset; names are such as depot/week-12, and do not end "
            f"in {vault.PARTIAL}"
        )
    if vault.is_vault(folder_of(name, EMBEDDED)):
        raise OryxError(f"'{name}' is a dataset of the package; choose another name")
    folder = folder_of(name, root or default_root())
    if os.path.lexists(folder):
        raise OryxError(f"{folder} is there already; remove it or choose another name")
    return folder


def is_name(name: str) -> bool:
    """Whether a dataset can be called so; folders of unfinished ones have an end of their own."""
    is_plain = re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", name) is not None
    return is_plain and not name.endswith(vault.PARTIAL)


def folder_of(name: str, root: Path) -> Path:
    """Where the dataset of a name is stored under a root, be it there or not."""
    family, variant = name.split("/")
    return root / f"{family}.vlt" / variant


def _describe(folder: Path) -> str:
    """One line about a stored dataset; a damaged one is listed too."""
    try:
        stored = vault.describe(folder)
    except OryxError:
        return "damaged"
    return str(stored.get("origin", {}).get("description", ""))
