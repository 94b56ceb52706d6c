"""Compares all trainings with the recorded ones, bit by bit; `--write` records them anew."""

import sys

import jax
import numpy as np

jax.config.update("jax_default_matmul_precision", "highest")

import goldens  # noqa: E402

names = [word for word in sys.argv[1:] if word != "--write"]
for name in names or [*goldens.VARIANTS, *goldens.POLICIES]:
    if "--write" in sys.argv:
        goldens.FOLDER.mkdir(exist_ok=True)
        found = goldens.compute(name)
        np.savez_compressed(goldens.FOLDER / f"{name}.npz", **found)
        print(f"{name}: {len(found)} arrays, return {found['returns'].mean():.3f}")  # noqa: T201
    else:
        differing = goldens.compare(name)
        worst = max(differing.values(), default=0.0)
        print(f"{name}: {len(differing)} arrays differ, by {worst:.1e} at most", [*differing][:4])  # noqa: T201
