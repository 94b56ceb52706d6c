"""Mistakes in every ten steps of anti-coordination: `python benchmarks/mistakes.py RUN ...`.

Runs are those of `oryx bench memory`, or any others on that task. Writes results/mistakes.json, one
entry per run: the share of steps in which both agents did the same, by ten steps, of every seed.
"""

import argparse
import json
from functools import partial
from pathlib import Path

import jax
import numpy as np

from oryx_marl.algorithms.base import Algorithm
from oryx_marl.envs import base
from oryx_marl.envs.anticoordination import mistakes_by_ten
from oryx_marl.envs.base import Env, require_jax
from oryx_marl.provenance import find_commit
from oryx_marl.rollout import episodes
from oryx_marl.runs.folder import load_policy

RESULTS = Path(__file__).parent.parent / "results" / "mistakes.json"
STREAM = 1_000_000_004
"""Of random numbers, apart from those of training and evaluation."""


@partial(jax.jit, static_argnums=(0, 1, 2))
def _play(algorithm: Algorithm, env: Env, count: int, weights: object, key: jax.Array) -> jax.Array:
    return episodes.record_trajectories(env, algorithm.policy(weights), key, count).actions


def measure(folder: Path, count: int) -> dict[str, object]:
    """Sampled play of the last weights of a run."""
    policy = load_policy(folder, "last")
    env = require_jax(base.make(policy.spec), "this script")
    by_seed = []
    for seed in policy.seeds:
        key = jax.random.fold_in(jax.random.key(seed), STREAM)
        weights = jax.tree.map(jax.numpy.asarray, policy.weights_of(seed))
        actions = _play(policy.algorithm, env, count, weights, key)
        by_seed.append(mistakes_by_ten(np.asarray(actions).swapaxes(0, 1)))
    found = np.array(by_seed)
    return {
        "environment": env.name,
        "seeds": list(policy.seeds),
        "episodes": count,
        "mean_by_ten": found.mean(axis=0).round(5).tolist(),
        "worst_ten": round(float(found.mean(axis=0).max()), 5),
        "worst_ten_of_a_seed": round(float(found.max()), 5),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--episodes", type=int, default=500)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    about = {"commit": find_commit(), "device": jax.devices()[0].device_kind}
    about["command"] = f"python benchmarks/mistakes.py RUN --episodes {given.episodes}"
    found = json.loads(given.out.read_text()) if given.out.exists() else {}
    for run in given.runs:
        name = "/".join(run.parts[-3:])
        found[name] = {**measure(run, given.episodes), **about}
        print(name, found[name]["mean_by_ten"])
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
