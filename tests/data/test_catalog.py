"""Datasets are found by name, made by recipes, and made the same again."""

from types import SimpleNamespace

import numpy as np
import pytest

from oryx_marl import registry
from oryx_marl.data import catalog, vault
from oryx_marl.errors import OryxError
from oryx_marl.recipes.base import Recipe


@pytest.fixture
def family(monkeypatch, build_dataset):
    """A family with one recipe, whose rewards are the seed."""

    def run(request):
        request.tell(f"recording {request.rows} steps")
        rewards = np.full((request.rows, 2), request.seed, np.float32)
        yield build_dataset(request.rows, (0,), rewards=rewards, origin={"noted": "this"})

    def load(package, name):
        if name == "broken":
            raise OryxError("install something")
        recipes = {"good": Recipe("a good one", run, rows=9, seed=4)}
        return SimpleNamespace(
            FAMILIES=("game",), find_family=lambda name: recipes if name == "game" else {}
        )

    monkeypatch.setattr(registry, "names", lambda package: ["broken", "game"])
    monkeypatch.setattr(registry, "load", load)
    monkeypatch.setattr(catalog, "EMBEDDED", catalog.EMBEDDED / "nothing here")
    monkeypatch.setattr(catalog, "find_commit", lambda: "abc")


def test_make_open_and_list(family, tmp_path):
    assert catalog.names(tmp_path) == [("game/good", "recipe", "a good one")]
    with pytest.raises(OryxError, match="make it: oryx data make game/good"):
        catalog.open("game/good", tmp_path)
    messages = []
    folder = catalog.make("game/good", tmp_path, tell=messages.append)
    assert folder == tmp_path / "game.vlt" / "good"
    assert messages == ["recording 9 steps"]
    dataset = catalog.open("game/good", tmp_path)
    assert (dataset.num_rows, dataset.rewards[0, 0], dataset.name) == (9, 4, "game/good")
    assert dataset.origin == {
        "command": "oryx data make game/good --rows 9 --seed 4",
        "recipe": "game/good",
        "description": "a good one",
        "seed": 4,
        "version": "0.1.0",
        "environment": "",
        "environment_version": None,
        "environment_config": {},
        "commit": "abc",
        "noted": "this",
    }
    assert catalog.open(folder).fingerprint() == dataset.fingerprint()
    assert catalog.open(str(folder)).fingerprint() == dataset.fingerprint()
    assert catalog.names(tmp_path) == [("game/good", "local", "a good one")]
    with pytest.raises(OryxError, match="is there already"):
        catalog.make("game/good", tmp_path)


def test_other_rows_and_seed_and_root(family, tmp_path, monkeypatch):
    monkeypatch.setenv("ORYX_DATA", str(tmp_path / "elsewhere"))
    folder = catalog.make("game/good", rows=3, seed=0)
    assert folder == tmp_path / "elsewhere" / "game.vlt" / "good"
    dataset = catalog.open("game/good")
    assert (dataset.num_rows, dataset.rewards[0, 0]) == (3, 0)
    with pytest.raises(OryxError, match="at least 1 row"):
        catalog.make("game/good", tmp_path, rows=0)


@pytest.mark.parametrize("name", ["game/none", "none", "../game/good", "/", "", "a/b/c"])
def test_unknown_names(family, tmp_path, name):
    with pytest.raises(OryxError, match=r"there is no dataset .*game/good"):
        catalog.open(name, tmp_path)
    with pytest.raises(OryxError, match="there is no recipe"):
        catalog.make(name, tmp_path)


def test_what_was_recorded_before_is_not_overwritten(family, tmp_path):
    work = tmp_path / "game.vlt" / "good.recording"
    work.mkdir(parents=True)
    with pytest.raises(OryxError, match="continue it with --resume"):
        catalog.make("game/good", tmp_path)
    assert catalog.make("game/good", tmp_path, resume=True).is_dir()


def test_damaged_and_unfinished_datasets(family, tmp_path):
    folder = catalog.make("game/good", tmp_path)
    (folder / "metadata.json").unlink()
    (folder.parent / "other.partial").mkdir()
    (folder.parent / "other.partial" / "metadata.json").write_text("{}")
    assert catalog.names(tmp_path) == [("game/good", "local", "damaged")]
    with pytest.raises(OryxError, match="is damaged"):
        catalog.open("game/good", tmp_path)


EMBEDDED = sorted(path for path in catalog.EMBEDDED.glob("*.vlt/*") if vault.is_vault(path))


def test_there_are_embedded_datasets(tmp_path):
    assert EMBEDDED
    embedded = [entry.name for entry in catalog.names(tmp_path) if entry.where == "embedded"]
    assert embedded == [f"{folder.parent.stem}/{folder.name}" for folder in EMBEDDED]


@pytest.mark.parametrize("folder", EMBEDDED, ids=lambda folder: folder.name)
def test_embedded_datasets_are_small(folder):
    assert sum(file.stat().st_size for file in folder.rglob("*")) < 2**20


@pytest.mark.parametrize(
    "folder", [f for f in EMBEDDED if f.name.startswith("planner")], ids=lambda folder: folder.name
)
def test_planner_datasets_can_be_made_again(folder, tmp_path):
    name = f"{folder.parent.stem}/{folder.name}"
    embedded = vault.read(folder)
    assert embedded.name == name
    again = vault.read(catalog.make(name, tmp_path, seed=embedded.origin["seed"]))
    assert again.fingerprint() == embedded.fingerprint()


def test_nearly_a_name_and_a_file(family, tmp_path):
    with pytest.raises(
        OryxError, match=r"there is no dataset 'game/goood'; did you mean game/good\?"
    ):
        catalog.open("game/goood", tmp_path)
    log = tmp_path / "log.csv"
    log.write_text("episode,step")
    with pytest.raises(OryxError, match="is a file; import it first"):
        catalog.open(log, tmp_path)
