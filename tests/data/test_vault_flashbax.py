"""Vaults go both ways between us and flashbax."""

import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oryx_marl.data import vault
from oryx_marl.data._derive import derive_episode_starts
from oryx_marl.errors import OryxError


@pytest.fixture(scope="module")
def flashbax() -> ModuleType:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its dependencies warn when they are imported
        module = pytest.importorskip("flashbax")
        pytest.importorskip("flashbax.vault")
    return module


def open_with_flashbax(flashbax: ModuleType, folder: Path, structure: Any = None) -> Any:
    return flashbax.vault.Vault(
        vault_name=folder.parent.name,
        experience_structure=structure,
        rel_dir=str(folder.parent.parent),
        vault_uid=folder.name,
    )


def fill_buffer(flashbax: ModuleType, tree: dict) -> Any:
    """The state of a trajectory buffer that holds `tree`, one more row being free."""
    tree = jax.tree.map(jnp.asarray, tree)
    rows = len(tree["rewards"])
    buffer = flashbax.make_trajectory_buffer(
        add_batch_size=1,
        sample_batch_size=1,
        sample_sequence_length=1,
        period=1,
        min_length_time_axis=1,
        max_length_time_axis=rows + 1,
    )
    state = buffer.init(jax.tree.map(lambda leaf: leaf[0], tree))
    return buffer.add(state, jax.tree.map(lambda leaf: leaf[None], tree))


def to_tree(dataset: Any) -> dict:
    """OG-MARL's names."""
    names = ("observations", "actions", "rewards", "terminals", "truncations")
    infos = {"legals": dataset.action_mask, "present": dataset.agent_mask}
    return {**{name: dataset.arrays()[name] for name in names}, "infos": infos}


def test_flashbax_reads_ours(flashbax, full_dataset, tmp_path):
    folder = vault.write(full_dataset, tmp_path / "made.vlt" / "full")
    experience = open_with_flashbax(flashbax, folder).read().experience
    infos = experience.pop("infos")
    assert experience.keys() == to_tree(full_dataset).keys() - {"infos"}
    for name, array in experience.items():
        expected = full_dataset.arrays()[name]
        assert array.dtype == expected.dtype
        np.testing.assert_array_equal(array[0], expected)
    np.testing.assert_array_equal(infos["legals"][0], full_dataset.action_mask)
    np.testing.assert_array_equal(infos["present"][0], full_dataset.agent_mask)
    np.testing.assert_array_equal(infos["state"][0], full_dataset.state)


def test_flashbax_appends_to_ours(flashbax, build_dataset, tmp_path):
    dataset = build_dataset()
    folder = vault.write(dataset, tmp_path / "made.vlt" / "tiny")
    tree = to_tree(dataset)
    del tree["infos"]
    state = fill_buffer(flashbax, tree)
    store = open_with_flashbax(flashbax, folder, state.experience)
    assert store.write(state) == 7
    twice = open_with_flashbax(flashbax, folder).read().experience["observations"][0]
    np.testing.assert_array_equal(twice, np.tile(dataset.observations, (2, 1, 1)))


def test_we_read_flashbax(flashbax, full_dataset, tmp_path):
    state = fill_buffer(flashbax, to_tree(full_dataset))
    folder = tmp_path / "maze.vlt" / "Good"
    open_with_flashbax(flashbax, folder, state.experience).write(state)
    dataset = vault.read(folder)
    assert dataset.name == "maze/Good"
    assert dataset.spec.environment == ""
    assert dataset.spec.agents == ("agent_0", "agent_1")
    assert (dataset.spec.action.kind, dataset.spec.action.size) == ("discrete", 3)
    assert not dataset.spec.shared_reward
    assert dataset.episode_starts.tolist() == [0, 3, 5]
    for name, array in dataset.arrays().items():
        np.testing.assert_array_equal(array, full_dataset.arrays()[name], err_msg=name)


def test_we_read_continuous_actions_and_shared_float_flags(flashbax, build_box_dataset, tmp_path):
    made = build_box_dataset()
    tree = {
        "observations": made.observations,
        "actions": made.actions * 2,
        "rewards": np.ones((6, 2), np.float32),
        "terminals": made.terminals[:, 0].astype(np.float32),
    }
    state = fill_buffer(flashbax, tree)
    folder = tmp_path / "walk.vlt" / "Poor"
    open_with_flashbax(flashbax, folder, state.experience).write(state)
    dataset = vault.read(folder)
    assert dataset.spec.action.kind == "box"
    assert dataset.spec.action.low == (-2.0, pytest.approx(-2 + 4 / 23))
    assert dataset.spec.shared_reward
    assert dataset.episode_starts.tolist() == [0, 4]
    assert not dataset.truncations.any()


def test_we_read_the_quirks_of_og_marl(flashbax, tmp_path):
    """Ids with an axis of their own, masks as floats, -inf for what is not seen, own states."""
    random = np.random.default_rng(0)
    observations = random.normal(size=(6, 2, 4)).astype(np.float32)
    observations[:, 1, 2:] = -np.inf
    ends = np.array([0, 0, 1, 0, 0, 1], np.float32)
    state = random.normal(size=(6, 2, 3)).astype(np.float32)
    tree = {
        "observations": observations,
        "actions": np.array([0, 1, 4, 2, 3, 0] * 2, np.int32).reshape(6, 2, 1),
        "rewards": np.ones((6, 2), np.float32),
        "terminals": np.zeros((6, 2), np.float32),
        "truncations": np.repeat(ends[:, None], 2, axis=1),
        "infos": {"legals": np.ones((6, 2, 5), np.float32), "state": state},
    }
    filled = fill_buffer(flashbax, tree)
    folder = tmp_path / "tiny-2ag.vlt" / "Expert"
    open_with_flashbax(flashbax, folder, filled.experience).write(filled)
    dataset = vault.read(folder)
    assert dataset.spec.observation_sizes == (4, 2)
    assert dataset.observations[:, 1, 2:].tolist() == [[0, 0]] * 6
    np.testing.assert_array_equal(dataset.actions, tree["actions"][..., 0])
    assert (dataset.spec.action.kind, dataset.spec.action.size) == ("discrete", 5)
    assert dataset.action_mask is not None
    assert dataset.action_mask.dtype == bool
    assert dataset.episode_starts.tolist() == [0, 3]
    assert dataset.truncations[:, 0].tolist() == (ends != 0).tolist()
    np.testing.assert_array_equal(dataset.state, state.reshape(6, 6))


def test_other_trees_are_refused(flashbax, tmp_path):
    state = fill_buffer(flashbax, {"rewards": np.ones((3, 2)), "pixels": np.ones((3, 2))})
    folder = tmp_path / "other.vlt" / "one"
    open_with_flashbax(flashbax, folder, state.experience).write(state)
    with pytest.raises(OryxError, match="has no observations, actions, terminals; it has: pixels"):
        vault.read(folder)


@pytest.mark.parametrize(
    ("ended", "starts"),
    [
        ([[0, 0], [1, 1], [0, 0], [1, 1]], [0, 2]),  # shared endings
        ([[1, 0], [1, 0], [1, 1], [0, 0]], [0, 3]),  # a dead agent keeps its flag
        ([[1, 0], [0, 0], [0, 1], [0, 0]], [0, 3]),  # a dead agent is flagged once
        ([[0, 0], [0, 0]], [0]),  # never flagged
        ([[1, 1]], [0]),
    ],
)
def test_episodes_of_foreign_vaults(ended, starts):
    assert derive_episode_starts(np.array(ended, bool)).tolist() == starts
