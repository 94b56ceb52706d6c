"""Vaults whose description claims more than is there, even under a hash that fits."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensorstore as ts
from foreign import write_foreign

from oryx_marl import limits
from oryx_marl.data import vault
from oryx_marl.data.dataset import Dataset
from oryx_marl.data.vault_view import VaultView
from oryx_marl.errors import OryxError


def view(folder: Path) -> None:
    VaultView(folder).verify()


def forge(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Alters the description as someone would who can compute its hash."""
    file = folder / vault.METADATA
    document = json.loads(file.read_text())
    change(document["oryx_marl"])
    document["oryx_marl"]["sha256"] = vault._hash_document(document)
    file.write_text(json.dumps(document))


def set_rows(entry: dict[str, Any]) -> None:
    for known in entry["arrays"].values():
        known["shape"][0] = 10**12


def set_width(entry: dict[str, Any]) -> None:
    entry["arrays"]["observations"]["shape"][2] = 10**12


def set_chunks(entry: dict[str, Any]) -> None:
    entry["arrays"]["observations"]["chunks"][1] = 10**12


def set_text(entry: dict[str, Any]) -> None:
    entry["arrays"]["rewards"]["shape"] = "many"


def set_features(entry: dict[str, Any]) -> None:
    entry["spec"]["observation_sizes"] = [10**12, 10**12]


def set_actions(entry: dict[str, Any]) -> None:
    entry["spec"]["action"]["size"] = 10**12


def set_names(entry: dict[str, Any]) -> None:
    entry["spec"]["agents"] = [1, 2]


@pytest.mark.parametrize("read", [vault.read, view])
@pytest.mark.parametrize(
    "change",
    [set_rows, set_width, set_chunks, set_text, set_features, set_actions, set_names],
)
def test_claims_are_refused(
    change: Callable, read: Callable, full_dataset: Dataset, tmp_path: Path
) -> None:
    folder = vault.write(full_dataset, tmp_path / "vault")
    forge(folder, change)
    with pytest.raises(OryxError):
        read(folder)


@pytest.mark.parametrize("read", [vault.read, view])
def test_chunks_of_strangers(read: Callable, full_dataset: Dataset, tmp_path: Path) -> None:
    """Each of them is decoded whole."""
    folder = write_foreign(full_dataset, tmp_path / "vault")
    array = ts.open(
        {
            "driver": "zarr",
            "kvstore": {
                "driver": "ocdbt",
                "base": {"driver": "file", "path": f"{folder.absolute()}/"},
                "path": "rewards.",
            },
            "metadata": {"chunks": [1, 10**10, 2], "compressor": None},
        },
        shape=(1, 10**13, 2),
        dtype=ts.float32,
        create=True,
        delete_existing=True,
    ).result()
    assert array.shape[1] == 10**13
    with pytest.raises(OryxError, match=r"a chunk of array rewards\. has 80,000,000,000 bytes"):
        read(folder)


def test_deep_and_wrong_descriptions(full_dataset: Dataset, tmp_path: Path) -> None:
    folder = vault.write(full_dataset, tmp_path / "vault")
    for text in ("[" * 10**5, "[]", "{}", '{"oryx_marl": 1}', '{"oryx_marl": {}}', "\0", "nan", ""):
        (folder / vault.METADATA).write_text(text)
        for read in (vault.read, view):
            with pytest.raises(OryxError):
                read(folder)


def test_honest_vaults_are_far_from_the_limits(full_dataset: Dataset, tmp_path: Path) -> None:
    assert limits.MOST_TIMES_STORED >= 10_000
    assert vault.read(vault.write(full_dataset, tmp_path / "vault")).num_rows == 7
