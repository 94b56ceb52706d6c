"""Seconds and memory that a large dataset takes, operation by operation.

    python benchmarks/bounded_memory.py FOLDER --gigabytes 10
    python benchmarks/bounded_memory.py FOLDER --gigabytes 1 --agents 50 --features 100

A log is generated in FOLDER (unless it is there), then written anew, checked, described, split,
exported, subsampled and trained on, each in a process of its own. Memory is the largest anonymous
resident set (RssAnon in /proc/PID/status, so Linux only), sampled while the process runs. What the
operations write is removed again; the log, and what was unpacked to train from, are not.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from oryx_marl.data import vault
from oryx_marl.data.dataset import Dataset
from oryx_marl.types import ActionSpace, Spec

LENGTH, ACTIONS = 50, 5
PART_BYTES = 2**24
SAMPLE_SECONDS = 0.02
SPLIT = """
import sys
from pathlib import Path
from oryx_marl.data import view
from oryx_marl.data.split import split
from oryx_marl.data.vault_view import VaultView
found = split(VaultView(Path(sys.argv[1])), 0.1, 20)
print(view.fingerprint(found.train), view.fingerprint(found.validation))
"""
"""Splits a log and reads both parts whole."""


class Measured(NamedTuple):
    """What an operation took."""

    operation: str
    seconds: float
    peak: int
    """Bytes of anonymous resident memory."""


def generate(gigabytes: float, agents: int, features: int) -> Iterator[Dataset]:
    """A log of about this size, part by part."""
    spec = Spec(
        "",
        tuple(f"agent_{index}" for index in range(agents)),
        (features,) * agents,
        ActionSpace("discrete", ACTIONS),
    )
    row_bytes = agents * (4 * features + ACTIONS + 10)
    episodes = max(1, round(gigabytes * 1e9 / row_bytes / LENGTH))
    per_part = max(1, PART_BYTES // row_bytes // LENGTH)
    rng = np.random.default_rng(0)
    for first in range(0, episodes, per_part):
        count = min(per_part, episodes - first)
        rows = count * LENGTH
        ends = np.zeros((rows, agents), bool)
        ends[LENGTH - 1 :: LENGTH] = True
        # Whole numbers up to 255: they compress, as logged features do.
        observations = rng.integers(0, 256, (rows, agents, features), np.uint8)
        yield Dataset(
            spec=spec,
            observations=observations.astype(np.float32),
            actions=rng.integers(0, ACTIONS, (rows, agents), np.int32),
            rewards=np.repeat(rng.random((rows, 1), np.float32), agents, axis=1),
            terminals=ends,
            truncations=np.zeros_like(ends),
            episode_starts=np.arange(0, rows, LENGTH),
            action_mask=np.ones((rows, agents, ACTIONS), bool),
            name="large/log",
        )


def measure(operation: str, command: list[str]) -> Measured:
    """Runs a command and watches its memory."""
    begun, peak = time.monotonic(), 0
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    status = Path(f"/proc/{process.pid}/status")
    while process.poll() is None:
        for line in status.read_text().splitlines():
            if line.startswith("RssAnon"):
                peak = max(peak, 1024 * int(line.split()[1]))
        time.sleep(SAMPLE_SECONDS)
    seconds = time.monotonic() - begun
    if process.returncode not in (0, 1):  # 1: the check has found an error
        assert process.stderr is not None
        raise SystemExit(f"{operation} failed: {process.stderr.read()}")
    return Measured(operation, seconds, peak)


def operations(log: Path, made: Path) -> dict[str, list[str]]:
    """The command of each operation on a log; what it writes goes under `made`."""
    oryx = [sys.executable, "-m", "oryx_marl", "data"]
    train = [sys.executable, "-m", "oryx_marl", "train", "bc", str(log), "--stream", "--seeds", "1"]
    root = ["--root", str(made)]
    return {
        "check": [*oryx, "check", str(log)],
        "split": [sys.executable, "-c", SPLIT, str(log)],
        "info": [*oryx, "info", str(log), "--json"],
        "export to parquet": [*oryx, "export", str(log), str(made / "log.parquet")],
        "export to a vault": [*oryx, "export", str(log), str(made / "vault"), "--to", "vault"],
        "subsample by return": [
            *(*oryx, "subsample", str(log), "made/best", "--quantiles", "0.75", "1", *root)
        ],
        "subsample to half": [
            *(*oryx, "subsample", str(log), "made/half", "--rows", str(_half(log)), *root)
        ],
        "train 100 updates": [*train, "--updates", "100", "--out", str(made / "run")],
        "again, unpacked": [*train, "--updates", "100", "--out", str(made / "run")],
    }


def _half(log: Path) -> int:
    return max(1, vault.describe(log)["rows"] // 2)


def run(folder: Path, gigabytes: float, agents: int, features: int) -> list[Measured]:
    """All operations, one after another."""
    log, made = folder / "large.vlt" / "log", folder / "made"
    os.environ.setdefault("ORYX_UNPACKED", str(folder / "unpacked"))
    shape = [str(gigabytes), str(agents), str(features)]
    found = []
    if not vault.is_vault(log):
        command = [sys.executable, __file__, str(log), "--generate", *shape]
        found.append(measure("generate and write", command))
    for operation, command in operations(log, made).items():
        found.append(measure(operation, command))
        print(f"{operation}: {found[-1].seconds:.0f} s", file=sys.stderr)
        shutil.rmtree(made, ignore_errors=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gigabytes", type=float, default=10.0)
    parser.add_argument("--agents", type=int, default=4)
    parser.add_argument("--features", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--generate", nargs=3, help=argparse.SUPPRESS)
    given: Any = parser.parse_args()
    if given.generate:
        size, agents, features = given.generate
        parts = generate(float(size), int(agents), int(features))
        vault.write_parts(parts, given.folder, level=1)
        return
    found = run(given.folder, given.gigabytes, given.agents, given.features)
    if given.json:
        print(json.dumps([each._asdict() for each in found]))
        return
    print("| operation | seconds | peak RssAnon, MB |\n|---|---|---|")
    for each in found:
        print(f"| {each.operation} | {each.seconds:.0f} | {each.peak / 1e6:.0f} |")


if __name__ == "__main__":
    main()
