"""Arrays of PyMARL and flat ones: HDF5, npz, folders of npy."""

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from foreign_files import pymarl_batch, store
from generated import assert_same_data

from oryx_marl.data import vault
from oryx_marl.data.dataset import Dataset
from oryx_marl.data.sources import base, flat, pymarl
from oryx_marl.data.sources.base import Options
from oryx_marl.errors import OryxError

CONTAINERS = ("h5", "npz", "folder")


def read(path: Path, options: Options | None = None) -> Dataset:
    folder = path.parent / f"vault{len(list(path.parent.iterdir()))}"
    return vault.read(vault.write_parts(base.read(path, "a/b", options), folder))


@pytest.mark.parametrize("container", CONTAINERS)
def test_pymarl(container: str, tmp_path: Path) -> None:
    batch = pymarl_batch()
    path = store(batch, tmp_path, container)
    assert base.find(path) == "pymarl"
    dataset = read(path)
    assert dataset.episode_lengths.tolist() == [3, 2]
    np.testing.assert_array_equal(dataset.observations[3:], batch["obs"][1, :2])
    assert dataset.final_observations is not None
    np.testing.assert_array_equal(dataset.final_observations[0], batch["obs"][0, 3])
    np.testing.assert_array_equal(dataset.final_observations[1], batch["obs"][1, 2])
    np.testing.assert_array_equal(dataset.actions[:3], batch["actions"][0, :3, :, 0])
    np.testing.assert_array_equal(dataset.rewards[3], [batch["reward"][1, 0, 0]] * 2)
    assert dataset.spec.shared_reward
    assert (dataset.spec.action.size, dataset.spec.state_size) == (4, 5)
    # The first ends with the clock, although PyMARL's files call it terminated.
    assert dataset.terminals[:, 0].tolist() == [False, False, False, False, True]
    assert dataset.truncations[:, 0].tolist() == [False, False, True, False, False]
    assert dataset.origin["timeouts_not_terminal"] == 1


def test_the_clock_can_be_told(tmp_path: Path) -> None:
    path = store(pymarl_batch(), tmp_path, "npz")
    assert read(path, pymarl.Options(time_limit=0)).terminals[:, 0].tolist() == [0, 0, 1, 0, 1]
    assert read(path, pymarl.Options(time_limit=2)).terminals[:, 0].tolist() == [0, 0, 1, 0, 0]


def test_pymarl_without_filled_or_final_step(tmp_path: Path) -> None:
    batch = pymarl_batch()
    cut = {name: array[:, :3] for name, array in batch.items() if name != "filled"}
    cut["obs"] = batch["obs"]
    dataset = read(store(cut, tmp_path, "npz"))
    assert dataset.episode_lengths.tolist() == [3, 2]
    assert dataset.final_observations is not None
    (tmp_path / "b").mkdir()
    counted = {**batch, "filled": (np.arange(4) < [[3], [2]])[..., None]}
    dataset = read(store(counted, tmp_path / "b", "npz"))  # counts actions, nothing more
    assert dataset.episode_lengths.tolist() == [3, 2]
    assert dataset.final_observations is None


def make_folder(folder: Path, batches: dict[str, dict[str, np.ndarray]]) -> Path:
    """A folder of PyMARL's files, each with its batch."""
    folder.mkdir()
    for name, batch in batches.items():
        (folder.parent / "made").mkdir()
        made = store(batch, folder.parent / "made", name.rpartition(".")[2])
        made.rename(folder / name)
        made.parent.rmdir()
    return folder


