"""One-step errors that `oryx data check` finds: `python benchmarks/mamujoco_physics.py`.

Steps of random torques, recorded with gravity as it is and changed, then made again with the
installed MuJoCo as the check does it. Writes results/mamujoco_physics.json.
"""

import json
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from oryx_marl.data.quality.checks.simulator import find_errors
from oryx_marl.envs import find_predictor, mamujoco
from oryx_marl.provenance import find_commit

RESULTS = Path(__file__).parent.parent / "results" / "mamujoco_physics.json"
TASKS = (("halfcheetah", "6x1"), ("hopper", "3x1"), ("ant", "2x4"))
VIEWS = ("gymnasium", "omiga")
GRAVITIES = (1.0, 1.01, 0.8)
ROBOTS, STEPS = 4, 400
load_model = mamujoco.load_model


def record(robot: str, agents: str, view: str, gravity: float) -> list[tuple[np.ndarray, ...]]:
    """What was seen before, done and seen after each step, robots that fall set up again."""

    def load(file: str) -> Any:
        model = load_model(file)
        model.opt.gravity[:] *= gravity
        return model

    mamujoco.load_model = load
    env = mamujoco.make(robot, agents, view, num_envs=ROBOTS, num_workers=1)
    mamujoco.load_model = load_model
    rng, found, everyone = np.random.default_rng(0), [], np.arange(ROBOTS)
    env.reset(everyone, everyone)
    now = env.step(np.zeros((ROBOTS, env.spec.num_agents, env.spec.action.size), np.float32))
    for number in range(STEPS):
        shape = (ROBOTS, env.spec.num_agents, env.spec.action.size)
        actions = rng.uniform(-1, 1, shape).astype(np.float32)
        after = env.step(actions)
        live = ~(now.terminal | now.truncated).all(axis=1)
        seen = (now.observation.features, now.state, actions)
        later = (after.observation.features, after.state)
        found.append(tuple(np.asarray(each)[live] for each in (*seen, *later)))
        ended = np.flatnonzero((after.terminal | after.truncated).all(axis=1))
        if len(ended):
            # The step that follows a reset is played and not compared: it is seen from here on.
            env.reset(ended, ROBOTS * (1 + number) + ended)
            after = env.step(0 * actions)
        now = after
    return found


def measure(robot: str, agents: str, view: str, gravity: float) -> dict[str, Any]:
    """Median and 95% quantile of the errors."""
    predictor = find_predictor("mamujoco", {"robot": robot, "agents": agents})
    assert predictor is not None
    parts = [
        np.concatenate(part) for part in zip(*record(robot, agents, view, gravity), strict=True)
    ]
    features, state, actions, later_features, later_state = parts
    now, after = predictor.read(features, state), predictor.read(later_features, later_state)
    usable = predictor.find_usable(now)
    predicted = predictor.step(now[usable], actions[usable])
    errors = find_errors(now[usable], predicted, after[usable])
    middle, worst = np.quantile(errors, (0.5, 0.95))
    return {
        "name": f"mamujoco-{robot}-{agents}",
        "view": view,
        "gravity": gravity,
        "steps": len(errors),
        "median": float(f"{middle:.2g}"),
        "worst_twentieth": float(f"{worst:.2g}"),
    }


def main() -> None:
    rows = []
    for robot, agents in TASKS:
        for view in VIEWS:
            for gravity in GRAVITIES:
                rows.append(measure(robot, agents, view, gravity))
                print(*(f"{key}={value}" for key, value in rows[-1].items()), flush=True)
    about = {
        "command": "python benchmarks/mamujoco_physics.py",
        "commit": find_commit(),
        "device": "cpu",
        "mujoco": mujoco.__version__,
        "rows": rows,
    }
    RESULTS.write_text(json.dumps(about, indent=1) + "\n")
    print(RESULTS)


if __name__ == "__main__":
    main()
