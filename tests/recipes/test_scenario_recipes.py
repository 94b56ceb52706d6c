"""Data of Connector and SMAX by recipe: a part of a recorded training, and its policies."""

import shutil
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jumanji")

from oryx_marl import recipes
from oryx_marl.algorithms import sable
from oryx_marl.data import catalog
from oryx_marl.errors import OryxError
from oryx_marl.networks.sable import NetworkConfig
from oryx_marl.policy import artifact
from oryx_marl.recipes import _assets, _policies, _scenarios, connector, smax
from oryx_marl.rollout import record

NAME = "con-4x4x2a"
"""None of the listed ones."""
ROWS = 300
TINY = sable.Config(network=NetworkConfig(width=8), num_envs=8, rollout_length=25, minibatches=2)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """All datasets of a small board, and what was told while they were made."""
    root, told = tmp_path_factory.mktemp("data"), []
    small = _scenarios.make(NAME, _scenarios.Training(2_000))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_scenarios, "make_config", lambda training: TINY)
        patch.setattr(connector, "find_family", lambda name: small if name == NAME else {})
        patch.setattr(record, "MOST_ENVS", 64)
        patch.setattr(record, "PIECE", 5)
        patch.setattr(_policies, "EPISODES", 16)
        for variant in ("replay", "expert", "snapshots"):
            recipes.make(f"{NAME}/{variant}", root, rows=ROWS, tell=told.append)
    return root, told


@pytest.mark.slow
def test_a_part_of_a_training_is_kept(made: tuple[Path, list[str]]) -> None:
    root, told = made
    found = recipes.open(f"{NAME}/replay", root)
    assert ROWS <= found.num_rows < ROWS + 16  # whole episodes, of at most 4 x 4 steps
    assert found.rewards.shape[1] == 2
    assert found.state is not None
    np.testing.assert_array_equal(found.state, found.observations.reshape(found.num_rows, -1))
    assert found.origin["steps"] == 2_000
    assert found.origin["final_return"] == pytest.approx(float(told[0].split()[-1]), abs=1e-3)
    ends = np.append(found.episode_starts[1:], found.num_rows) - 1
    assert (found.terminals | found.truncations)[ends].all()


@pytest.mark.slow
def test_few_environments_are_recorded(made: tuple[Path, list[str]]) -> None:
    """Two of eight hold 500 of 2,000 steps: 1.1 times what is asked for, rounded up."""
    root, _ = made
    found = recipes.open(f"{NAME}/replay", root)
    assert found.num_episodes < 500 / 2


@pytest.mark.slow
def test_its_last_policy_acts(made: tuple[Path, list[str]]) -> None:
    root, _ = made
    expert = recipes.open(f"{NAME}/expert", root)
    assert ROWS <= expert.num_rows < ROWS + 16
    assert expert.origin["policies"][0]["steps"] == 2_000
    assert expert.origin["policies"][0]["update"] == 10


@pytest.mark.slow
def test_its_policies_act_in_turn(made: tuple[Path, list[str]]) -> None:
    root, told = made
    mixed = recipes.open(f"{NAME}/snapshots", root)
    assert [policy["update"] for policy in mixed.origin["policies"]] == [10]
    assert ROWS <= mixed.num_rows < ROWS + 16
    assert mixed.origin["final_return"] == pytest.approx(float(told[-1].split()[-1]), abs=1e-3)
    with pytest.raises(OryxError, match="leave out --policy"):
        recipes.make("con-25x25x50a/snapshots", root, policy=root / "run")


def test_policies_stand_for_a_training(tmp_path: Path) -> None:
    """Those nearest to the middles of its fifths, and the last."""
    assert _policies.find(tmp_path) == []
    for update in (*range(10, 130, 10), 123):
        (tmp_path / f"{update}.npz").touch()
    found = [int(path.stem) for path in _policies.find(tmp_path)]
    assert found == [10, 40, 60, 90, 110, 123]


@pytest.mark.parametrize("scenario", [*connector.FAMILIES, *smax.FAMILIES[:3]])
def test_pretrained_policies_are_spread_over_the_training(scenario: str) -> None:
    *along, last = _assets.locate(_assets.checkpoints(scenario))
    assert len(along) == _policies.CHECKPOINTS
    shares = [int(path.stem) / int(last.stem) for path in along]
    assert [int(5 * share) for share in shares] == [0, 1, 2, 3, 4]  # one from each fifth
    assert artifact.load(last).origin["half"]


@pytest.mark.slow
def test_a_run_acts_in_its_own_environment_only(
    made: tuple[Path, list[str]], tmp_path: Path
) -> None:
    root, _ = made
    run = root / f"{NAME}.vlt" / "replay.training" / "run"
    recipes.make(f"{NAME}/expert", tmp_path, rows=ROWS, policy=run)
    found = recipes.open(f"{NAME}/expert", tmp_path)
    assert (found.origin["policies"][0]["update"], found.num_rows >= ROWS) == (10, True)
    with pytest.raises(OryxError, match=f"acts in {NAME}, not in con-7x7x5a"):
        recipes.make("con-7x7x5a/expert", root, policy=run)


def test_who_has_no_policy_is_told_how_to_get_one(tmp_path: Path) -> None:
    steps = f"make it: oryx data make {NAME}/replay, then oryx data make {NAME}/expert$"
    with pytest.raises(OryxError, match=steps):
        recipes.open(f"{NAME}/expert", tmp_path)
    shutil.copytree(catalog.find("tmaze/planner-expert"), tmp_path / f"{NAME}.vlt" / "replay")
    with pytest.raises(OryxError, match=f"make it: oryx data make {NAME}/expert$"):
        recipes.open(f"{NAME}/expert", tmp_path)
    with pytest.raises(OryxError, match=f"make {NAME}/replay first"):
        recipes.make(f"{NAME}/expert", tmp_path)
    with pytest.raises(OryxError, match=f"make {NAME}/replay first"):
        recipes.make(f"{NAME}/snapshots", tmp_path)
    with pytest.raises(OryxError, match="boards are square"):
        recipes.make("con-4x5x2a/replay", tmp_path)
    with pytest.raises(OryxError, match="there is no recipe for 'con-4x4x2a/other'"):
        recipes.make(f"{NAME}/other", tmp_path)


def test_the_papers_scenarios_are_listed(tmp_path: Path) -> None:
    listed = {entry.name for entry in recipes.names(tmp_path)}
    for family in (*connector.FAMILIES, *smax.FAMILIES):
        assert {f"{family}/{name}" for name in ("replay", "expert", "snapshots")} <= listed
    assert not recipes.is_made_quickly("con-5x5x3a/replay", tmp_path)