def test_a_folder_of_parts_is_one_dataset(tmp_path: Path) -> None:
    """In their natural order; parts may be padded to different lengths."""
    long, short = pymarl_batch((3, 2), 3), pymarl_batch((2, 1, 2), 2)
    last = {**pymarl_batch((1,)), "obs": np.ones((1, 4, 2, 3), np.float32)}
    parts = {"run_10.npz": last, "run_9.h5": short, "run_1.npz": long}
    path = make_folder(tmp_path / "parts", parts)
    (path / "notes.txt").write_text("not a part")
    assert base.find(path) == "pymarl"
    dataset = read(path)
    assert dataset.episode_lengths.tolist() == [3, 2, 2, 1, 2, 1]
    np.testing.assert_array_equal(dataset.observations[5:7], short["obs"][0, :2])
    assert (dataset.observations[-1] == 1).all()
    assert dataset.origin["files"] == ["run_1.npz", "run_9.h5", "run_10.npz"]
    # The clock is that of all parts: only the first episode reaches it.
    assert dataset.truncations[:, 0].tolist() == [0, 0, 1, *[0] * 8]
    assert dataset.origin["timeouts_not_terminal"] == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"obs": np.ones((2, 4, 2, 5), np.float32)}, r"b\.npz .*observations: \(2, 5\) against"),
        ({"state": None}, r"b\.npz .*a\.npz in state: not there against \(5,\)"),
        ({"filled": (np.arange(4) < [[3], [2]])[..., None]}, "steps after the last action: 0"),
        ({"reward": np.zeros((2, 9, 1))}, r"b\.npz cannot be imported: rewards has shape"),
    ],
)
def test_parts_that_differ_are_named(change: Any, message: str, tmp_path: Path) -> None:
    other = {key: v for key, v in {**pymarl_batch(), **change}.items() if v is not None}
    path = make_folder(tmp_path / "parts", {"a.npz": pymarl_batch(), "b.npz": other})
    with pytest.raises(OryxError, match=message):
        read(path)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("filled", np.array([[1, 0, 1, 1], [1, 1, 1, 0]]), "filled has gaps"),
        ("filled", np.array([[1, 1, 1, 1], [1, 1, 0, 0]]), "do not fit: episode 1 has 2 filled"),
        ("reward", np.zeros((2, 9, 1)), r"rewards has shape \(2, 9, 1\)"),
        ("obs", np.zeros((2, 4, 6)), "episodes, steps, agents and features are needed"),
        ("filled", np.array([[1, 0, 0, 0]] * 2), "do not fit"),
    ],
)
def test_odd_batches_are_named(name: str, value: Any, message: str, tmp_path: Path) -> None:
    path = store({**pymarl_batch(), name: value}, tmp_path, "npz")
    with pytest.raises(OryxError, match=message):
        read(path)


def flat_arrays(dataset: Dataset) -> dict[str, np.ndarray]:
    return {name: array for name, array in dataset.arrays().items() if name != "episode_starts"}


@pytest.mark.parametrize("container", CONTAINERS)
def test_flat(container: str, tmp_path: Path, full_dataset: Dataset, monkeypatch) -> None:
    monkeypatch.setattr(flat, "PART_BYTES", 300)
    arrays = {**flat_arrays(full_dataset), "episode_starts": full_dataset.episode_starts}
    path = store(arrays, tmp_path, container)
    assert base.find(path) == "flat"
    parts = list(base.read(path, "a/b"))
    assert len(parts) > 1
    dataset = read(path)
    for name, array in full_dataset.arrays().items():
        np.testing.assert_array_equal(dataset.arrays()[name], array, err_msg=name)
    again = read(path)
    assert_same_data(again, dataset)


