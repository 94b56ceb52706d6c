"""Algorithms and environments from outside of the package, on the command line."""

import json
import sys
import warnings
from pathlib import Path

import jax
import numpy as np
import pytest
from plugins import LINE, SLOW, install

from oryx_marl import recipes, registry
from oryx_marl.algorithms import bc
from oryx_marl.algorithms._making import make_algorithm
from oryx_marl.cli import main as cli
from oryx_marl.data import catalog
from oryx_marl.errors import OryxWarning
from oryx_marl.networks.recurrent import RecurrentConfig
from oryx_marl.policy import artifact
from oryx_marl.policy.artifact import PolicyArtifact

TRAIN = (
    "--batch-size 4 --sequence-length 4 --seeds 2 --updates 4 --log-every 2 --evaluate-every 4 "
    "--checkpoint-every 4 --episodes 4 --episodes-while-training 4 --replays 1"
)


@pytest.fixture(autouse=True)
def _isolated(own_plugins: None) -> None:
    """No test sees the plug-ins of another."""


def oryx(command: str, expected: int = 0) -> None:
    """Runs a command and requires how it ends."""
    try:
        cli.main(command.split())
        code = 0
    except SystemExit as stop:
        code = stop.code
    assert code == expected, command


def test_an_algorithm_by_entry_point_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install(tmp_path, "slowpackage", SLOW, {"oryx_marl.algorithms": {"slow": "slowpackage"}})
    monkeypatch.chdir(tmp_path)
    with monkeypatch.context() as installed:
        installed.syspath_prepend(tmp_path)
        oryx("train --help")
        assert "Train slow of the package slowpackage." in capsys.readouterr().out
        assert "slowpackage" not in sys.modules  # its name was not given
        oryx(f"train slow tmaze/planner-expert --slowness 3 {TRAIN} --out run")
        last = capsys.readouterr().out.strip().splitlines()[-1]
        assert last.startswith("success rate 0.")
        config = json.loads((tmp_path / "run" / "config.json").read_text())
        assert (config["algorithm"], config["config"]["slowness"]) == ("slow", 3.0)
        oryx("eval run --episodes 4 --json")
        assert json.loads(capsys.readouterr().out)["update"] == 4
    del sys.modules["slowpackage"]
    oryx("eval run --episodes 4", 2)
    told = capsys.readouterr().err
    assert "there is no algorithm 'slow'" in told
    assert "--plugin FILE" in told
    assert "remove" not in told  # the policy file is not at fault


def test_a_broken_package_spoils_its_own_command_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    points = {"oryx_marl.algorithms": {"slow": "broken"}, "oryx_marl.envs": {"late": "broken"}}
    install(tmp_path, "broken", "1 / 0", points)
    monkeypatch.syspath_prepend(tmp_path)
    oryx("data list --json")
    assert cli.read(["train", "sable", "--env", "tmaze"])
    oryx("train slow tmaze/planner-expert", 2)
    shown = capsys.readouterr().err
    assert shown.startswith("error: the plug-in 'slow' of the package broken cannot be loaded")


