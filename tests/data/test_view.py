"""Views give the same rows, numbers and fingerprints wherever the data lie, and no altered byte."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from foreign import write_foreign

from oryx_marl.data import dataset as datasets
from oryx_marl.data import stats, subsample, vault, vault_view, view
from oryx_marl.data._store import Store
from oryx_marl.data.dataset import PER_EPISODE, Dataset
from oryx_marl.data.explore import explore
from oryx_marl.data.quality.validate import validate
from oryx_marl.data.vault_view import VaultView
from oryx_marl.data.view import EpisodeSubset, View
from oryx_marl.errors import OryxError

ROWS, STARTS = 60, (0, 3, 5, 17, 18, 40, 52)


@pytest.fixture
def log(build_dataset: Callable[..., Dataset]) -> Dataset:
    """Random numbers in every array that a dataset can have."""
    rng = np.random.default_rng(0)
    return build_dataset(
        ROWS,
        STARTS,
        spec=replace(build_dataset().spec, state_size=4),
        observations=rng.integers(-9, 9, (ROWS, 2, 3), np.int16),
        rewards=rng.random((ROWS, 2), np.float32),
        action_mask=rng.random((ROWS, 2, 3)) < 0.5,
        agent_mask=rng.random((ROWS, 2)) < 0.8,
        state=rng.random((ROWS, 4)),
        final_observations=rng.integers(-9, 9, (len(STARTS), 2, 3), np.int16),
        origin={"seed": 3},
    )


@pytest.fixture
def folder(log: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same as a vault of several blocks."""
    monkeypatch.setattr("oryx_marl.data._store.BLOCK_BYTES", 1000)
    folder = vault.write(log, tmp_path / "a.vlt" / "log")
    entry = json.loads((folder / "metadata.json").read_text())["oryx_marl"]
    assert entry["block_rows"] == 8  # 16 rows would have more than 1000 bytes
    return folder


def assert_same(found: View, expected: Dataset) -> None:
    """All that can be asked of a view, against a dataset in memory."""
    assert isinstance(found, View)
    assert (found.spec, found.num_rows) == (expected.spec, expected.num_rows)
    assert found.layout == expected.layout
    np.testing.assert_array_equal(found.episode_starts, expected.episode_starts)
    assert view.fingerprint(found) == expected.fingerprint()
    np.testing.assert_array_equal(view.episode_returns(found), expected.episode_returns)
    np.testing.assert_array_equal(view.episode_lengths(found), expected.episode_lengths)
    rng = np.random.default_rng(1)
    for _ in range(10):
        start, stop = sorted(rng.choice(expected.num_rows + 1, 2, replace=False).tolist())
        for names in (None, ("rewards", "actions"), ("observations", "nothing")):
            some = found.read(start, stop, names)
            assert set(some) == set(expected.layout) - set(PER_EPISODE) & set(names or some)
            for name, array in some.items():
                np.testing.assert_array_equal(array, expected.arrays()[name][start:stop])
    loaded = view.load(found)
    for name, array in expected.arrays().items():
        np.testing.assert_array_equal(loaded.arrays()[name], array, err_msg=name)