def test_flat_episodes_by_number_or_by_end(tmp_path: Path, full_dataset: Dataset) -> None:
    arrays = flat_arrays(full_dataset)
    del arrays["final_observations"]
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    by_end = read(store(arrays, tmp_path / "a", "npz"))
    assert by_end.episode_starts.tolist() == [0, 3, 5]
    numbered = {**arrays, "episode": np.array([4, 4, 4, 9, 9, 9, 9])}
    del numbered["terminals"], numbered["truncations"]
    by_number = read(store(numbered, tmp_path / "b", "npz"))
    assert by_number.episode_starts.tolist() == [0, 3]
    assert by_number.truncations[:, 0].tolist() == [0, 0, 1, 0, 0, 0, 1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"actions": None}, "it has no actions; it has"),
        ({"rewards": np.zeros(3)}, "rewards has 3 rows"),
        ({"actions": np.zeros((7, 2, 4), np.int32)}, "several discrete"),
        ({"episode_starts": np.array([1, 3])}, "must begin with 0"),
        ({"obs": np.zeros((7, 2, 3))}, "observations and obs are both there"),
        ({"rewards": np.array(["a"] * 7)}, "not a list of numbers"),
        ({"observations": np.zeros((7, 2))}, "steps, agents, features"),
    ],
)
def test_odd_flat_arrays_are_named(change: Any, message: str, tmp_path: Path, full_dataset) -> None:
    arrays = {**flat_arrays(full_dataset), "observations": full_dataset.observations, **change}
    arrays = {name: array for name, array in arrays.items() if array is not None}
    with pytest.raises(OryxError, match=message):
        read(store(arrays, tmp_path, "npz"))


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "executed",))

    arrays = {**pymarl_batch(), "obs": np.array([Evil()], object)}
    for container in ("npz", "folder"):
        path = store(arrays, tmp_path, container)
        with pytest.raises(OryxError, match="Python objects, which are never loaded"):
            read(path)
    assert not (tmp_path / "executed").exists()


def test_other_files_are_not_read(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["obs"] = np.zeros((2, 4, 2, 3))
    batch = pymarl_batch()
    batch.pop("obs")
    path = store(batch, tmp_path, "h5")
    with h5py.File(path, "a") as file:
        file["train/obs"] = h5py.ExternalLink("secret.h5", "/obs")
    with pytest.raises(OryxError, match="train/obs is a link to elsewhere"):
        read(path)
    raw = tmp_path / "raw.bin"
    raw.write_bytes(bytes(2 * 4 * 2 * 3 * 8))
    with h5py.File(path, "a") as file:
        del file["train/obs"]
        external = [(str(raw), 0, h5py.h5f.UNLIMITED)]
        file.create_dataset("train/obs", (2, 4, 2, 3), "f8", external=external)
    with pytest.raises(OryxError, match="lies in another file"):
        read(path)
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "obs.npy").symlink_to(raw)
    with pytest.raises(OryxError, match="is a link"):
        base.find(tmp_path / "log")


def test_a_bomb_is_not_unpacked(tmp_path: Path, monkeypatch) -> None:
    path = store(pymarl_batch(), tmp_path, "npz")
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 10}))
    with pytest.raises(OryxError, match="more than there is space for"):
        read(path)


def test_options_that_a_source_does_not_take_are_refused(tmp_path: Path) -> None:
    path = store(pymarl_batch(), tmp_path, "npz")
    message = "a source of kind 'pymarl' takes no reward; it takes: time_limit, action_kind"
    with pytest.raises(OryxError, match=message):
        base.make_options(base.find(path), {"reward": "gain"})
    with pytest.raises(OryxError, match=r"of kind 'pymarl', but the options are those of.*flat"):
        read(path, flat.Options())
    assert pymarl.Options(time_limit=3) == base.make_options("pymarl", {"time_limit": 3})
    for values in ({"time_limit": True}, {"time_limit": "3"}, {"action_kind": "round"}):
        with pytest.raises(OryxError, match="is not understood"):
            base.make_options("pymarl", values)


def test_the_kind_can_be_told(tmp_path: Path) -> None:
    path = store(pymarl_batch(), tmp_path, "npz")
    assert base.find(path, "flat") == "flat"
    with pytest.raises(OryxError, match="there is no kind of source 'x'"):
        base.find(path, "x")
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(OryxError, match="not of a kind that can be imported"):
        base.find(tmp_path / "notes.txt")
    assert pymarl.recognises(path)
    assert not pymarl.recognises(tmp_path / "notes.txt")
