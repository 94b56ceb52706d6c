"""Warehouses a second, ours beside rware's own: `python benchmarks/rware_speed.py [NAME ...]`.

Random actions in 1,024 of ours side by side (wall time, the median of five), and in one of rware's
in one process (processor time, so that other programs do not slow it down). Writes
results/speed/rware-<device>.json, one row per warehouse.
"""

import argparse
import json
import time
from pathlib import Path
from statistics import median
from typing import Any

import gymnasium
import jax
import numpy as np
import rware  # noqa: F401  (registers its warehouses)

from oryx_marl.envs import _rware_scenarios, base
from oryx_marl.envs.base import Env
from oryx_marl.eval.uniform import uniform_policy
from oryx_marl.provenance import find_commit
from oryx_marl.rollout.collect import begin, collect

RESULTS = Path(__file__).parent.parent / "results" / "speed"
NAMES = (*_rware_scenarios.PAPER, "rware-small-19ag", "rware-4x9x8-100ag")
"""The last one is too large for a name of rware's."""
STEPS = 64
REPEATS = 5
THEIR_SECONDS = 2.0


def measure_ours(env: Env, num_envs: int) -> float:
    """Steps of one environment per second, with resets, of random roll-outs."""
    policy = uniform_policy(env.spec)
    actors = jax.jit(lambda key: begin(env, policy, key, num_envs))(jax.random.key(0))
    play = jax.jit(lambda actors, key: collect(env, policy, actors, key, STEPS)[0])
    times = []
    for index in range(1 + REPEATS):
        began = time.perf_counter()
        actors = jax.block_until_ready(play(actors, jax.random.key(index)))
        times.append(time.perf_counter() - began)
    return num_envs * STEPS / median(times[1:])


def measure_theirs(name: str) -> float:
    """The same of rware's, in one process."""
    env: Any = gymnasium.make(f"{name}-v2").unwrapped
    env.reset(seed=0)
    actions = np.random.default_rng(0).integers(5, size=(500, env.n_agents)).tolist()
    began, steps = time.process_time(), 0
    while time.process_time() - began < THEIR_SECONDS:
        for joint in actions:
            env.step(joint)
        env.reset()
        steps += len(actions)
    return steps / (time.process_time() - began)


def measure(name: str, num_envs: int) -> dict[str, Any]:
    """Both, and how many times as fast ours are; rware has no names of more than 19 agents."""
    env = base.require_jax(base.make_named(name), "this benchmark")
    ours = measure_ours(env, num_envs)
    row = {"name": name, "num_envs": num_envs, "steps_per_second": round(ours)}
    if env.spec.num_agents <= 19:
        theirs = measure_theirs(name)
        row |= {"rware_steps_per_second": round(theirs), "ratio": round(ours / theirs, 1)}
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("names", nargs="*", default=list(NAMES))
    parser.add_argument("--envs", type=int, default=1024)
    given = parser.parse_args()
    rows = []
    for name in given.names:
        rows.append(measure(name, given.envs))
        print(*(f"{key}={value}" for key, value in rows[-1].items()), flush=True)
    device = jax.devices()[0].device_kind
    about = {
        "command": f"python benchmarks/rware_speed.py {' '.join(given.names)} --envs {given.envs}",
        "commit": find_commit(),
        "device": device,
        "jax": jax.__version__,
        "rows": rows,
    }
    path = RESULTS / f"rware-{device.lower().replace(' ', '-')}.json"
    path.write_text(json.dumps(about, indent=1) + "\n")
    print(path)


if __name__ == "__main__":
    main()