@pytest.mark.parametrize("gap_bytes", [2**16, 300, 0])
@pytest.mark.parametrize("most_values", [2**20, 40])
def test_a_dataset_its_vault_and_its_episodes_are_the_same_view(
    log: Dataset,
    folder: Path,
    most_values: int,
    gap_bytes: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(view, "MOST_VALUES", most_values)
    monkeypatch.setattr(view, "GAP_BYTES", gap_bytes)
    assert_same(log, log)
    assert_same(VaultView(folder), log)
    for chosen in ([0, 1, 2, 3, 4, 5, 6], [0], [1, 2, 5], [0, 3, 5, 6], [6, 0, 3, 4, 4]):
        episodes = np.array(chosen)
        expected = subsample.take_episodes(log, episodes)
        assert_same(EpisodeSubset(log, episodes), expected)
        found = subsample.take_episodes(VaultView(folder), episodes)
        assert_same(found, expected)
        last = subsample.take_episodes(found, np.array([len(chosen) - 1]))
        assert_same(last, subsample.take_episodes(log, episodes[-1:]))


def test_a_foreign_vault_is_the_view_of_what_is_derived(
    log: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view, "MOST_VALUES", 40)
    monkeypatch.setattr("oryx_marl.data._foreign.FLAGS_AT_ONCE", 10)
    folder = write_foreign(log, tmp_path / "a.vlt" / "foreign")
    assert_same(VaultView(folder), vault.read(folder))


@pytest.mark.parametrize("most_values", [2**20, 40])
@pytest.mark.parametrize("starts", [STARTS, (0,)])
def test_a_view_is_stored_like_the_dataset_that_it_is(
    starts: tuple[int, ...],
    most_values: int,
    log: Dataset,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To the byte of metadata.json: hashes, chunks, shapes; also where all rows are one episode."""
    monkeypatch.setattr("oryx_marl.data._store.BLOCK_BYTES", 1000)
    monkeypatch.setattr(view, "MOST_VALUES", most_values)
    final = log.final_observations
    assert final is not None
    whole = replace(log, episode_starts=np.array(starts), final_observations=final[: len(starts)])
    expected = vault.write(whole, tmp_path / "expected")
    for number, source in enumerate((whole, VaultView(expected))):
        told: list[int] = []
        found = vault.write_view(source, tmp_path / str(number), report=told.append)
        metadata = [(each / "metadata.json").read_bytes() for each in (found, expected)]
        assert metadata[0] == metadata[1]
        assert vault.read(found).fingerprint() == whole.fingerprint()
        assert told == list(range(0, ROWS, view.chunk_rows(whole)))
    renamed = vault.write_view(whole, tmp_path / "renamed", "new/name", {})
    assert vault.describe(renamed)["name"] == "new/name"
    assert vault.describe(renamed)["origin"] == {}


def test_a_view_that_turns_out_to_be_damaged_is_not_stored(folder: Path, tmp_path: Path) -> None:
    damage(folder, "rewards", block=7)
    with pytest.raises(OryxError, match="SHA-256 differs"):
        vault.write_view(VaultView(folder), tmp_path / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["a.vlt"]


def test_no_episode_at_all_is_refused(folder: Path) -> None:
    with pytest.raises(OryxError, match="is empty: it has no logged step"):
        EpisodeSubset(VaultView(folder), np.array([], int))


def test_the_return_of_an_episode_longer_than_a_chunk(
    log: Dataset, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view, "MOST_VALUES", 8)  # four rows of rewards
    found = view.episode_returns(VaultView(folder))
    np.testing.assert_allclose(found, log.episode_returns, rtol=1e-14)
    found = stats.first_agent_returns(VaultView(folder))
    expected = np.add.reduceat(log.rewards[:, 0].astype(np.float64), log.episode_starts)
    np.testing.assert_allclose(found, expected, rtol=1e-14)


def damage(folder: Path, array: str, block: int) -> None:
    """Alters one number of a stored array, far from the rows of the first block."""
    store = Store(folder)
    entry = json.loads((folder / "metadata.json").read_text())["oryx_marl"]["arrays"][array]
    name = {**vault.SHARED_NAMES, **vault.OWN_NAMES}[array]
    stored = store._open(name, None, None, open=True)
    row = min(8 * block, entry["shape"][0] - 1)
    stored[0, row].write(np.asarray(stored[0, row].read().result()) * 0).result()


@pytest.mark.parametrize("array", ["rewards", "observations", "state", "final_observations"])
def test_out_of_order_nothing_is_returned_before_all_of_it_was_verified(
    array: str, log: Dataset, folder: Path
) -> None:
    damage(folder, array, block=7)
    found = VaultView(folder)
    is_final = array == "final_observations"
    read = partial(found.read_final, 1, 2) if is_final else partial(found.read, 4, 5, (array,))
    for _ in range(2):  # it stays damaged
        with pytest.raises(OryxError, match=r"is damaged: .*SHA-256 differs"):
            read()
    others = [name for name in log.layout if name != array]
    np.testing.assert_array_equal(found.read(4, 5, others)["actions"], log.actions[4:5])
    found = VaultView(folder)
    with pytest.raises(OryxError, match="SHA-256 differs"):
        found.verify()
    # Rows that begin with the first ones are in order, but not all of a block is among them.
    with pytest.raises(OryxError, match="SHA-256 differs"):
        view.load(subsample.take_episodes(VaultView(folder), np.array([0])))
    with pytest.raises(OryxError, match="SHA-256 differs"):
        list(view.parts(VaultView(folder)))


def count_bytes(monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> list[int]:
    """Bytes that a module hashes from now on."""
    counted: list[int] = []
    to_bytes = module.to_bytes

    def count(array: np.ndarray) -> memoryview:
        counted.append(array.nbytes)
        return to_bytes(array)

    monkeypatch.setattr(module, "to_bytes", count)
    return counted


def test_each_array_of_a_vault_is_verified_once(
    log: Dataset, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    total = sum(array.nbytes for array in log.arrays().values())
    counted = count_bytes(monkeypatch, vault_view)
    found = VaultView(folder)
    for start in (30, 10, 50, 0, 20):
        found.read(start, start + 9)
        found.read_final(start // 10, start // 10 + 1)
    assert sum(counted) == total
    assert_same(found, log)
    assert sum(counted) == total
    counted.clear()
    found = VaultView(folder)
    validate(found)
    found.verify()  # reading in order has done that
    assert sum(counted) == total


def test_data_are_hashed_once_however_often_they_are_described(
    log: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    total = sum(array.nbytes for array in log.arrays().values())
    counted = count_bytes(monkeypatch, datasets)
    first = log.fingerprint()
    assert sum(counted) == total
    assert view.fingerprint(log) == log.fingerprint() == first
    assert stats.describe(log)["fingerprint"] == explore(log)["fingerprint"] == first
    assert stats.describe(log, "known before")["fingerprint"] == "known before"
    assert sum(counted) == total


def test_what_was_hashed_cannot_be_altered(build_dataset: Callable[..., Dataset]) -> None:
    rewards = np.ones((7, 2), np.float32)
    log = build_dataset(rewards=rewards)
    log.rewards[0] = 2
    first = log.fingerprint()
    with pytest.raises(ValueError, match="read-only"):
        log.rewards[0] = 3
    other = replace(log, rewards=rewards + 1)
    assert other.fingerprint() != first
    rewards[0] = 3  # it belongs to whoever made it
    assert replace(log).fingerprint() != first


def test_statistics_of_a_vault_are_those_of_the_dataset(
    log: Dataset, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = explore(log)
    for most_values in (2**20, 30):
        monkeypatch.setattr(view, "MOST_VALUES", most_values)
        for source in (log, VaultView(folder)):
            found = explore(source)
            for name in ("mean", "std"):
                approximate = pytest.approx(expected["features"][name], rel=1e-12)
                assert found["features"].pop(name) == approximate
            assert found["entropy"].pop("choice") == pytest.approx(expected["entropy"]["choice"])
            assert found == {
                **expected,
                "features": {key: expected["features"][key] for key in ("low", "high")},
                "entropy": {key: expected["entropy"][key] for key in ("bits", "most")},
            }
