"""Datasets by name, `family/variant`: on this disk, within this package, or made by a recipe."""

import difflib
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import oryx_marl
from oryx_marl import registry
from oryx_marl.data import vault
from oryx_marl.data.dataset import Dataset
from oryx_marl.data.hub import archives as hub
from oryx_marl.data.vault_view import VaultView
from oryx_marl.envs import base
from oryx_marl.errors import OryxError
from oryx_marl.recipes.base import TRAINING, Recipe, Request

EMBEDDED = Path(__file__).parent / "embedded"
"""Small datasets that are installed with the package."""
SEGMENTS = "segments"
"""Folder in a recipe's work folder for what the finished dataset makes superfluous."""


class Entry(NamedTuple):
    """A dataset that can be opened, or made."""

    name: str
    where: Literal["local", "embedded", "recipe"]
    description: str


def default_root() -> Path:
    """The folder of local datasets: $ORYX_DATA, or `datasets` in the current folder."""
    return Path(os.environ.get("ORYX_DATA") or "datasets")


def names(root: Path | None = None) -> list[Entry]:
    """All known datasets, each as `open` would find it; recipes are those not made yet."""
    found: dict[str, Entry] = {}
    for name, recipe in _recipes().items():
        found[name] = Entry(name, "recipe", recipe.description)
    places: tuple[tuple[Literal["embedded", "local"], Path], ...] = (
        ("local", root or default_root()),
        ("embedded", EMBEDDED),
    )
    for where, folder in places:
        for path in sorted(folder.glob("*.vlt/*")):
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

    So a name of the package always means the same data; a local one of that name is opened by its
    folder.
    """
    if vault.is_vault(Path(name_or_path)):
        return Path(name_or_path)
    name = str(name_or_path)
    if _is_name(name):
        for place in (EMBEDDED, root or default_root()):
            folder = _folder(name, place)
            if vault.is_vault(folder):
                return folder
        if recipe := _find_recipe(name):
            source, first = f"{name.split('/')[0]}/{recipe.after}", ""
            if recipe.after and not vault.is_vault(_folder(source, root or default_root())):
                first = f"oryx data make {source}, then "
            raise OryxError(
                f"dataset '{name}' was not made yet; make it: {first}oryx data make {name}"
            )
        if name.split("/")[0] in hub.archives():
            raise OryxError(f"dataset '{name}' is not here yet: oryx data download {name}")
    if Path(name).is_file():
        raise OryxError(f"{name} is a file; import it first: oryx data import {name} NAME/VARIANT")
    known = [entry.name for entry in names(root)]
    close = ", ".join(difflib.get_close_matches(name, known, cutoff=0.8))
    hint = f"did you mean {close}?" if close else f"by name are known: {', '.join(known) or 'none'}"
    inside = " in this folder" if Path(name).is_dir() else ""
    raise OryxError(f"there is no dataset '{name}'{inside}; {hint}")


def is_made_quickly(name: str, root: Path | None = None) -> bool:
    """Whether a dataset is not there yet but can be made without a training."""
    recipe = _find_recipe(name)
    if recipe is None or not recipe.is_quick:
        return False
    places = (EMBEDDED, root or default_root())
    return not any(vault.is_vault(_folder(name, place)) for place in places)


def usual_rows(name: str) -> int | None:
    """Steps that a recipe makes where no other number is asked for; None if there is no recipe."""
    recipe = _find_recipe(name)
    return None if recipe is None else recipe.rows


def require_recipe(name: str) -> Recipe:
    """That of a name, or an error that says which there are."""
    recipe = _find_recipe(name)
    if recipe is None:
        known = sorted(_recipes())
        if close := difflib.get_close_matches(name, known, cutoff=0.8):
            raise OryxError(f"there is no recipe for '{name}'; did you mean {', '.join(close)}?")
        raise OryxError(f"there is no recipe for '{name}'; there are: {', '.join(known) or 'none'}")
    return recipe


def make(
    name: str,
    root: Path | None = None,
    rows: int | None = None,
    seed: int | None = None,
    **options: Any,
) -> Path:
    """Makes a dataset by its recipe and stores it under `root`; how it was made is kept with it.

    `options` are further fields of the recipe's Request.
    """
    recipe, root = require_recipe(name), root or default_root()
    rows = recipe.rows if rows is None else rows
    seed = recipe.seed if seed is None else seed
    if rows < 1:
        raise OryxError(f"a dataset needs at least 1 row, not {rows}")
    folder = _folder(name, root)
    work = folder.with_name(f"{folder.name}.recording")
    if folder.exists():
        raise OryxError(f"{folder} is there already; remove it to make the dataset again")
    request = Request(rows, seed, work, **options)
    if work.exists() and not request.resume:
        raise OryxError(
            f"{work} holds what was recorded for this dataset before; continue it with --resume, "
            "or remove it to begin anew"
        )
    policy = f" --policy {request.policy}" if request.policy else ""
    origin = {
        "command": f"oryx data make {name} --rows {rows} --seed {seed}{policy}",
        "recipe": name,
        "description": recipe.description,
        "seed": seed,
        "version": oryx_marl.__version__,
    }
    commit = find_commit()
    if commit:
        origin["commit"] = commit
    parts = (_label(part, name, origin) for part in recipe.run(request))
    vault.write_parts(parts, folder)
    if work.exists():
        _keep_training(work, folder.with_name(folder.name + TRAINING), request.tell)
    return folder


def new_folder(name: str, root: Path | None = None) -> Path:
    """Where a dataset of this name is to be stored; nothing is there yet."""
    if not _is_name(name):
        raise OryxError(f"'{name}' is no name for a dataset; names are such as depot/week-12")
    if vault.is_vault(_folder(name, EMBEDDED)):
        raise OryxError(f"'{name}' is a dataset of the package; choose another name")
    folder = _folder(name, root or default_root())
    if os.path.lexists(folder):
        raise OryxError(f"{folder} is there already; remove it or choose another name")
    return folder


def _keep_training(work: Path, kept: Path, tell: Callable[[str], None]) -> None:
    """What a recipe's work folder holds beside the steps, which are in the dataset now."""
    for old in (work / SEGMENTS, kept):
        if old.exists():
            shutil.rmtree(old)
    work.rename(kept)
    tell(f"the training is kept in {kept}")


