"""The command `oryx data download`, and the list of what there is to download."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column, Table

from oryx_marl import texts
from oryx_marl.cli.console import DatasetRoot, console, default_is, errors, print_json, say
from oryx_marl.data import catalog
from oryx_marl.data.hub import archives as hub
from oryx_marl.data.hub.download import download
from oryx_marl.data.hub.fetch import Watch

TEXTS = ("source", "env", "scenario", "dataset", "action_space", "other_infos")
"""Fields of a dataset's card that are no numbers."""


@dataclass(frozen=True)
class DataDownload:
    """Download a dataset from the Hugging Face hub; see `oryx data list --remote`."""

    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")]
    """Name, such as omiga-smac_v1-corridor/Good; without /Good, all of the archive."""
    root: DatasetRoot = None
    """Folder that holds datasets."""
    revision: Annotated[str | None, default_is("the one known, else main")] = None
    """Commit or branch on the hub."""
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
            "environment": archive.environment or None,
        }
        for card in archive.cards():
            figures = {name: _to_value(name, text) for name, text in card.items()}
            entries.append({"name": hub.dataset_name(card), **about, **figures})
        if not archive.cards():
            entries.append({"name": archive.name, **about})
    if as_json:
        print_json(entries)
        return
    table = Table(Column("name", no_wrap=True), box=None, padding=(0, 1, 0, 0))
    for title in ("paper", "agents", "actions", "steps", "return"):
        table.add_column(title, justify="right", no_wrap=True)
    for entry in entries:
        table.add_row(entry["name"], *_columns(entry))
    console.print(table)
    names = sum(1 for entry in entries if "dataset" in entry)
    console.print(
        f"{len(hub.archives())} archives; of {names} datasets the cards are known, "
        f"{sum(entry['in_paper'] for entry in entries)} are in the paper. Revisions, hashes and "
        "licences are unknown until someone downloads",
        highlight=False,
    )


def _columns(entry: dict[str, Any]) -> list[str]:
    """What a line of the list says of a dataset, narrow enough for 80 columns."""
    actions = entry.get("legals_shape") or entry.get("actions_shape")
    steps, mean = entry.get("transitions"), entry.get("mean_return")
    return [
        "yes" if entry["in_paper"] else "",
        str(entry.get("num_agents") or "-"),
        "-" if actions is None else str(actions[-1]),
        "-" if steps is None else f"{steps / 1e6:.2g}M" if steps >= 1e6 else f"{steps / 1e3:.0f}k",
        "-" if mean is None else f"{mean:.4g}",
    ]


def _to_value(name: str, text: str) -> Any:
    """A field of a dataset's card: numbers as numbers, shapes as lists of them."""
    if not text:
        return None
    if name.endswith("_shape"):
        return [int(size) for size in text.split("x")]
    if name.startswith("has_"):
        return text == "1"
    if name in TEXTS:
        return text
    return float(text) if "." in text else int(text)


@contextmanager
def _bar(name: str) -> Iterator[Watch]:
    """Bytes on terminals, nothing elsewhere."""
    named = TextColumn("{task.description}", markup=False)
    columns = (named, BarColumn(), DownloadColumn(), TimeRemainingColumn())
    hidden = not errors.is_terminal
    with Progress(*columns, console=errors, transient=True, disable=hidden) as progress:
        task = progress.add_task(texts.plain(name), total=None)
        yield lambda have, total: progress.update(task, completed=have, total=total)
