"""Vaults of flashbax and OG-MARL, with their quirks (see `_foreign.py`), and our own."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from oryx_marl.data import vault, view
from oryx_marl.data.dataset import Dataset
from oryx_marl.data.sources import base
from oryx_marl.data.vault_view import VaultView
from oryx_marl.errors import OryxError


@dataclass(frozen=True)
class Options(base.Options):
    """Of Vaults: they tell the rest themselves."""


def recognises(path: Path) -> bool:
    """Whether a folder is a vault, or holds exactly one."""
    return path.is_dir() and bool(_vaults(path))


def read(path: Path, name: str, options: Options) -> Iterator[Dataset]:
    """The episodes, in parts."""
    found = _vaults(path)
    if len(found) != 1:
        names = ", ".join(folder.name for folder in found) or "none"
        raise OryxError(f"{path} holds several vaults or none ({names}); name one of them")
    yield from view.parts(VaultView(found[0]))


def write(parts: Iterable[Dataset], path: Path) -> None:
    """A vault of ours, which flashbax reads too."""
    vault.write_parts(parts, path)


def _vaults(path: Path) -> list[Path]:
    if vault.is_vault(path):
        return [path]
    return [folder for folder in sorted(path.glob("*")) if vault.is_vault(folder)]
