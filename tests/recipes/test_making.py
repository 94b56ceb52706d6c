"""Datasets are made by recipes, found by name, and made the same again."""

from pathlib import Path

import pytest

import oryx_marl
from oryx_marl import provenance, recipes, registry
from oryx_marl.data import catalog, vault
from oryx_marl.errors import OryxError

GAME = '''
import numpy as np
from oryx_marl.data.dataset import Dataset
from oryx_marl.recipes.base import Recipe
from oryx_marl.types import ActionSpace, Spec

FAMILIES = ("game",)
SPEC = Spec("", ("left", "right"), (3, 3), ActionSpace("discrete", 3))


def run(request):
    """One episode whose rewards are the seed."""
    request.tell(f"recording {request.rows} steps")
    step = (request.rows, 2)
    ends = np.zeros(step, bool)
    ends[-1] = True
    yield Dataset(
        spec=SPEC,
        observations=np.zeros((*step, 3), np.float32),
        actions=np.zeros(step, np.int8),
        rewards=np.full(step, request.seed, np.float32),
        terminals=ends,
        truncations=np.zeros(step, bool),
        episode_starts=np.array([0]),
        origin={"noted": "this"},
    )


def find_family(name):
    return {"good": Recipe("a good one", run, rows=9, seed=4)} if name == "game" else {}
'''


@pytest.fixture
def family(monkeypatch, own_plugins, tmp_path_factory):
    """A family with one recipe, from a plug-in."""
    file = tmp_path_factory.mktemp("plugins") / "game.py"
    file.write_text(GAME)
    registry.add_file(file)
    monkeypatch.setattr(provenance, "find_commit", lambda: "abc")


def of_game(root: Path) -> list[tuple]:
    return [entry for entry in recipes.names(root) if entry.name.startswith("game/")]


def test_make_open_and_list(family, tmp_path):
    assert of_game(tmp_path) == [("game/good", "recipe", "a good one")]
    with pytest.raises(OryxError, match="make it: oryx data make game/good"):
        recipes.open("game/good", tmp_path)
    messages = []
    folder = recipes.make("game/good", tmp_path, tell=messages.append)
    assert folder == tmp_path / "game.vlt" / "good"
    assert messages == ["recording 9 steps"]
    dataset = recipes.open("game/good", tmp_path)
    assert (dataset.num_rows, dataset.rewards[0, 0], dataset.name) == (9, 4, "game/good")
    assert dataset.origin == {
        "command": "oryx data make game/good --rows 9 --seed 4",
        "recipe": "game/good",
        "description": "a good one",
        "seed": 4,
        "version": oryx_marl.__version__,
        "environment": "",
        "environment_version": None,
        "environment_config": {},
        "commit": "abc",
        "noted": "this",
    }
    assert recipes.open(folder).fingerprint() == dataset.fingerprint()
    assert recipes.open(str(folder)).fingerprint() == dataset.fingerprint()
    assert of_game(tmp_path) == [("game/good", "local", "a good one")]
    with pytest.raises(OryxError, match="is there already"):
        recipes.make("game/good", tmp_path)


def test_other_rows_and_seed_and_root(family, tmp_path, monkeypatch):
    monkeypatch.setenv("ORYX_DATA", str(tmp_path / "elsewhere"))
    folder = recipes.make("game/good", rows=3, seed=0)
    assert folder == tmp_path / "elsewhere" / "game.vlt" / "good"
    dataset = recipes.open("game/good")
    assert (dataset.num_rows, dataset.rewards[0, 0]) == (3, 0)
    with pytest.raises(OryxError, match="at least 1 row"):
        recipes.make("game/good", tmp_path, rows=0)


@pytest.mark.parametrize("name", ["game/none", "none", "../game/good", "/", "", "a/b/c"])
def test_unknown_names(family, tmp_path, name):
    with pytest.raises(OryxError, match=r"there is no dataset .*`oryx data list`"):
        recipes.open(name, tmp_path)
    with pytest.raises(OryxError, match="there is no recipe"):
        recipes.make(name, tmp_path)


def test_what_was_recorded_before_is_not_overwritten(family, tmp_path):
    work = tmp_path / "game.vlt" / "good.recording"
    work.mkdir(parents=True)
    with pytest.raises(OryxError, match="continue it with resume"):
        recipes.make("game/good", tmp_path)
    assert recipes.make("game/good", tmp_path, resume=True).is_dir()


def test_damaged_and_unfinished_datasets(family, tmp_path):
    folder = recipes.make("game/good", tmp_path)
    (folder / "metadata.json").unlink()
    (folder.parent / "other.partial").mkdir()
    (folder.parent / "other.partial" / "metadata.json").write_text("{}")
    assert of_game(tmp_path) == [("game/good", "local", "damaged")]
    with pytest.raises(OryxError, match="is damaged"):
        recipes.open("game/good", tmp_path)


EMBEDDED = sorted(catalog.EMBEDDED.glob("*.vlt/planner*"))


@pytest.mark.parametrize("folder", EMBEDDED, ids=lambda folder: folder.name)
def test_planner_datasets_can_be_made_again(folder, tmp_path):
    name = f"{folder.parent.stem}/{folder.name}"
    embedded = vault.read(folder)
    assert embedded.name == name
    again = vault.read(recipes.make(name, tmp_path, seed=embedded.origin["seed"]))
    assert again.fingerprint() == embedded.fingerprint()


def test_nearly_a_name_and_a_file(family, tmp_path):
    with pytest.raises(
        OryxError, match=r"there is no dataset 'game/goood'; did you mean game/good\?"
    ):
        recipes.open("game/goood", tmp_path)
    log = tmp_path / "log.csv"
    log.write_text("episode,step")
    with pytest.raises(OryxError, match="is a file; import it first"):
        recipes.open(log, tmp_path)
