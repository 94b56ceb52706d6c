"""Robots a second beside gymnasium-robotics': `python benchmarks/mamujoco_speed.py [NAME ...]`.

Random torques, resets included, in steps of the environment per second of processor time of all
threads (`time.process_time`), so that other programs on the machine do not change them: on idle
processors wall time is that divided by the threads. Ours are `--envs` side by side; theirs one
`parallel_env` in one process. Beside them is MuJoCo's own rate, the most that either can reach.
With `--policy` an untrained Oryx acts, in wall time: what an evaluation sees. Writes
results/speed/mamujoco-cpu.json, one row per task.
"""

import argparse
import json
import os
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import jax
import mujoco
import numpy as np

from oryx_marl.algorithms import oryx
from oryx_marl.algorithms._making import make_algorithm
from oryx_marl.envs import mamujoco
from oryx_marl.envs._mamujoco_scenarios import find_scenario
from oryx_marl.provenance import find_commit
from oryx_marl.rollout import host

RESULTS = Path(__file__).parent.parent / "results" / "speed" / "mamujoco-cpu.json"
NAMES = (
    "mamujoco-halfcheetah-6x1",
    "mamujoco-halfcheetah-2x3",
    "mamujoco-hopper-3x1",
    "mamujoco-ant-2x4",
)
TITLES = {"halfcheetah": "HalfCheetah", "hopper": "Hopper", "ant": "Ant"}
SECONDS, REPEATS = 1.0, 5
"""Of processor time, in turn, after a second to warm up."""
Play = Callable[[float], float]
"""Plays for so many seconds of processor time; steps per second of it."""


def play_ours(config: dict[str, Any], num_envs: int, threads: int) -> Play:
    """Whole Steps with observations, and resets."""
    env = mamujoco.make(**config, num_envs=num_envs, num_workers=threads)
    rng, seed = np.random.default_rng(0), num_envs
    shape = (num_envs, env.spec.num_agents, env.spec.action.size)
    actions = rng.uniform(-1, 1, (16, *shape)).astype(np.float32)
    env.reset(np.arange(num_envs), np.arange(num_envs))

    def play(seconds: float) -> float:
        nonlocal seed
        began, steps = time.process_time(), 0
        while time.process_time() - began < seconds:
            step = env.step(actions[steps % 16])
            ended = np.flatnonzero((step.terminal | step.truncated).all(axis=1))
            if len(ended):
                env.reset(ended, seed + np.arange(len(ended)))
                seed += len(ended)
            steps += 1
        return steps * num_envs / (time.process_time() - began)

    return play


def play_physics(config: dict[str, Any], num_envs: int) -> Play:
    """MuJoCo's own steps alone, on one thread: what no environment on it can be faster than."""
    env = mamujoco.make(**config, num_envs=num_envs, num_workers=1)
    engine, everyone = env.engine, np.arange(num_envs)
    env.reset(everyone, everyone)
    controls = np.random.default_rng(0).uniform(-1, 1, (16, num_envs, engine.model.nu))

    def play(seconds: float) -> float:
        began, steps = time.process_time(), 0
        while time.process_time() - began < seconds:
            engine.step(everyone, controls[steps % 16], env.robot.frame_skip)
            steps += 1
            if steps % 20 == 0:  # before most robots have fallen
                env.reset(everyone, everyone)
        return steps * num_envs / (time.process_time() - began)

    return play


def play_theirs(config: dict[str, Any]) -> Play:
    """The same of gymnasium-robotics, in one process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from gymnasium_robotics import mamujoco_v1
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:  # MuJoCo logs into the working directory
        os.chdir(folder)
        env: Any = mamujoco_v1.parallel_env(TITLES[config["robot"]], config["agents"])
        os.chdir(here)
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    size = env.action_space("agent_0").shape[0]
    joint = [
        {name: rng.uniform(-1, 1, size).astype(np.float32) for name in env.possible_agents}
        for _ in range(256)
    ]

    def play(seconds: float) -> float:
        began, steps = time.process_time(), 0
        while time.process_time() - began < seconds:
            _, _, terminal, truncated, _ = env.step(joint[steps % 256])
            if terminal["agent_0"] or truncated["agent_0"]:
                env.reset()
            steps += 1
        return steps / (time.process_time() - began)

    return play


def measure_policy(config: dict[str, Any], num_envs: int) -> float:
    """Steps per second of wall time with an untrained policy."""
    env = mamujoco.make(**config, num_envs=num_envs)
    algorithm = make_algorithm("oryx", oryx.Config(), env.spec)
    weights = algorithm.weights(algorithm.init(jax.random.key(0)))
    policy = host.compile_policy(algorithm, weights)
    steps = host.walk(env, policy, jax.random.key(1), 100 * num_envs)
    began, count = 0.0, 0
    for number, _ in enumerate(steps):
        if number == 10:  # compiled
            began = time.perf_counter()
        count = max(0, number - 10)
        if number > 10 and time.perf_counter() - began > 2 * SECONDS:
            break
    env.close()
    return count * num_envs / (time.perf_counter() - began)


def measure(name: str, given: argparse.Namespace) -> dict[str, Any]:
    """Both in turn, the median of each, and how many times as fast ours are."""
    config = find_scenario(name)
    assert config is not None
    plays = {"theirs": play_theirs(config)}
    plays |= {"physics": play_physics(config, given.envs)}
    plays |= {str(count): play_ours(config, given.envs, count) for count in given.threads}
    for play in plays.values():
        play(1.0)
    told = [{which: play(SECONDS) for which, play in plays.items()} for _ in range(REPEATS)]
    rates = {which: median(each[which] for each in told) for which in plays}
    row: dict[str, Any] = {"name": name, "num_envs": given.envs}
    row["gymnasium_robotics_steps_per_cpu_second"] = round(rates.pop("theirs"))
    row["physics_alone_steps_per_cpu_second"] = round(rates.pop("physics"))
    for threads, rate in rates.items():
        row[f"steps_per_cpu_second_{threads}_threads"] = round(rate)
        ratios = [each[threads] / each["theirs"] for each in told]
        row[f"ratio_{threads}_threads"] = round(median(ratios), 2)
        row[f"ratios_{threads}_threads"] = [round(ratio, 2) for ratio in ratios]
    if given.policy:
        row["steps_per_wall_second_with_policy"] = round(measure_policy(config, given.envs))
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("names", nargs="*", default=list(NAMES))
    parser.add_argument("--envs", type=int, default=256)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--policy", action="store_true")
    given = parser.parse_args()
    commit = find_commit()  # that of what is measured
    rows = []
    for name in given.names:
        rows.append(measure(name, given))
        print(*(f"{key}={value}" for key, value in rows[-1].items()), flush=True)
    options = f"--envs {given.envs} --threads {' '.join(map(str, given.threads))}"
    words = [*given.names, options, *(["--policy"] if given.policy else [])]
    about = {
        "command": f"python benchmarks/mamujoco_speed.py {' '.join(words)}",
        "commit": commit,
        "device": "cpu",
        "cores": os.cpu_count(),
        "time": "processor time of all threads, but for the policy's",
        "mujoco": mujoco.__version__,
        "rows": rows,
    }
    RESULTS.write_text(json.dumps(about, indent=1) + "\n")
    print(RESULTS)


if __name__ == "__main__":
    main()