def _label(part: Dataset, name: str, origin: dict[str, Any]) -> Dataset:
    """A recipe's part with its name and all that is known of its making."""
    spec = part.spec
    environment = {
        "environment": spec.environment,
        "environment_version": base.make(spec).version if spec.environment else None,
        "environment_config": dict(spec.environment_config),
    }
    return replace(part, name=name, origin={**origin, **environment, **part.origin})


def _recipes() -> dict[str, Recipe]:
    """Recipes of all families that are listed."""
    return {
        f"{family}/{variant}": recipe
        for module in _recipe_modules()
        for family in module.FAMILIES
        for variant, recipe in module.find_family(family).items()
    }


def _find_recipe(name: str) -> Recipe | None:
    """That of a dataset's name, be it listed or not: some families have members of any size."""
    if not _is_name(name):
        return None
    family, variant = name.split("/")
    found = (module.find_family(family).get(variant) for module in _recipe_modules())
    return next((recipe for recipe in found if recipe), None)


def _recipe_modules() -> Iterator[Any]:
    """Those that can be loaded here."""
    for module in registry.names("recipes"):
        try:
            yield registry.load("recipes", module)
        except (OryxError, ImportError):  # its optional packages are not installed
            continue


def _is_name(name: str) -> bool:
    return re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", name) is not None


def _folder(name: str, root: Path) -> Path:
    family, variant = name.split("/")
    return root / f"{family}.vlt" / variant


def _describe(folder: Path) -> str:
    """One line about a stored dataset; a damaged one is listed too."""
    try:
        stored = vault.describe(folder)
    except OryxError:
        return "damaged"
    return str(stored.get("origin", {}).get("description", ""))


def find_commit() -> str | None:
    """The commit of this package's source, marked if it was changed since; None if unknown.

    Where the source was copied without its history, $ORYX_COMMIT can tell.
    """
    if told := os.environ.get("ORYX_COMMIT"):
        return told
    git = ["git", "-C", str(Path(__file__).parent)]
    tracked = [*git, "ls-files", "--error-unmatch", Path(__file__).name]
    commit = [*git, "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty"]
    try:
        subprocess.run(tracked, check=True, capture_output=True, timeout=10)
        result = subprocess.run(commit, check=True, capture_output=True, timeout=10, text=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return result.stdout.strip() or None