def test_recipes_of_a_broken_package_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "broken", "1 / 0", {"oryx_marl.recipes": {"game": "broken"}})
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.warns(OryxWarning, match="'game' of the package broken cannot be loaded"):
        assert "tmaze/replay" in [entry.name for entry in recipes.names(tmp_path)]


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an environment, and policies that know nothing for two and for three agents."""
    folder = tmp_path_factory.mktemp("walk")
    (folder / "walk.py").write_text(LINE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "_added", {})
        make = registry.add_file(folder / "walk.py").make
    config = bc.Config(network=RecurrentConfig(8, 8))
    for agents in (2, 3):
        spec = make(agents=agents).spec
        algorithm = make_algorithm("bc", config, spec)
        weights = algorithm.weights(jax.vmap(algorithm.init)(jax.random.key(0)[None]))
        policy = PolicyArtifact("bc", algorithm, spec, weights, (0,), {"seed": 0})
        artifact.save(folder / f"{agents}.npz", policy)
    return folder


def test_any_policy_in_any_environment(
    walk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(walk)
    make = "data make walk/random --env walk --policy 2.npz --rows 50 --seed 5"
    oryx(f"{make} --plugin walk.py")
    assert "52 of 50 steps rolled out" in capsys.readouterr().out
    made = catalog.open("walk/random")
    assert (made.num_rows, made.num_episodes, made.name) == (52, 13, "walk/random")
    assert made.final_observations is not None
    # each place is the one before, a step to the left or to the right
    moved = made.observations[1:4, :, 0] - made.observations[0:3, :, 0]
    np.testing.assert_array_equal(moved, 2 * made.actions[:3].astype(int) - 1)
    origin = made.origin
    assert origin["command"] == f"oryx {make} --plugin walk.py"
    sha256 = artifact.load(walk / "2.npz").sha256
    assert origin["policies"] == [{"seed": 0, "run": "2.npz", "act": "sampled", "sha256": sha256}]
    assert (origin["seed"], origin["environment"], origin["environment_version"]) == (5, "walk", 3)
    oryx(make, 1)
    assert "is there already" in capsys.readouterr().err


def test_a_policy_is_recorded_as_it_is_told_to_act(
    walk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Greedy, every episode of this game is the same; sampled they differ."""
    monkeypatch.chdir(walk)
    make = "data make walk/greedy --env walk --policy 2.npz --rows 50 --seed 5 --act greedy"
    oryx(f"{make} --plugin walk.py")
    made = catalog.open("walk/greedy")
    assert made.origin["command"] == f"oryx {make} --plugin walk.py"
    assert made.origin["policies"][0]["act"] == "greedy"
    episodes = made.actions.reshape(13, -1)
    assert (episodes == episodes[0]).all()
    oryx("data make walk/drawn --env walk --policy 2.npz --rows 50 --seed 5 --act 0.5")
    assert len(np.unique(catalog.open("walk/drawn").actions.reshape(13, -1), axis=0)) > 3
    oryx("data make walk/x --env walk --policy 2.npz --act -1", 2)
    assert "act must be sampled, greedy or a temperature" in capsys.readouterr().err


