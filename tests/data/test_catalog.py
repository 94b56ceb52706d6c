"""Datasets that are there are found by name or folder and opened; no other room is needed."""

import shutil
from pathlib import Path

import pytest

from oryx_marl.data import catalog, vault
from oryx_marl.errors import OryxError, OryxWarning

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
    with pytest.warns(OryxWarning, match=r"in the package, not the one in .*tmaze.vlt"):
        assert catalog.find(name, tmp_path).is_relative_to(catalog.EMBEDDED)
    assert {e.where for e in catalog.names(tmp_path) if e.name == name} == {"embedded"}


def test_a_folder_here_does_not_stand_for_a_dataset_of_the_package(tmp_path, monkeypatch):
    name = "tmaze/planner-expert"
    shutil.copytree(catalog.find(name), tmp_path / name)
    monkeypatch.chdir(tmp_path)
    with pytest.warns(OryxWarning, match=r"not the one in \./tmaze/planner-expert; to open"):
        assert catalog.find(name).is_relative_to(catalog.EMBEDDED)
    for own in (f"./{name}", Path(name), str(tmp_path / name)):
        assert catalog.find(own).resolve() == tmp_path / name


@pytest.mark.parametrize("name", ["a/b.partial", "a/[b]", "a/b\x1b[31m", "a/b\0", "a/b\n", "a b/c"])
def test_names_that_no_dataset_can_have(depot, name):
    with pytest.raises(OryxError, match="is no name for a dataset"):
        catalog.new_folder(name, depot)
    with pytest.raises(OryxError, match="there is no dataset"):
        catalog.open(name, depot)


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
