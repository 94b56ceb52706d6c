"""A small Vault with the shapes and quirks of each of OG-MARL's 84 datasets is imported."""

from functools import partial
from pathlib import Path

import jax
import numpy as np
import pytest
from foreign_files import LENGTH, PUBLISHED, ROWS, build_tree, shape, write_as_flashbax

from oryx_marl import registry
from oryx_marl.data import catalog, vault, view
from oryx_marl.data.dataset import Dataset
from oryx_marl.data.quality import screen as check
from oryx_marl.data.sampler import put_on_device, sample_windows
from oryx_marl.data.sources import base
from oryx_marl.data.vault_view import VaultView


@partial(jax.jit, static_argnums=2)
def sample(data, key, length):
    return sample_windows(data, key, 3, length)


def import_one(number: int, folder: Path) -> Dataset:
    about = PUBLISHED[number]
    name = f"{about['scenario']}-{about['source']}/{about['dataset']}"
    place = folder / "there" / f"{about['scenario']}.vlt" / about["dataset"]
    source = write_as_flashbax(build_tree(about, number), place)
    stored = vault.write_parts(base.read(source, name), catalog.new_folder(name, folder))
    return vault.read(stored)


@pytest.mark.parametrize("number", range(len(PUBLISHED)))
def test_every_dataset_is_imported_and_sampled(number: int, tmp_path: Path) -> None:
    about = PUBLISHED[number]
    tree, dataset = build_tree(about, number), import_one(number, tmp_path)
    spec, agents = dataset.spec, int(about["num_agents"])
    assert spec.num_agents == agents
    assert spec.observation_size == int(about["obs_dim"])
    assert spec.state_size == np.prod(shape(about["state_shape"]))
    assert dataset.episode_lengths.tolist() == [LENGTH] * 4
    assert not check.find_problems(dataset)
    observations = tree["observations."]
    has_padding = np.isneginf(observations).any()
    assert len(set(spec.observation_sizes)) == 1 + has_padding
    np.testing.assert_array_equal(
        dataset.observations, np.where(np.isneginf(observations), 0, observations)
    )
    assert dataset.terminals[:, 0].sum() == dataset.truncations[:, 0].sum() == 2
    if about["action_space"] == "Discrete":
        assert spec.action.size == shape(about["legals_shape"])[-1]
        assert dataset.actions.shape == (ROWS, agents)
        np.testing.assert_array_equal(dataset.action_mask, tree["infos.legals."] != 0)
    else:
        assert (spec.action.kind, dataset.action_mask) == ("box", None)
        np.testing.assert_array_equal(dataset.actions, tree["actions."])
    assert dataset.state is not None
    np.testing.assert_array_equal(dataset.state, tree["infos.state."].reshape(ROWS, -1))
    window = sample(put_on_device(dataset), jax.random.key(number), 5)
    assert window.observation.features.shape == (3, 5, agents, spec.observation_size)
    assert np.isfinite(window.observation.features).all()


def test_there_are_84() -> None:
    names = {(row["source"], row["env"], row["scenario"], row["dataset"]) for row in PUBLISHED}
    assert len(names) == len(PUBLISHED) == 84


STRUCTURES = {
    (row["env"][:5], row["action_space"], row["actions_shape"].endswith("x1")): number
    for number, row in reversed(list(enumerate(PUBLISHED)))
    if row["action_space"] == "Discrete"
}
"""One dataset of each structure that the algorithms learn from so far: with discrete actions."""


@pytest.mark.parametrize("number", STRUCTURES.values(), ids=map(str, STRUCTURES))
@pytest.mark.parametrize("name", ["bc", pytest.param("oryx", marks=pytest.mark.slow)])
def test_one_update_of_each_structure(name: str, number: int, tmp_path: Path) -> None:
    dataset = import_one(number, tmp_path)
    module = registry.load("algorithms", name)
    config = module.Config(batch_size=3, sequence_length=5)
    algorithm = module.make(config, dataset.spec)
    window = sample(put_on_device(dataset), jax.random.key(0), 5)
    state = jax.jit(algorithm.init)(jax.random.key(1))
    after, metrics = jax.jit(algorithm.update)(state, window, jax.random.key(2))
    assert all(np.isfinite(value).all() for value in metrics.values())
    before, now = (jax.tree.leaves(algorithm.weights(one)) for one in (state, after))
    assert any((np.asarray(a) != np.asarray(b)).any() for a, b in zip(before, now, strict=True))


def test_parts_are_whole_episodes_and_together_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_as_flashbax(build_tree(PUBLISHED[0], 0), tmp_path / "a.vlt" / "b")
    monkeypatch.setattr(view, "MOST_ROWS", 6)
    parts = list(view.parts(VaultView(folder)))
    assert [part.num_rows for part in parts] == [LENGTH] * 4
    assert all(part.episode_starts[0] == 0 for part in parts)
    again = vault.read(vault.write_parts(parts, tmp_path / "again"))
    whole = vault.read(folder)
    for name, array in whole.arrays().items():
        np.testing.assert_array_equal(again.arrays()[name], array, err_msg=name)
    assert again.spec == whole.spec
