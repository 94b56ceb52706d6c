"""Keeps what a finished online run has reached: `python benchmarks/keep_expert.py RUN`.

Its last policy becomes that of the recipes (src/oryx_marl/recipes/kept/), its scores, curve and
settings a record in results/online/, both named after the environment.
"""

import argparse
import json
from pathlib import Path

import jax
import numpy as np

from oryx_marl import experiment
from oryx_marl.envs import base
from oryx_marl.recipes._policies import KEPT
from oryx_marl.report import again
from oryx_marl.train import policy_file
from oryx_marl.train.run import Run

RECORDS = Path(__file__).parent.parent / "results" / "online"


def keep(run: Path, commit: str) -> Path:
    """Writes both files and returns the record's."""
    loaded, files = experiment.load(run), Run(run)
    env = base.make(loaded.spec)
    steps = loaded.config["steps_per_update"]
    weights = jax.tree.map(lambda x: x[0], loaded.algorithm.weights(loaded.state.learners))
    about = {"seed": loaded.config["seeds"][0], "steps": loaded.update * steps}
    name = loaded.config["algorithm"]
    policy_file.save(KEPT / f"{env.name}.npz", name, loaded.algorithm, weights, about)
    record = {
        "environment": env.name,
        "command": again.command(loaded.config),
        "commit": commit,
        **loaded.config,
        "seconds": list(files.rows("metrics.jsonl"))[-1]["seconds"],
        "scores": files.read("summary.json"),
        "curve": [
            [row["update"] * steps, float(np.mean(row["returns"]))]
            for row in files.rows("evaluations.jsonl")
        ],
    }
    RECORDS.mkdir(parents=True, exist_ok=True)
    path = RECORDS / f"{env.name}.json"
    path.write_text(json.dumps(record, indent=1) + "\n")
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--commit", required=True, help="of the code that trained it")
    given = parser.parse_args()
    print(keep(given.run, given.commit))


if __name__ == "__main__":
    main()
