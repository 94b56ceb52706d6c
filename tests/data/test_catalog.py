"""Datasets that are there are found by name or folder and opened; no other room is needed."""

import shutil

import pytest

from oryx_marl.data import catalog, vault
from oryx_marl.errors import OryxError

EMBEDDED = sorted(path for path in catalog.EMBEDDED.glob("*.vlt/*") if vault.is_vault(path))


def test_there_are_embedded_datasets(tmp_path):
    assert EMBEDDED
    embedded = [entry.name for entry in catalog.names(tmp_path) if entry.where == "embedded"]
    assert embedded == [f"{folder.parent.stem}/{folder.name}" for folder in EMBEDDED]


@pytest.mark.parametrize("folder", EMBEDDED, ids=lambda folder: folder.name)
def test_embedded_datasets_are_small(folder):
    assert sum(file.stat().st_size for file in folder.rglob("*")) < 2**20


@pytest.fixture
def depot(tmp_path, build_dataset):
    """A root with one dataset."""
    vault.write(build_dataset(name="depot/one"), tmp_path / "depot.vlt" / "one")
    return tmp_path


def test_found_by_name_and_by_folder(depot, monkeypatch):
    folder = depot / "depot.vlt" / "one"
    assert catalog.find("depot/one", depot) == catalog.find(folder) == folder
    monkeypatch.setenv("ORYX_DATA", str(depot))
    assert catalog.open("depot/one").num_rows == 7
    assert [e.where for e in catalog.names() if e.name == "depot/one"] == ["local"]
    assert catalog.locate("depot/two") is None


def test_a_name_of_the_package_means_its_own_data(tmp_path):
    name = "tmaze/planner-expert"
    shutil.copytree(catalog.find(name), tmp_path / "tmaze.vlt" / "planner-expert")
    assert catalog.find(name, tmp_path).is_relative_to(catalog.EMBEDDED)
    assert {e.where for e in catalog.names(tmp_path) if e.name == name} == {"embedded"}


@pytest.mark.parametrize("name", ["depot/none", "none", "../depot/one", "/", "", "a/b/c"])
def test_unknown_names(depot, name):
    with pytest.raises(OryxError, match=r"there is no dataset .*`oryx data list`"):
        catalog.open(name, depot)


def test_nearly_a_name(depot):
    with pytest.raises(OryxError, match=r"did you mean depot/one\?"):
        catalog.open("depot/onee", depot)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("tmaze/planner-expert", "is a dataset of the package"),
        ("depot/one", "is there already"),
        ("depot", "is no name"),
        ("../depot/two", "is no name"),
    ],
)
def test_new_names(depot, name, expected):
    with pytest.raises(OryxError, match=expected):
        catalog.new_folder(name, depot)
    assert catalog.new_folder("depot/two", depot) == depot / "depot.vlt" / "two"
