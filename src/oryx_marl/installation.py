"""How this package was installed: messages name what works here, in a checkout or from a wheel."""

import importlib
from importlib import metadata
from pathlib import Path
from types import ModuleType

from oryx_marl.errors import OryxError

PACKAGE = "oryx-marl"


def find_checkout(source: Path = Path(__file__)) -> Path | None:
    """Root of the repository that a file of the package lies in; None where it was installed."""
    root = source.resolve().parents[2]
    project = root / "pyproject.toml"
    if project.is_file() and f'name = "{PACKAGE}"' in project.read_text(encoding="utf-8"):
        return root
    return None


def how_to_install(extra: str) -> str:
    """The command that installs optional packages, such as those of the extra `envs`."""
    root = find_checkout()
    options = f"'{PACKAGE}[{extra}]'" if root is None else f"-e '{root}[{extra}]'"
    return f"pip install {options}"


def optional(module: str, extra: str) -> ModuleType:
    """A module of a package that comes with an extra."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise OryxError(
            f"this needs the package {error.name}; install it: {how_to_install(extra)}"
        ) from error


def point_to_page(title: str, file: str) -> str:
    """Where a page of the documentation is: on its site, or else in the checkout."""
    if site := find_site():
        return f'"{title}" in the documentation: {site}/{file.removesuffix(".md")}.html'
    root = find_checkout()
    path = None if root is None else root / "docs" / file
    if path is not None and path.is_file():
        return f'"{title}" in the documentation: {path}'
    return f'the page "{title}" of the documentation'


def find_site() -> str | None:
    """Address of the documentation, as the project states it."""
    try:
        entries = metadata.metadata(PACKAGE).get_all("Project-URL") or []
    except metadata.PackageNotFoundError:
        return None
    pairs = (entry.partition(",") for entry in entries)
    return next(
        (url.strip().rstrip("/") for name, _, url in pairs if name == "Documentation"), None
    )
