"""What is exported and imported again is the same, array by array."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from generated import assert_same_data, datasets
from hypothesis import assume, given, settings

from oryx_marl.data import catalog, vault
from oryx_marl.data.dataset import Dataset
from oryx_marl.data.sources import base
from oryx_marl.data.subsample import in_parts, whole_episodes


def import_again(path: Path, folder: Path) -> Dataset:
    """The dataset of a file, by way of a vault."""
    return vault.read(vault.write_parts(base.read(path, "again"), folder))


@given(dataset=datasets())
@settings(max_examples=25, deadline=None)
def test_there_and_back(dataset: Dataset) -> None:
    """Vault, Parquet, Vault, Minari, Vault, and a Vault as exported."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        now = vault.read(vault.write(dataset, folder / "vault"))
        for kind, file in (("table", "log.parquet"), ("minari", "minari"), ("og_marl", "other")):
            path = base.write(in_parts(now, rows=5), folder / file, kind)
            now = import_again(path, folder / f"vault of {kind}")
            assert_same_data(now, dataset)
            assert now.origin["seed"] == dataset.origin["seed"]


@given(dataset=datasets())
@settings(max_examples=20, deadline=None)
def test_flat_arrays_there_and_back(dataset: Dataset) -> None:
    """All but what plain arrays cannot tell: names, widths, bounds.

    A feature that is -inf throughout is no feature: so logs fill up observations of other widths.
    """
    assume(not np.isneginf(dataset.observations.astype(float)).all(axis=0).any())
    with TemporaryDirectory() as name:
        np.savez(Path(name) / "log.npz", **dataset.arrays())
        got = import_again(Path(name) / "log.npz", Path(name) / "vault").arrays()
        expected = dataset.arrays()
        if dataset.spec.action.kind == "box":
            expected.pop("action_mask", None)  # masks of box actions mean nothing
        for key, array in expected.items():
            assert got.pop(key).tobytes() == array.tobytes(), key
        assert not got


def test_the_package_s_own_data(tmp_path: Path) -> None:
    dataset = whole_episodes(catalog.open("tmaze/planner-mixed"), 500, 0)
    for kind, file in (("table", "log.parquet"), ("minari", "minari")):
        path = base.write([dataset], tmp_path / file, kind)
        assert import_again(path, tmp_path / f"{kind} vault").fingerprint() == dataset.fingerprint()
