"""A dataset of the hub onto this disk: fetched, compared, unpacked, written down."""

import hashlib
import json
import re
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oryx_marl import files, locks, reading
from oryx_marl.data import vault
from oryx_marl.data._store import Store
from oryx_marl.data.hub import archives as hub
from oryx_marl.data.hub.fetch import Fetched, Watch, fetch
from oryx_marl.data.hub.unpack import unpack
from oryx_marl.errors import OryxError

RECORDS = "downloads.json"
"""Revision and hash of every archive that came into this folder of datasets."""


@dataclass(frozen=True)
class Download:
    """What came of it."""

    folders: list[Path]
    """The datasets that are new here."""
    messages: list[str]
    """What should be told."""


def download(
    name: str,
    root: Path,
    revision: str | None = None,
    archive_file: Path | None = None,
    watch: Watch = lambda *_: None,
) -> Download:
    """Brings a dataset, or all of an archive, into `root/<archive>.vlt/<dataset>`.

    Where the catalogue does not know an archive's revision and hash, those of the first download
    are written down, and later ones must have them. `archive_file` is unpacked instead of a
    download; it stays where it is.
    """
    archive, wanted = hub.find(name)
    with locks.hold(root / f".{archive.name}.download.lock", f"the download of {archive.name}"):
        return _download(archive, wanted, name, root, revision, archive_file, watch)


def _download(
    archive: hub.Archive,
    wanted: str | None,
    name: str,
    root: Path,
    revision: str | None,
    archive_file: Path | None,
    watch: Watch,
) -> Download:
    home = root / f"{archive.name}.vlt"
    if wanted and vault.is_vault(home / wanted):
        raise OryxError(f"{home / wanted} is there already; open it as {name}, or remove it")
    known = _read_records(root).get(archive.name, {})
    place = root / ".downloads" / f"{archive.name}.zip"
    if archive_file is None:
        recorded = known.get("revision", hub.UNKNOWN)
        asked = revision or _known(archive.revision) or _known(recorded) or "main"
        fetched = fetch(archive.url, asked, place, watch)
    else:
        fetched = _given(archive_file)
    messages = _compare(archive, known, fetched, place, is_new_revision=revision is not None)
    try:
        folders = _place(archive, fetched.path, home, wanted, messages)
    finally:
        if archive_file is None:
            place.unlink(missing_ok=True)
    entry = {
        "url": archive.url(fetched.revision or hub.UNKNOWN),
        "revision": fetched.revision or known.get("revision") or hub.UNKNOWN,
        "sha256": fetched.sha256,
        "bytes": fetched.size,
        "licence": archive.licence,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }
    _add_record(root, archive.name, entry)
    return Download(folders, messages)


def _compare(
    archive: hub.Archive,
    known: dict[str, Any],
    fetched: Fetched,
    place: Path,
    is_new_revision: bool,
) -> list[str]:
    """The hash with that of the catalogue, or else of the first download."""
    expected = _known(archive.sha256) or known.get("sha256")
    if expected is None or (is_new_revision and not _known(archive.sha256)):
        return [
            f"revision {fetched.revision or hub.UNKNOWN} and SHA-256 {fetched.sha256} of "
            f"{archive.name} were not known; they are written down in {RECORDS}. Its licence is "
            f"{archive.licence}: see https://huggingface.co/datasets/{hub.REPOSITORY}"
        ]
    if expected != fetched.sha256:
        if fetched.path == place:
            place.unlink()
        raise OryxError(
            f"the archive of {archive.name} is not the one it was: its SHA-256 is "
            f"{fetched.sha256}, known is {expected}. Nothing was unpacked. If the change is meant, "
            f"name its --revision, or remove its entry from {RECORDS}"
        )
    return [f"SHA-256 {expected[:16]}... is the one that was known"]


def _place(
    archive: hub.Archive, file: Path, home: Path, wanted: str | None, messages: list[str]
) -> list[Path]:
    """Unpacks, and moves the datasets to their place; those that are there stay as they are."""
    unpacked = home.with_name(f"{home.name}.unpacking")
    shutil.rmtree(unpacked, ignore_errors=True)
    unpack(file, unpacked)
    try:
        places = [path.parent for path in unpacked.rglob(vault.METADATA)]
        found = {place.name: place for place in places if vault.is_vault(place)}
        if len(found) < len(places):
            raise OryxError(f"{file} holds two datasets of one name, or one that is not finished")
        if not found:
            raise OryxError(f"{file} holds no vault: no folder in it has a {vault.METADATA}")
        if wanted and wanted not in found:
            raise OryxError(f"{file} has no dataset '{wanted}'; it has: {', '.join(sorted(found))}")
        folders, cards = list[Path](), list[str]()
        for name in sorted([wanted] if wanted else found):
            if not re.fullmatch(r"\w[\w.-]*", name):
                raise OryxError(f"{file} has a dataset with the odd name '{name}'; it is refused")
            with vault.lock(home / name):
                if (home / name).exists():
                    messages.append(f"{home / name} was there already and stays as it is")
                    continue
                cards += _compare_card(archive, found[name])
                files.sync_tree(found[name])
                folders.append(found[name].rename(home / name))
                files.sync(home)
        messages += cards
        return folders
    finally:
        shutil.rmtree(unpacked, ignore_errors=True)


def _compare_card(archive: hub.Archive, folder: Path) -> list[str]:
    """Whether a dataset has the transitions that its card says."""
    with vault.explained(folder, "its index"):
        rows = Store(folder).read_index()
    for card in archive.cards():
        if card["dataset"] == folder.name and int(card["transitions"]) != rows:
            return [
                f"{archive.name}/{folder.name} has {rows:,} transitions, but its card says "
                f"{card['transitions']}"
            ]
    return []


def _given(file: Path) -> Fetched:
    """An archive that someone brought."""
    if not file.is_file():
        raise OryxError(f"there is no file {file}")
    with file.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return Fetched(file, None, digest, file.stat().st_size)


def _known(value: str) -> str | None:
    return None if value == hub.UNKNOWN else value


def _read_records(root: Path) -> dict[str, Any]:
    file = root / RECORDS
    if not file.exists():
        return {}
    try:
        records = reading.read_json(file)
    except ValueError:
        records = None
    if not isinstance(records, dict) or not all(isinstance(r, dict) for r in records.values()):
        raise OryxError(f"{file} is damaged; repair it, or remove it to forget what was downloaded")
    return records


def _add_record(root: Path, name: str, entry: dict[str, Any]) -> None:
    """Beside the records of other archives, which other processes may be adding."""
    with locks.hold(root / f".{RECORDS}.lock", f"{root / RECORDS}", wait=10.0):
        records = {**_read_records(root), name: entry}
        files.write_text(root / RECORDS, json.dumps(records, indent=2, sort_keys=True) + "\n")
