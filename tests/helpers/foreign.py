"""Vaults as OG-MARL has them: no Spec, no hashes, no episode starts."""

import json
from pathlib import Path

from oryx_marl.data import vault
from oryx_marl.data._store import Store
from oryx_marl.data.dataset import Dataset


def write_foreign(dataset: Dataset, folder: Path) -> Path:
    """Stores what flashbax knows of a dataset, under its names."""
    folder.mkdir(parents=True)
    store = Store(folder)
    shapes: dict = {}
    for name, array in dataset.arrays().items():
        if name in vault.SHARED_NAMES:
            handle, _ = store.create(vault.SHARED_NAMES[name], array, 3)
            store.write(handle, 0, array)
            *parents, leaf = vault.SHARED_NAMES[name].rstrip(".").split(".")
            place = shapes
            for parent in parents:
                place = place.setdefault(parent, {})
            place[leaf] = str((1, *array.shape))
    store.write_index(dataset.num_rows)
    store.commit()
    (folder / "metadata.json").write_text(json.dumps({"version": 1.2, "structure_shape": shapes}))
    return folder
