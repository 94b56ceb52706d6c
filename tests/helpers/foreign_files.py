"""Files as other programs write them: PyMARL's batches, OG-MARL's vaults."""

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from oryx_marl.data._store import Store
from oryx_marl.data.hub import archives as hub

PUBLISHED = hub.cards()
ROWS, LENGTH = 24, 6
"""Four episodes of six steps."""


def shape(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split("x")) if text else ()


def build_tree(about: dict[str, str], seed: int) -> dict[str, np.ndarray]:
    """Arrays as OG-MARL stores them."""
    random = np.random.default_rng(seed)
    agents, width = int(about["num_agents"]), int(about["obs_dim"])
    acted, legals = shape(about["actions_shape"]), shape(about["legals_shape"])
    ends = np.zeros((ROWS, agents), np.float32)
    ends[LENGTH - 1 :: LENGTH] = 1
    is_timeout = np.arange(ROWS)[:, None] >= ROWS // 2
    observations = random.normal(size=(ROWS, agents, width)).astype(np.float32)
    if about["scenario"] in ("simple_tag", "simple_world"):  # the prey sees less
        observations[:, -1, -2:] = -np.inf
    tree = {
        "observations.": observations,
        "rewards.": np.repeat(random.normal(size=(ROWS, 1)), agents, 1).astype(np.float32),
        "terminals.": ends * ~is_timeout,
        "truncations.": ends * is_timeout,
        "infos.state.": random.normal(size=(ROWS, *shape(about["state_shape"]))).astype(np.float32),
    }
    if about["action_space"] == "Discrete":
        action_mask = random.random((ROWS, *legals)) < 0.6
        action_mask[..., 0] = True
        chosen = (random.random(action_mask.shape) * action_mask).argmax(axis=-1)
        tree["actions."] = chosen.reshape(ROWS, *acted).astype(np.int64)
        tree["infos.legals."] = action_mask.astype(np.float32)
    else:
        tree["actions."] = random.uniform(-1, 1, (ROWS, *acted)).astype(np.float32)
        if legals:
            tree["infos.legals."] = np.ones((ROWS, *legals), np.float32)
    return tree


def write_as_flashbax(tree: dict[str, np.ndarray], folder: Path) -> Path:
    """A vault without anything of ours; tests/data/test_vault_flashbax.py has real ones."""
    folder.mkdir(parents=True)
    store = Store(folder)
    shapes: dict = {}
    for name, array in tree.items():
        made, _ = store.create(name, array, 1)
        store.write(made, 0, array)
        *parents, leaf = name.rstrip(".").split(".")
        place = shapes
        for parent in parents:
            place = place.setdefault(parent, {})
        place[leaf] = str((1, *array.shape))
    store.write_index(len(tree["rewards."]))
    store.commit()
    document = {"version": 1.2, "structure_shape": shapes, "structure_dtype": {}}
    (folder / "metadata.json").write_text(json.dumps(document))
    return folder


def store(arrays: dict[str, Any], folder: Path, container: str) -> Path:
    if container == "h5":
        path = folder / "log.h5"
        with h5py.File(path, "w") as file:
            for name, array in arrays.items():
                file.create_dataset(f"train/{name}", data=array)
        return path
    if container == "npz":
        np.savez_compressed(folder / "log.npz", **arrays)
        return folder / "log.npz"
    path = folder / "log"
    path.mkdir()
    for name, array in arrays.items():
        np.save(path / f"{name}.npy", array)
    return path


def pymarl_batch(lengths: tuple[int, ...] = (3, 2), limit: int = 3) -> dict[str, np.ndarray]:
    """Episodes padded to the limit and one step more, as PyMARL's runner fills them."""
    episodes, steps = len(lengths), limit + 1
    random = np.random.default_rng(0)
    count = np.array(lengths)[:, None]
    numbers = np.arange(steps)
    return {
        "obs": random.random((episodes, steps, 2, 3), np.float32),
        "state": random.random((episodes, steps, 5), np.float32),
        "actions": random.integers(0, 4, (episodes, steps, 2, 1)),
        "avail_actions": np.ones((episodes, steps, 2, 4), np.int32),
        "reward": random.random((episodes, steps, 1), np.float32),
        "terminated": (numbers == count - 1).astype(np.uint8)[..., None],
        "filled": (numbers <= count).astype(np.int64)[..., None],
    }
