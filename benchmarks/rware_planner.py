"""What the hand-written team of RWARE delivers: `python benchmarks/rware_planner.py [NAME ...]`.

Beside it the mean returns of the published datasets, which are counted as `agent0_return` is.
Writes results/rware_planner.json, one entry per warehouse.
"""

import argparse
import json
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from oryx_marl.bench import published
from oryx_marl.envs import _rware_scenarios as scenarios
from oryx_marl.envs.rware import Rware
from oryx_marl.provenance import find_commit
from oryx_marl.recipes import _rware_planner
from oryx_marl.recipes.rware import NOISE
from oryx_marl.rollout import episodes
from oryx_marl.rollout.episodes import Episodes

RESULTS = Path(__file__).parent.parent / "results" / "rware_planner.json"
SEED = 0


@partial(jax.jit, static_argnums=(0, 1))
def _play(env: Rware, count: int, key: jax.Array) -> Episodes:
    policy = _rware_planner.make_policy(env.spec.num_agents, NOISE)
    return episodes.play(_rware_planner.Planned(env), policy, key, count)


def measure(name: str, count: int) -> dict[str, Any]:
    """Means with their standard errors."""
    env = Rware(**(scenarios.find_scenario(name) or {}))
    found = jax.device_get(_play(env, count, jax.random.key(SEED)))
    row: dict[str, Any] = {"episodes": count, "seed": SEED}
    for metric in ("deliveries", "agent0_return"):
        values = np.asarray(found.metrics[metric], np.float64)
        row[metric] = round(float(values.mean()), 3)
        row[f"{metric}_standard_error"] = round(float(values.std(ddof=1) / np.sqrt(count)), 3)
    if name in scenarios.PAPER:
        scenario = name.removeprefix("rware-").removesuffix("-easy")
        row["published_data"] = published.datasets("rware", scenario=scenario)[0].mean_return
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("names", nargs="*", default=list(scenarios.PAPER))
    parser.add_argument("--episodes", type=int, default=128)
    given = parser.parse_args()
    scores = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    commit = find_commit()  # before the results change
    for name in given.names:
        about = {
            "command": f"python benchmarks/rware_planner.py {name} --episodes {given.episodes}",
            "commit": commit,
            "device": jax.devices()[0].device_kind,
            "jax": jax.__version__,
        }
        scores[name] = {**measure(name, given.episodes), **about}
        RESULTS.write_text(json.dumps(scores, indent=1) + "\n")
        print(name, *(f"{key}={value}" for key, value in scores[name].items()), flush=True)


if __name__ == "__main__":
    main()