def test_a_function_that_makes_an_environment_is_named(
    walk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also one outside of JAX: that of PettingZoo around the same rules."""
    (walk / "zoo.py").write_text(
        "import walk\n"
        "from oryx_marl.envs import to_pettingzoo\n"
        "def make(): return to_pettingzoo(walk.make())\n"
    )
    monkeypatch.chdir(walk)
    monkeypatch.syspath_prepend(walk)
    for number, env in enumerate(("walk:make", "zoo:make")):
        oryx(f"data make walk/own-{number} --env {env} --policy 2.npz --rows 50")
        made = catalog.open(f"walk/own-{number}")
        assert (made.num_rows, made.num_episodes) == (52, 13)
        moved = made.observations[1:4, :, 0] - made.observations[0:3, :, 0]
        np.testing.assert_array_equal(moved, 2 * made.actions[:3].astype(int) - 1)
    oryx("data make walk/x --env zoo:make --policy 3.npz", 1)
    assert "cannot act in" in capsys.readouterr().err
    del sys.modules["walk"], sys.modules["zoo"]


@pytest.mark.slow
def test_what_is_made_is_learned_from_and_acts_again(
    walk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(walk)
    oryx("--plugin=walk.py data make walk/more --env walk --policy 2.npz --rows 200")
    with monkeypatch.context() as without:
        without.setattr(registry, "_added", {})
        oryx(f"train bc walk/more {TRAIN} --out refused", 2)
    told = capsys.readouterr().err
    assert "there is no environment 'walk'" in told
    assert "--plugin FILE" in told
    oryx(f"train --plugin walk.py bc walk/more {TRAIN} --out bc")
    assert capsys.readouterr().out.strip().splitlines()[-1].startswith("return ")
    page = (walk / "bc" / "report.html").read_text()
    assert "oryx train bc walk/more --updates 4 --seeds 2" in page
    assert "--plugin walk.py" in page
    oryx("data make walk/cloned --env walk --policy bc --rows 40")
    (about,) = catalog.open("walk/cloned").origin["policies"]
    assert (about["run"], about["update"], len(about["sha256"])) == ("bc", 4, 64)


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (
            "walk/x --env walk --policy 3.npz",
            1,
            "cannot act in walk: number of agents: 3 against 2",
        ),
        ("walk/x --env tmaze --policy 2.npz", 1, "cannot act in tmaze: observation width"),
        ("walk/x --env walk --policy none.npz", 2, "there is no run at none.npz"),
        ("walk/x --env walk --policy none", 2, "there is no run at none"),
        ("walk/x --env nowhere --policy 2.npz", 2, "there is no environment 'nowhere'"),
        ("walk --env walk --policy 2.npz", 1, "'walk' is no name for a dataset"),
        ("tmaze/expert --env walk --policy 2.npz", 1, "made by a recipe of its own"),
        ("walk/x --env walk", 2, "say who acts in walk: --policy RUN"),
        ("walk/x --env walk --policy 2.npz --resume", 2, "leave out --resume"),
        ("walk/x --env walk --policy 2.npz --rows 0", 2, "rows must be at least 1, got 0"),
        ("walk/x --policy 2.npz", 2, "there is no recipe for 'walk/x'"),
    ],
)
def test_misfits_are_refused_before_anything_is_made(
    walk: Path,
    arguments: str,
    code: int,
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(walk)
    oryx(f"data make {arguments} --plugin walk.py", code)
    shown = capsys.readouterr()
    assert expected in shown.err
    assert "rolled out" not in shown.out
    assert not (walk / "datasets" / "walk.vlt" / "x").exists()


def test_a_long_roll_out_is_stored_in_parts(walk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from oryx_marl.recipes import _any_policy

    registry.add_file(walk / "walk.py")
    monkeypatch.setattr(_any_policy, "PART_ROWS", 20)
    told: list[str] = []
    folder = recipes.make_from_policy(
        "walk/long", "walk", walk / "2.npz", walk, 50, seed=1, tell=told.append
    )
    assert told == [f"{done} of 50 steps rolled out" for done in (20, 40, 52)]
    made = catalog.open(folder)
    assert (made.num_rows, made.num_episodes) == (52, 13)
    assert len(np.unique(made.actions.reshape(13, -1), axis=0)) > 5  # parts do not repeat


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("data list --plugin", "--plugin needs a file"),
        ("data list --plugin none.py", "there is no plug-in none.py"),
    ],
)
def test_plugins_that_are_none(
    arguments: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    oryx(arguments, 2)
    assert expected in capsys.readouterr().err


def test_plugins_are_taken_out_wherever_they_stand() -> None:
    given = ["--plugin", "a.py", "train", "--plugin=b.py", "x", "--seeds", "2", "--plugin", "c.py"]
    words, files = cli._take_plugins(given)
    assert words == ["train", "x", "--seeds", "2"]
    assert files == [Path("a.py"), Path("b.py"), Path("c.py")]


def test_names_that_are_taken_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tmaze.py").write_text("def make(): ...")
    with pytest.warns(OryxWarning) as found:
        oryx(f"data list --json --plugin {tmp_path / 'tmaze.py'}")
    (told,) = found
    shown = warnings.formatwarning(told.message, told.category, told.filename, told.lineno)
    assert shown.startswith("warning: the plug-in ")
    assert shown.endswith("is not used in envs: the package has a 'tmaze' of its own\n")
    assert __file__ in warnings.formatwarning("other", UserWarning, __file__, 1)
