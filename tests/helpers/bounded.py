"""`bounded.py write FOLDER` makes a large log, `check FOLDER` tells what checking it took."""

import json
import os
import resource
import sys
from pathlib import Path

import numpy as np

from oryx_marl.data import vault
from oryx_marl.data.dataset import Dataset
from oryx_marl.data.quality.validate import validate
from oryx_marl.data.vault_view import VaultView
from oryx_marl.types import ActionSpace, Spec

PARTS = int(os.environ.get("PARTS", "16"))
EPISODES, LENGTH, AGENTS, WIDTH = 160, 50, 4, 100


def build_part(number: int) -> Dataset:
    rng = np.random.default_rng(number)
    num_rows = EPISODES * LENGTH
    observations = rng.integers(0, 255, (num_rows, AGENTS, WIDTH)).astype(np.float32)
    if number == PARTS - 1:
        observations[-1, 2, 7] = np.nan
    ends = np.zeros((num_rows, AGENTS), bool)
    ends[LENGTH - 1 :: LENGTH] = True
    return Dataset(
        spec=Spec("", tuple("abcd"), (WIDTH,) * AGENTS, ActionSpace("discrete", 5)),
        observations=observations,
        actions=rng.integers(0, 5, (num_rows, AGENTS)).astype(np.int32),
        rewards=np.ones((num_rows, AGENTS), np.float32),
        terminals=np.zeros_like(ends),
        truncations=ends,
        episode_starts=np.arange(0, num_rows, LENGTH),
        name="large",
    )


def peak() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def write(folder: Path) -> None:
    vault.write_parts((build_part(number) for number in range(PARTS)), folder, 1)


def check(folder: Path) -> None:
    validate(build_part(0))  # what is needed anyway
    before = peak()
    source = VaultView(folder)
    found = validate(source)
    told = {
        "logged": source.num_rows * AGENTS * WIDTH * 4,
        "kinds": {f.kind: f.count for f in found if f.severity != "note"},
        "before": before,
        "grown": peak() - before,
    }
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    {"write": write, "check": check}[sys.argv[1]](Path(sys.argv[2]))
