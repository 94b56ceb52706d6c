"""Minari reads what we write, and we read what Minari writes."""

import json
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import h5py
import numpy as np
import pytest

from oryx_marl.data import vault
from oryx_marl.data.dataset import Dataset
from oryx_marl.data.sources import base
from oryx_marl.errors import OryxError


@pytest.fixture(scope="module")
def minari() -> ModuleType:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = pytest.importorskip("minari")
        pytest.importorskip("minari.dataset._storages.hdf5_storage")
    return module


def read(path: Path) -> Dataset:
    folder = path.parent / f"vault{len(list(path.parent.iterdir()))}"
    return vault.read(vault.write_parts(base.read(path, "a/b"), folder))


def record(minari: ModuleType, folder: Path, seen: Any, acted: Any, episodes: list) -> Path:
    """A folder that Minari wrote."""
    from minari.data_collector import EpisodeBuffer
    from minari.dataset.minari_storage import MinariStorage

    made = MinariStorage.new(folder, seen, acted, data_format="hdf5")
    made.update_episodes([EpisodeBuffer(**episode) for episode in episodes])
    return folder


@pytest.fixture
def recorded(minari: ModuleType, tmp_path: Path) -> Path:
    """Two agents with unequal observations and numbers of actions, two episodes."""
    from gymnasium import spaces

    seen = spaces.Dict(
        {"tall": spaces.Box(-1, 1, (3,)), "small": spaces.Box(-1, 1, (2,), dtype=np.float32)}
    )
    acted = spaces.Dict({"tall": spaces.Discrete(3, start=1), "small": spaces.Discrete(2)})
    episodes = [
        {
            "observations": {
                "tall": np.full((steps + 1, 3), steps, np.float32),
                "small": np.arange(2 * steps + 2, dtype=np.float32).reshape(-1, 2),
            },
            "actions": {"tall": np.full(steps, 3), "small": np.ones(steps, np.int64)},
            "rewards": np.arange(steps, dtype=np.float64),
            "terminations": np.arange(steps) == (steps - 1 if steps == 2 else -1),
            "truncations": np.arange(steps) == (steps - 1 if steps == 3 else -1),
        }
        for steps in (2, 3)
    ]
    return record(minari, tmp_path / "made", seen, acted, episodes)


def test_we_read_minari(recorded: Path) -> None:
    dataset = read(recorded)
    names, sizes = dataset.spec.agents, dataset.spec.observation_sizes
    assert dict(zip(names, sizes, strict=True)) == {"tall": 3, "small": 2}
    tall, small = names.index("tall"), names.index("small")
    assert dataset.spec.action.size == 3
    assert dataset.episode_starts.tolist() == [0, 2]
    assert dataset.actions[:, tall].tolist() == [2] * 5  # counted from 0
    assert dataset.actions[:, small].tolist() == [1] * 5
    assert dataset.action_mask is not None
    assert dataset.action_mask[0, small].tolist() == [True, True, False]
    assert dataset.action_mask[0, tall].all()
    assert dataset.observations[1, small].tolist() == [2, 3, 0]
    assert dataset.final_observations is not None
    assert dataset.final_observations[0, small].tolist() == [4, 5, 0]
    assert dataset.rewards[:, small].tolist() == [0, 1, 0, 1, 2]
    assert dataset.spec.shared_reward
    assert dataset.terminals[:, 0].tolist() == [False, True, False, False, False]
    assert dataset.truncations[:, 0].tolist() == [False, False, False, False, True]


def test_masks_in_the_observation_and_one_agent(minari: ModuleType, tmp_path: Path) -> None:
    from gymnasium import spaces

    inner = spaces.Dict(
        {"observation": spaces.Box(0, 1, (2, 2)), "action_mask": spaces.MultiBinary(2)}
    )
    mask = np.array([[1, 0], [1, 1]], np.int8)
    ends = np.array([True])
    episode = {
        "observations": {"a": {"observation": np.ones((2, 2, 2), np.float32), "action_mask": mask}},
        "actions": {"a": np.zeros(1, np.int64)},
        "rewards": np.ones(1),
        "terminations": ends,
        "truncations": ~ends,
    }
    acted = spaces.Dict({"a": spaces.Discrete(2)})
    path = record(minari, tmp_path / "masked", spaces.Dict({"a": inner}), acted, [episode])
    dataset = read(path)
    assert dataset.spec.observation_sizes == (4,)
    assert dataset.action_mask is not None
    assert dataset.action_mask.tolist() == [[[True, False]]]
    alone = {
        **episode,
        "observations": np.ones((2, 3), np.float32),
        "actions": np.full((1, 2), 0.5, np.float32),
    }
    spaces_ = (spaces.Box(0, 1, (3,)), spaces.Box(-2, 2, (2,)))
    dataset = read(record(minari, tmp_path / "alone", *spaces_, [alone]))
    assert dataset.spec.agents == ("agent_0",)
    assert dataset.spec.action.low == (-2.0, -2.0)


def test_minari_reads_ours(minari: ModuleType, full_dataset: Dataset, tmp_path: Path) -> None:
    path = base.write([full_dataset], tmp_path / "made", "minari")
    opened = minari.MinariDataset(path)
    assert opened.total_episodes == 3
    assert opened.total_steps == 7
    assert opened.observation_space["left"].shape == (3,)
    assert opened.action_space["right"].n == 3
    first, second, _ = opened.iterate_episodes()
    np.testing.assert_array_equal(first.observations["left"][:3], full_dataset.observations[:3, 0])
    assert full_dataset.final_observations is not None
    np.testing.assert_array_equal(
        first.observations["right"][3], full_dataset.final_observations[0, 1]
    )
    np.testing.assert_array_equal(second.actions["right"], full_dataset.actions[3:5, 1])
    np.testing.assert_array_equal(second.infos["rewards"], full_dataset.rewards[3:5])
    assert first.terminations.tolist() == [False, False, True]


def test_flags_that_are_neither_true_nor_false(full_dataset: Dataset, tmp_path: Path) -> None:
    path = base.write([full_dataset], tmp_path / "made", "minari")
    with h5py.File(path / "main_data.hdf5", "a") as file:
        odd = np.full((3, 2), 255, np.uint8).view(bool)
        del file["episode_0/infos/present"]
        file["episode_0/infos/present"] = odd
    dataset = read(path)
    assert dataset.agent_mask is not None
    assert dataset.agent_mask[:3].view(np.uint8).tolist() == [[1, 1]] * 3


def test_what_is_not_understood_is_named(recorded: Path) -> None:
    about = json.loads((recorded / "metadata.json").read_text())

    def with_metadata(**changes: Any) -> None:
        (recorded / "metadata.json").write_text(json.dumps({**about, **changes}))

    with_metadata(data_format="arrow")
    with pytest.raises(OryxError, match="format 'arrow' is not read; only hdf5"):
        read(recorded)
    with_metadata(action_space=json.dumps({"type": "Dict", "subspaces": {}}))
    with pytest.raises(OryxError, match="Dict spaces with the same agents"):
        read(recorded)
    odd = {"type": "Dict", "subspaces": {"tall": {"type": "Text"}, "small": {"type": "Text"}}}
    with_metadata(observation_space=json.dumps(odd))
    with pytest.raises(OryxError, match="is a Text space, which is not understood"):
        read(recorded)
    with_metadata()
    with h5py.File(recorded / "main_data.hdf5", "a") as file:
        file["episode_7"] = file.pop("episode_1")
    with pytest.raises(OryxError, match="episode_1 is missing among its 2 episodes"):
        read(recorded)
