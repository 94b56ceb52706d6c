"""The command `oryx data check`."""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.progress import track

from oryx_marl import recipes
from oryx_marl.cli.console import console, default_is, errors, print_json
from oryx_marl.cli.console import say as _print
from oryx_marl.data import catalog
from oryx_marl.data.quality.issues import SEVERITIES, Finding
from oryx_marl.data.quality.repair import mendable, repair
from oryx_marl.data.quality.validate import validate
from oryx_marl.data.vault_view import VaultView
from oryx_marl.data.view import Chunk

COLOURS = {"error": "bold red", "warning": "yellow", "note": "dim"}


@dataclass(frozen=True)
class DataCheck:
    """Find what is wrong with a dataset, or looks so; exit code 1 if there are errors."""

    dataset: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="DATASET")]
    """Name or folder."""
    env: Annotated[str | None, default_is("that of the data")] = None
    """Environment whose installed simulator the log is compared with, step by step."""
    json: bool = False
    """Print JSON."""
    fix: bool = False
    """Write a repaired copy; the dataset itself is never changed."""
    out: Annotated[Path | None, default_is("the dataset's, with -fixed behind its name")] = None
    """Folder of the repaired copy."""

    def run(self) -> None:
        folder = recipes.find(self.dataset)
        view = VaultView(folder)
        found = validate(view, _watch, self.env)
        copy, changes = None, {}
        if self.fix and mendable(found):
            copy = self.out or _beside(folder)
            changes = repair(view, found, copy)
            view = VaultView(copy)
            found = validate(view, _watch, self.env)
        kinds = {finding.kind: finding.severity for finding in found}
        counts = {severity: list(kinds.values()).count(severity) for severity in SEVERITIES}
        if self.json:
            about: dict[str, Any] = {"dataset": view.name, "rows": view.num_rows, "counts": counts}
            if self.fix:
                about["fixed"] = {"folder": None if copy is None else str(copy), "changes": changes}
            print_json({**about, "findings": [asdict(f) for f in found]})
        else:
            if self.fix:
                _show_changes(copy, changes)
            _show(found)
            words = [f"{count} {name}{'s' * (count != 1)}" for name, count in counts.items()]
            size = f"{len(view.episode_starts):,} episodes, {view.num_rows:,} steps"
            _print(f"{view.name}: {size}; kinds of issue: {', '.join(words)}")
        if counts["error"]:
            sys.exit(1)


def _beside(folder: Path) -> Path:
    """Where the repaired copy goes: never into the package."""
    if folder.is_relative_to(catalog.EMBEDDED):
        folder = catalog.default_root() / folder.relative_to(catalog.EMBEDDED)
    return folder.with_name(f"{folder.name}-fixed")


def _watch(chunks: Iterator[Chunk], total: int) -> Iterable[Chunk]:
    """A bar on terminals."""
    hidden = not errors.is_terminal
    return track(chunks, "checking", total, console=errors, transient=True, disable=hidden)


def _show_changes(copy: Path | None, changes: dict[str, int]) -> None:
    """What was repaired."""
    if copy is None:
        _print("nothing was found that can be repaired; nothing was written")
        return
    _print(f"repaired copy: {copy} (the dataset itself is as it was)")
    for change, count in changes.items():
        _print(f"  {count:,}: {change}")
    _print("what is left there:")


def _show(found: list[Finding]) -> None:
    """What was found, for people: one line per kind, with its first place."""
    for kind in dict.fromkeys(finding.kind for finding in found):
        first = next(finding for finding in found if finding.kind == kind)
        console.print(first.severity, style=COLOURS[first.severity], end=" ")
        which = "" if first.count == 1 else "first "
        _print(f"{kind}, {first.times}: {which}{first}; {first.remedy}")
