"""Datasets that can be made: finding their recipes, and storing what they make."""

import shlex
import shutil
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import oryx_marl
from oryx_marl import files, provenance, registry
from oryx_marl.data import catalog, vault
from oryx_marl.data.catalog import Entry
from oryx_marl.data.dataset import Dataset
from oryx_marl.data.vault_view import VaultView
from oryx_marl.errors import OryxError, OryxWarning, UnknownNameError
from oryx_marl.policy.acting import name_of
from oryx_marl.recipes.base import TRAINING, Recipe, Request

ROOM = "recipes"
SEGMENTS = "segments"
"""Folder in a recipe's work folder for what the finished dataset makes superfluous."""
ROWS = 100_000
"""Steps of a policy that are recorded where no other number is asked for."""


def names(root: Path | None = None) -> list[Entry]:
    """All known datasets, each as `open` would find it; recipes are those not made yet."""
    found = {name: Entry(name, "recipe", recipe.description) for name, recipe in _recipes().items()}
    found |= {entry.name: entry for entry in catalog.names(root)}
    return [found[name] for name in sorted(found)]


def open(name_or_path: str | Path, root: Path | None = None) -> Dataset:
    """The dataset in a folder, or of a name (see `find`)."""
    return vault.read(find(name_or_path, root))


def view(name_or_path: str | Path, root: Path | None = None) -> VaultView:
    """The same, of which only what is asked for is read."""
    return VaultView(find(name_or_path, root))


def open_for_training(name_or_path: str | Path, stream: bool = False) -> Dataset | VaultView:
    """In memory; or, if asked for or if there is too little, as a view that stays on disk."""
    from oryx_marl.training import streamed  # brings JAX, which a list of datasets does not need

    found = view(name_or_path)
    return found if stream or streamed.is_too_large(found) else open(name_or_path)


def find(name_or_path: str | Path, root: Path | None = None) -> Path:
    """What `catalog.find` finds; where it is not there, the error says how to make it."""
    folder = catalog.locate(name_or_path, root)
    if folder is not None:
        return folder
    name = str(name_or_path)
    if recipe := _find_recipe(name):
        source, first = f"{name.split('/')[0]}/{recipe.after}", ""
        root = root or catalog.default_root()
        if recipe.after and not vault.is_vault(catalog.folder_of(source, root)):
            first = f"oryx data make {source}, then "
        raise OryxError(f"dataset '{name}' was not made yet; make it: {first}oryx data make {name}")
    raise catalog.explain_missing(name, [entry.name for entry in names(root)])


def is_made_quickly(name: str, root: Path | None = None) -> bool:
    """Whether a dataset is not there yet but can be made without a training."""
    recipe = _find_recipe(name)
    if recipe is None or not recipe.is_quick:
        return False
    places = (catalog.EMBEDDED, root or catalog.default_root())
    return not any(vault.is_vault(catalog.folder_of(name, place)) for place in places)


def require_assets(name: str) -> None:
    """Raises if pretrained policies of a dataset's recipe are not here and cannot be downloaded."""
    from oryx_marl.recipes import _assets

    if recipe := _find_recipe(name):
        _assets.require(recipe.assets)


def usual_rows(name: str) -> int | None:
    """Steps that a recipe makes where no other number is asked for; None if there is no recipe."""
    recipe = _find_recipe(name)
    return None if recipe is None else recipe.rows


def require(name: str) -> Recipe:
    """The recipe of a name, or an error that says which there are."""
    recipe = _find_recipe(name)
    if recipe is None:
        hint = catalog.suggest(name, sorted(_recipes()))
        raise UnknownNameError(f"there is no recipe for '{name}'; {hint}")
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
    recipe, root = require(name), root or catalog.default_root()
    rows = recipe.rows if rows is None else rows
    seed = recipe.seed if seed is None else seed
    _require_rows(rows)
    folder = catalog.folder_of(name, root)
    with vault.lock(folder):  # a recording beside it has the same writer
        return _make(name, recipe, folder, rows, seed, options)


