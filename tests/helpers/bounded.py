"""`bounded.py write FOLDER` makes a large log, `check FOLDER` tells what checking it took.

`all FOLDER` does everything with it that reads it whole, after the same with a small log; when it
begins with the large one it tells how much anonymous memory it has by then.
"""

import json
import os
import re
import resource
import sys
from pathlib import Path

import numpy as np

from oryx_marl.data import _store, subsample, vault, vault_view, view
from oryx_marl.data.dataset import Dataset
from oryx_marl.data.explore import explore
from oryx_marl.data.quality.validate import validate
from oryx_marl.data.sources import base
from oryx_marl.data.split import split
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


def do_all(log: Path, made: Path) -> None:
    """Checks, describes, splits, exports and subsamples a log."""
    source = VaultView(log)
    validate(source)
    explore(source)
    view.fingerprint(split(source, 0.1, 20).train)
    base.write(view.parts(source), made / "log.parquet", "table")
    vault.write_view(source, made / "vault")
    vault.write_view(subsample.by_return(VaultView(log), 0.5, 1.0), made / "best")
    half = subsample.whole_episodes(VaultView(log), source.num_rows // 2, seed=0)
    vault.write_view(half, made / "half")


def all_of_it(folder: Path) -> None:
    # As large in comparison with this log as the real ones are with one of several GB.
    view.MOST_VALUES = 2**18
    vault_view.CACHE_BYTES = 2**23
    _store.BLOCK_BYTES = _store.COMMIT_BYTES = 2**24
    small = folder.with_name("small")
    vault.write_parts((build_part(number) for number in range(2)), small, 1)
    do_all(small, folder.with_name("made of small"))
    status = Path("/proc/self/status").read_text()
    sys.stdout.write(re.findall(r"RssAnon:\s+(\d+)", status)[0] + "\n")
    sys.stdout.flush()
    do_all(folder, folder.with_name("made of large"))


if __name__ == "__main__":
    {"write": write, "check": check, "all": all_of_it}[sys.argv[1]](Path(sys.argv[2]))
