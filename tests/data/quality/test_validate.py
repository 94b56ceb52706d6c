"""Every planted fault is found, named and located; clean data has none."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from foreign import write_foreign
from planted import PLANTS, ROWS, STARTS, Plant, build_clean, build_clean_box

from oryx_marl.data import catalog, vault, view
from oryx_marl.data.dataset import PER_EPISODE, Dataset
from oryx_marl.data.quality.issues import KINDS, Finding
from oryx_marl.data.quality.repair import mendable, repair
from oryx_marl.data.quality.screen import find_problems
from oryx_marl.data.quality.validate import validate
from oryx_marl.data.vault_view import VaultView
from oryx_marl.types import ActionSpace, Spec

EMBEDDED = sorted(path for path in catalog.EMBEDDED.glob("*.vlt/*") if vault.is_vault(path))
ALSO = {
    "number too large for float32": {"rewards differ"},
    "padding after the end": {"agent acts after its end"},
    "episode longer than the limit": {"no terminal"},
    "episode of one step": {"duplicated feature"},
    "time goes backwards": {"time jumps"},
    "row twice": {"time stands still", "time jumps"},
}
"""Kinds that a fault brings with it, beside its own."""


def spoil(plant: Plant):
    dataset = plant.base()
    return plant.fault(dataset) or dataset


@pytest.mark.parametrize("build", [build_clean, build_clean_box])
def test_clean_data_has_no_finding(build):
    assert validate(build()) == []


def test_there_are_thirty_kinds_and_every_kind_is_planted():
    assert len(PLANTS) >= 30
    elsewhere = {kind for kind in KINDS if "simulator" in kind} | {"row after the last step"}
    assert {plant.kind for plant in PLANTS.values()} == set(KINDS) - elsewhere  # test_simulator.py


@pytest.mark.parametrize("name", PLANTS)
def test_planted_faults_are_found_named_and_located(name, monkeypatch):
    plant = PLANTS[name]
    dataset = spoil(plant)
    found = validate(dataset)
    first = next(finding for finding in found if finding.kind == plant.kind)
    assert (first.episode, first.step, first.agent, first.column) == plant.place
    assert plant.says in first.what
    assert first.count == plant.count
    assert (first.severity, first.remedy) == KINDS[plant.kind][:2]
    assert {finding.kind for finding in found} - {plant.kind} <= ALSO.get(name, set())
    # Wherever the rows are cut, the same is found.
    monkeypatch.setattr(view, "MOST_VALUES", 7 * 30)
    assert view.chunk_rows(dataset) < 10
    assert _texts(validate(dataset)) == _texts(found)


def _texts(findings: list[Finding]) -> list[str]:
    return [f"{finding.kind} {finding.count} {finding}" for finding in findings]


def test_a_column_that_was_infinite_for_long_is_told_as_single_faults(monkeypatch):
    monkeypatch.setattr(view, "MOST_VALUES", 7 * 30)
    dataset = build_clean()
    dataset.observations[:100, 1, 4] = -np.inf
    found = validate(dataset)
    assert {finding.kind for finding in found} == {"non-finite observation"}
    assert found[0].count == 100
    assert (found[0].episode, found[0].step, found[0].agent) == (0, 0, "bo")


@pytest.mark.parametrize("folder", EMBEDDED, ids=lambda folder: folder.name)
def test_embedded_data_has_no_error(folder):
    found = validate(VaultView(folder))
    assert [str(finding) for finding in found if finding.severity == "error"] == []
    assert {finding.kind for finding in found} <= {
        "terminals at the limit",  # the limit is part of T-Maze
        "few different episodes",
        "blank observation",
        "duplicated feature",
    }


def build_waiting(seed: int = 0) -> Dataset:
    """Two agents on a line of five cells, without a clock: who is blocked, or stays, sees the same
    again, so that many rows are those of the step before."""
    rng = np.random.default_rng(seed)
    episodes, length = 200, 20
    cells = np.zeros((episodes, length, 2), np.int64)
    actions = rng.choice(3, (episodes, length, 2), p=(0.6, 0.2, 0.2))
    cells[:, 0] = rng.integers(5, size=(episodes, 2))
    for step in range(1, length):
        moved = cells[:, step - 1] + np.array([0, -1, 1])[actions[:, step - 1]]
        cells[:, step] = np.clip(moved, 0, 4)
    rows = episodes * length
    ends = np.zeros((rows, 2), bool)
    ends[length - 1 :: length] = True
    features = np.stack([cells, cells[..., ::-1]], axis=-1).reshape(rows, 2, 2)
    return Dataset(
        Spec("", ("a", "b"), (2, 2), ActionSpace("discrete", 3)),
        features.astype(np.float32),
        actions.reshape(rows, 2),
        (cells == 4).reshape(rows, 2).any(axis=1, keepdims=True).repeat(2, 1).astype(np.float32),
        np.zeros_like(ends),
        ends,
        np.arange(0, rows, length),
        name="waiting",
    )


def log_twice(dataset: Dataset, rows: np.ndarray) -> Dataset:
    """The same with some rows logged twice."""
    times = np.ones(dataset.num_rows, np.int64)
    times[rows] = 2
    order = np.repeat(np.arange(dataset.num_rows), times)
    kept = {name: a for name, a in dataset.arrays().items() if name not in PER_EPISODE}
    arrays = {name: array[order] for name, array in kept.items()}
    arrays["episode_starts"] = np.append(0, np.cumsum(times))[dataset.episode_starts]
    return replace(dataset, **arrays)


def test_agents_that_stand_still_are_no_fault():
    """Hundreds of rows are those of the step before, but none contradicts the log."""
    dataset = build_waiting()
    same = (np.diff(dataset.observations, axis=0) == 0).all(axis=(1, 2))
    same &= (np.diff(dataset.actions, axis=0) == 0).all(axis=1)
    assert same.sum() > 500
    assert "row occurs twice in a row" not in {finding.kind for finding in validate(dataset)}


@pytest.mark.parametrize("rows_at_a_time", [100_000, 7])
def test_steps_logged_twice_are_found_among_agents_that_move(rows_at_a_time, monkeypatch):
    monkeypatch.setattr(view, "MOST_VALUES", rows_at_a_time * 30)
    clean = build_clean()
    middle = (STARTS + 2)[:10]
    found = [f for f in validate(log_twice(clean, middle)) if f.kind == "row occurs twice in a row"]
    assert [(f.episode, f.step) for f in found] == [(0, 3), (1, 3), (2, 3)]
    assert found[0].count == 10
    assert found[0].share == pytest.approx(10 / (ROWS + 10))
    assert found[0].times == "10 times (7.69% of all)"


def test_a_task_that_changes_by_itself_now_and_then_is_no_fault():
    """Situations last some steps whatever is done: equal rows are what chance makes of them."""
    rng = np.random.default_rng(0)
    dataset = build_waiting()
    changes = rng.random(dataset.num_rows) < 0.4
    seen = np.cumsum(changes).astype(np.float32)
    features = np.broadcast_to(seen[:, None, None], dataset.observations.shape).copy()
    actions = rng.integers(3, size=dataset.actions.shape)
    dataset = replace(dataset, observations=features, actions=actions)
    dataset.rewards[:] = 1
    assert "row occurs twice in a row" not in {finding.kind for finding in validate(dataset)}


def test_agents_that_see_the_same_are_counted_once_each():
    """Not once for each pair of them."""
    dataset = build_clean()
    dataset.observations[:] = dataset.observations[:, :1]
    found = [f for f in validate(dataset) if f.kind == "agents see the same"]
    assert [(f.agent, f.what) for f in found] == [
        ("bo", "it always sees what ada sees"),
        ("cy", "it always sees what ada sees"),
    ]
    assert found[0].count == 2


def test_a_vault_is_read_in_chunks_and_compared_with_its_hashes(tmp_path, monkeypatch):
    dataset = spoil(PLANTS["illegal action"])
    folder = vault.write(dataset, tmp_path / "a.vlt" / "b")
    monkeypatch.setattr(view, "MOST_VALUES", 7 * 30)
    source = VaultView(folder)
    chunks = list(view.chunks(source))
    assert [chunk.first_row for chunk in chunks] == list(range(0, ROWS, 7))
    for name, array in dataset.arrays().items():
        if len(array) == ROWS:
            parts = [getattr(chunk.data, name) for chunk in chunks]
            np.testing.assert_array_equal(np.concatenate(parts), array)
    for chunk in chunks:
        for row in range(chunk.data.num_rows):
            assert chunk.locate(row) == dataset.locate(chunk.first_row + row)
    assert _texts(validate(source)) == _texts(validate(dataset))
    assert [part.num_episodes for part in view.parts(source)] == [1] * 12
    whole = np.concatenate([part.final_observations for part in view.parts(source)])
    np.testing.assert_array_equal(whole, dataset.final_observations)


def test_a_damaged_vault_is_named_while_it_is_read(tmp_path, monkeypatch):
    folder = vault.write(build_clean(), tmp_path / "a.vlt" / "b")
    source = VaultView(folder)
    document = json.loads((folder / "metadata.json").read_text())
    document["oryx_marl"]["arrays"]["rewards"]["sha256"][0] = "0" * 64
    document["oryx_marl"]["sha256"] = vault._hash_document(document)
    (folder / "metadata.json").write_text(json.dumps(document))
    source = VaultView(folder)
    with pytest.raises(
        vault.OryxError, match=r"array rewards\., rows 0 to 119 \(SHA-256 differs\)"
    ):
        validate(source)


def test_foreign_vaults_are_cut_into_the_same_episodes(tmp_path, monkeypatch):
    dataset = spoil(PLANTS["action id too large"])
    folder = write_foreign(
        replace(dataset, action_mask=None, agent_mask=None), tmp_path / "a.vlt" / "b"
    )
    whole = vault.read(folder)
    monkeypatch.setattr(view, "MOST_VALUES", 5 * 30)
    source = VaultView(folder)
    assert source.spec == whole.spec
    assert source.spec.action.size == 5
    np.testing.assert_array_equal(source.episode_starts, whole.episode_starts)
    np.testing.assert_array_equal(source.episode_starts, dataset.episode_starts)
    assert _texts(validate(source)) == _texts(validate(whole))


def test_memory_is_bounded(tmp_path):
    """A log of 200 MB is checked within a fraction of it, in a process of its own."""
    script = str(Path(__file__).parents[2] / "helpers" / "bounded.py")
    for what in ("write", "check"):
        command = [sys.executable, script, what, str(tmp_path / "large")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["logged"] > 200e6
    assert told["kinds"] == {"non-finite observation": 1}
    assert told["grown"] < 80e6


def build_garbage(seed: int) -> Dataset:
    """A dataset of any shape with any numbers in it."""
    rng = np.random.default_rng(seed)
    agents, width, actions, state = rng.integers(1, 4, 4)
    num_rows = int(rng.integers(1, 90))
    is_box = seed % 4 == 0
    kind = ActionSpace("box", int(actions), (-1.0,) * actions, (1.0,) * actions)
    spec = Spec(
        "",
        tuple(f"agent {index}" for index in range(agents)),
        (*rng.integers(1, width + 1, agents).tolist()[:-1], int(width)),
        kind if is_box else ActionSpace("discrete", int(actions)),
        episode_limit=int(rng.integers(1, 30)) if seed % 3 else None,
        state_size=int(state) if seed % 2 else 0,
        shared_reward=bool(seed % 5),
    )

    def numbers(*shape: int) -> np.ndarray:
        odd = np.array([0, 1, -1, 7, np.nan, np.inf, -np.inf, 1e300, -0.0])
        return rng.choice(odd, shape, p=[0.4, 0.3, 0.1, 0.1, *[0.02] * 5])

    def flags(*shape: int) -> np.ndarray:
        return rng.random(shape) < rng.random()

    starts = np.flatnonzero(rng.random(num_rows) < 0.2)
    step = (num_rows, int(agents))
    observations = numbers(*step, int(width))
    if seed % 7 == 0:
        observations = rng.integers(-3, 3, observations.shape).astype(np.int8)
    return Dataset(
        spec=spec,
        observations=observations,
        actions=numbers(*step, int(actions)) if is_box else rng.integers(-1, actions + 1, step),
        rewards=numbers(*step),
        terminals=flags(*step),
        truncations=flags(*step),
        episode_starts=np.unique(np.append(0, starts)),
        action_mask=None if is_box or seed % 3 == 0 else flags(*step, int(actions)),
        agent_mask=flags(*step) if seed % 2 else None,
        state=numbers(num_rows, int(state)) if seed % 2 else None,
        name="garbage",
    )


@pytest.mark.parametrize("seed", range(60))
def test_garbage_is_told_never_stumbled_over(seed, tmp_path, monkeypatch):
    dataset = build_garbage(seed)
    found = validate(dataset)
    assert all(str(finding) for finding in found)
    # Errors are those that training would refuse.
    refused = {problem.kind: problem.count for problem in find_problems(dataset)}
    for kind, count in refused.items():
        counts = {f.count for f in found if f.kind == kind}
        assert counts == {count} or (kind, counts) == ("non-finite observation", set())
    monkeypatch.setattr(view, "MOST_VALUES", 60)
    clocks = {"time goes backwards", "time stands still", "time jumps"}
    cut = [f for f in validate(dataset) if f.kind not in clocks]
    assert sorted(_texts(cut)) == sorted(_texts([f for f in found if f.kind not in clocks]))
    if mendable(found):
        repair(dataset, found, tmp_path / "new")
        left = {finding.kind for finding in validate(VaultView(tmp_path / "new"))}
        assert not left & mendable(found)
