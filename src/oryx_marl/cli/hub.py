"""The command `oryx data download`, and the list of what there is to download."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn
from rich.table import Column, Table

from oryx_marl.cli.console import console, errors, print_json, say
from oryx_marl.data import catalog
from oryx_marl.data.hub import archives as hub
from oryx_marl.data.hub.download import download
from oryx_marl.data.hub.fetch import Watch


@dataclass(frozen=True)
class DataDownload:
    """Bring a dataset from the Hugging Face hub; see `oryx data list --remote`."""

    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")]
    """Name, such as omiga-smac_v1-corridor/Good; without /Good, all of the archive."""
    root: Path | None = None
    """Folder that holds datasets (default: $ORYX_DATA, or datasets/ here)."""
    revision: str | None = None
    """Commit or branch on the hub (default: the one known, else main)."""
    archive: Path | None = None
    """Unpack this file, fetched in another way, instead of downloading."""
    json: bool = False
    """Print JSON."""

    def run(self) -> None:
        root = self.root or catalog.default_root()
        with _bar(self.name) as watch:
            done = download(self.name, root, self.revision, self.archive, watch)
        if self.json:
            told = {"folders": [str(folder) for folder in done.folders], "messages": done.messages}
            print_json(told)
            return
        for message in done.messages:
            say(message)
        for folder in done.folders:
            say(f"{folder.parent.stem}/{folder.name} is in {folder}")


def list_remote(as_json: bool) -> None:
    """Prints all datasets of the hub, with what their cards say."""
    entries: list[dict[str, Any]] = []
    for archive in hub.archives().values():
        about: dict[str, Any] = {
            "archive": archive.name,
            "path": archive.path,
            "in_paper": bool(archive.paper_scenario),
            "paper_scenario": archive.paper_scenario or None,
            "revision": archive.revision,
            "sha256": archive.sha256,
            "licence": archive.licence,
        }
        for card in archive.cards():
            figures = {name: value or None for name, value in card.items()}
            entries.append({"name": hub.dataset_name(card), **about, **figures})
        if not archive.cards():
            entries.append({"name": archive.name, **about})
    if as_json:
        print_json(entries)
        return
    width = max(len(entry["name"]) for entry in entries)  # never cut: it is what one copies
    table = Table(Column("name", no_wrap=True, min_width=width))
    for title in ("paper", "agents", "features", "actions", "transitions", "mean return"):
        table.add_column(title)
    for entry in entries:
        shown = [entry.get(key) or hub.UNKNOWN for key in ("num_agents", "obs_dim")]
        actions = entry.get("legals_shape") or entry.get("actions_shape") or hub.UNKNOWN
        transitions = entry.get("transitions")
        count = f"{int(transitions):,}" if transitions else hub.UNKNOWN
        paper = "yes" if entry["in_paper"] else ""
        table.add_row(
            entry["name"], paper, *shown, actions, count, entry.get("mean_return") or hub.UNKNOWN
        )
    console.print(table)
    names = sum(1 for entry in entries if "dataset" in entry)
    console.print(
        f"{len(hub.archives())} archives; of {names} datasets the cards are known, "
        f"{sum(entry['in_paper'] for entry in entries)} are in the paper. Revisions, hashes and "
        "licences are unknown until someone downloads",
        highlight=False,
    )


@contextmanager
def _bar(name: str) -> Iterator[Watch]:
    """Bytes on terminals, nothing elsewhere."""
    columns = ("{task.description}", BarColumn(), DownloadColumn(), TimeRemainingColumn())
    hidden = not errors.is_terminal
    with Progress(*columns, console=errors, transient=True, disable=hidden) as progress:
        task = progress.add_task(name, total=None)
        yield lambda have, total: progress.update(task, completed=have, total=total)