def _make(
    name: str, recipe: Recipe, folder: Path, rows: int, seed: int, options: dict[str, Any]
) -> Path:
    work = folder.with_name(f"{folder.name}.recording")
    if folder.exists():
        raise OryxError(f"{folder} is there already; remove it to make the dataset again")
    request = Request(rows, seed, work, **options)
    if work.exists() and not request.resume:
        raise OryxError(
            f"{work} holds what was recorded for this dataset before; continue it with resume, "
            "or remove it to begin anew"
        )
    policy = f" --policy {request.policy}" if request.policy else ""
    command = f"oryx data make {name} --rows {rows} --seed {seed}{policy}"
    origin = _describe(command, recipe.description, seed) | {"recipe": name}
    parts = (_label(part, name, origin) for part in recipe.run(request))
    vault.write_parts(parts, folder)
    if work.exists():
        _keep_training(work, folder.with_name(folder.name + TRAINING), request.tell)
    return folder


def make_from_policy(
    name: str,
    env: str,
    policy: Path,
    root: Path | None = None,
    rows: int = ROWS,
    seed: int = 0,
    tell: Callable[[str], None] = lambda message: None,
    act: str | float | None = None,
) -> Path:
    """Rolls out a policy in an environment and stores whole episodes of it as a dataset.

    `env` is the name of an environment, or `package.module:make`; `policy` a run or a policy file,
    which acts as `act` says: "sampled", "greedy" or a temperature, or else as its space does.
    What does not fit together is refused before anything is rolled out.
    """
    from oryx_marl.recipes import _any_policy  # slow to import, so only where it is needed

    _require_rows(rows)
    if _find_recipe(name):
        raise OryxError(f"'{name}' is made by a recipe of its own; choose another name")
    folder = catalog.new_folder(name, root)
    world, acting = _any_policy.find_env(env), _any_policy.open_policy(policy)
    _any_policy.require_fit(acting, world, policy)
    words = ["--env", env, "--policy", str(policy), "--rows", str(rows), "--seed", str(seed)]
    words += [] if act is None else ["--act", name_of(act)]
    for file in registry.files():
        words += ["--plugin", str(file)]
    command = f"oryx data make {name} {shlex.join(words)}"
    origin = _describe(command, f"the policy of {policy} in {world.name}", seed)
    parts = _any_policy.record_policy(world, acting, rows, seed, tell, act)
    return vault.write_parts((_label(part, name, origin) for part in parts), folder)


def _require_rows(rows: int) -> None:
    if rows < 1:
        raise OryxError(f"a dataset needs at least 1 row, not {rows}")


def _describe(command: str, description: str, seed: int) -> dict[str, Any]:
    """What is kept with every dataset that is made here."""
    origin = {
        "command": command,
        "description": description,
        "seed": seed,
        "version": oryx_marl.__version__,
    }
    commit = provenance.find_commit()
    return {**origin, "commit": commit} if commit else origin


def _keep_training(work: Path, kept: Path, tell: Callable[[str], None]) -> None:
    """What a recipe's work folder holds beside the steps, which are in the dataset now."""
    for old in (work / SEGMENTS, kept):
        if old.exists():
            shutil.rmtree(old)
    work.rename(kept)
    files.sync(kept.parent)
    tell(f"the training is kept in {kept}")


def _label(part: Dataset, name: str, origin: dict[str, Any]) -> Dataset:
    """A part with its name and all that is known of its making."""
    from oryx_marl.envs import base  # slow to import, and lists do without it

    spec = part.spec
    environment: dict[str, Any] = {
        "environment": spec.environment,
        "environment_config": dict(spec.environment_config),
    }
    if "environment_version" not in part.origin:
        made = base.make(spec) if spec.environment else None
        # An environment outside JAX has no version of its own.
        environment["environment_version"] = getattr(made, "version", None)
    if names := base.find_action_names(spec):
        environment["action_names"] = names
    return replace(part, name=name, origin={**origin, **environment, **part.origin})


def _recipes() -> dict[str, Recipe]:
    """Recipes of all families that are listed."""
    return {
        f"{family}/{variant}": recipe
        for module in _modules()
        for family in module.FAMILIES
        for variant, recipe in module.find_family(family).items()
    }


def _find_recipe(name: str) -> Recipe | None:
    """That of a dataset's name, be it listed or not: some families have members of any size."""
    if not catalog.is_name(name):
        return None
    family, variant = name.split("/")
    found = (module.find_family(family).get(variant) for module in _modules())
    return next((recipe for recipe in found if recipe), None)


def _modules() -> Iterator[Any]:
    """Those that can be loaded here."""
    plugins = registry.installed(ROOM)
    for name in registry.names(ROOM):
        try:
            module = registry.load(ROOM, name)
        except (OryxError, ImportError) as error:
            if name in plugins:
                warnings.warn(str(error), OryxWarning, stacklevel=2)
            continue  # optional packages of ours that are not installed are no fault
        yield module
