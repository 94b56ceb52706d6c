"""How fast Oryx learns and acts: one JSON file per kind and device into results/speed/.

    python benchmarks/speed.py update      # one gradient update, from 2 to 1000 agents
    python benchmarks/speed.py acting      # one step of all agents, recurrent and autoregressive
    python benchmarks/speed.py rollouts    # whole episodes of T-Maze

Every row is measured in a process of its own, so that peaks of memory are its own too and one that
does not fit harms no other. Several compile at the same time (`--jobs`), but nothing else runs when
one is timed. `--only 2 10` chooses numbers of agents. Times are medians.
"""

import argparse
import fcntl
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from oryx_marl.algorithms import oryx
from oryx_marl.envs.tmaze import TMaze
from oryx_marl.eval.evaluator import Evaluator
from oryx_marl.provenance import find_commit
from oryx_marl.training import offline
from oryx_marl.training.loop import init_state, make_keys
from oryx_marl.types import Observation
from speed_shapes import SHAPES, Shape, count, make_data

SECONDS = 0.5
"""Of one timed call, roughly; five are timed."""
REPEATS = 5
LARGE = 500
"""Agents times seeds; rows that are larger never share the device with others."""


def measure_update(shape: Shape, seeds: int) -> dict[str, Any]:
    """Milliseconds per update of all seeds, compile time, memory."""
    algorithm, data = shape.algorithm, make_data(shape)
    numbers = list(range(seeds))
    keys, learners = make_keys(numbers), init_state(algorithm, numbers).learners
    held = sum(x.nbytes for x in jax.tree.leaves((data, learners)))

    def advance(learners: Any, updates: int) -> tuple[Any, float]:
        began = time.perf_counter()
        learners, _ = offline.run_updates(algorithm, updates, learners, keys, data, jnp.asarray(0))
        jax.block_until_ready(learners)
        return learners, time.perf_counter() - began

    usual = 4 if jax.default_backend() == "cpu" else 500  # gigabytes a second
    updates = max(4, round(SECONDS * usual / (count(shape)["gigabytes"] * seeds)))
    learners, first = advance(learners, updates)
    times = []
    with alone():
        for _ in range(REPEATS):
            learners, taken = advance(learners, updates)
            times.append(taken / updates)
    milliseconds = 1000 * median(times)
    counted = {name: value * seeds for name, value in count(shape).items()}
    return {
        **asdict(shape),
        "num_seeds": seeds,
        "ms_per_update": milliseconds,
        "spread_ms": [1000 * min(times), 1000 * max(times)],
        "seed_updates_per_second": 1000 * seeds / milliseconds,
        "compile_seconds": first - updates * median(times),
        "peak_gigabytes_beside_data": _peak(held),
        **counted,
        "gigaflop_per_second": 1000 * counted["gigaflop"] / milliseconds,
        "gigabytes_per_second": 1000 * counted["gigabytes"] / milliseconds,
    }


def _peak(held: int) -> float | None:
    stats = jax.devices()[0].memory_stats()
    return None if stats is None else (stats["peak_bytes_in_use"] - held) / 1e9


def measure_acting(shape: Shape, envs: int) -> dict[str, Any]:
    """Agent-steps per second of a sampled policy on random observations."""
    algorithm, steps, agents = shape.algorithm, 20, shape.num_agents
    weights = algorithm.weights(algorithm.init(jax.random.key(0)))
    features = jax.random.normal(jax.random.key(1), (envs, agents, shape.num_features))

    @jax.jit
    def act(weights: Any, features: jax.Array, key: jax.Array) -> jax.Array:
        policy = algorithm.policy(weights)

        def step(carry: tuple, number: jax.Array) -> tuple[tuple, jax.Array]:
            memory, features = carry
            observation = Observation(
                features,
                jnp.ones((envs, agents, shape.num_actions), bool),
                jnp.ones((envs, agents), bool),
                jnp.full(envs, number == 0),
                jnp.full(envs, number),
            )
            memory, actions, _ = policy.step(memory, observation, jax.random.fold_in(key, number))
            # What is seen next depends on what was done, as it would in an environment.
            return (memory, features + 0.01 * actions[..., None]), actions

        return jax.lax.scan(step, (policy.init(envs), features), jnp.arange(steps))[1]

    seconds, compiling = time_calls(lambda: act(weights, features, jax.random.key(2)))
    return {
        **asdict(shape),
        "num_envs": envs,
        "ms_per_step": 1000 * seconds / steps,
        "agent_steps_per_second": envs * agents * steps / seconds,
        "compile_seconds": compiling,
    }


def measure_rollouts(seeds: int, episodes: int) -> dict[str, Any]:
    """Seconds for whole episodes of T-Maze, all seeds at once."""
    env = TMaze()
    algorithm = oryx.make(oryx.Config(), env.spec)
    weights = algorithm.weights(init_state(algorithm, list(range(seeds))).learners)
    evaluator = Evaluator(algorithm, env, list(range(seeds)))
    seconds, compiling = time_calls(lambda: evaluator.evaluate(weights, 1, episodes))
    assert env.spec.episode_limit is not None
    steps = seeds * episodes * env.spec.episode_limit
    return {
        "num_seeds": seeds,
        "episodes": episodes,
        "seconds": seconds,
        "steps_per_second": steps / seconds,
        "compile_seconds": compiling,
    }


def time_calls(call: Callable[[], Any]) -> tuple[float, float]:
    """Median seconds of a call, and what the first took longer."""

    def once() -> float:
        began = time.perf_counter()
        jax.block_until_ready(call())
        return time.perf_counter() - began

    first = once()
    with alone():
        usual = median(once() for _ in range(REPEATS))
    return usual, first - usual


_lock: list[Any] = []
"""A file that all who compile hold together, and who is timed holds alone."""


@contextmanager
def alone() -> Iterator[None]:
    """Waits until nobody compiles or is timed."""
    for file in _lock:
        fcntl.flock(file, fcntl.LOCK_EX)
    yield
    for file in _lock:
        fcntl.flock(file, fcntl.LOCK_UN)


def measure_device() -> dict[str, Any]:
    """The two limits: rate of a large product, and bandwidth of a copy (read and write)."""
    on_cpu = jax.default_backend() == "cpu"
    rows, width = (12_800, 128) if on_cpu else (65_536, 4_096)
    keys = jax.random.split(jax.random.key(0), 3)
    x, w = jax.random.normal(keys[0], (rows, width)), jax.random.normal(keys[1], (width, width))
    long = jax.random.normal(keys[2], ((16 if on_cpu else 512) * 2**20,))
    multiply, add_one = jax.jit(jnp.dot), jax.jit(lambda a: a + 1)
    product, _ = time_calls(lambda: multiply(x, w))
    copy, _ = time_calls(lambda: add_one(long))
    return {
        "device": jax.devices()[0].device_kind,
        "jax": jax.__version__,
        "matmul_precision": str(jax.config.jax_default_matmul_precision or "default"),
        "product": [rows, width, width],
        "product_gigaflop_per_second": 2 * rows * width**2 / product / 1e9,
        "copy_gigabytes_per_second": 2 * long.nbytes / copy / 1e9,
    }


def exponent(rows: list[dict[str, Any]], over: str) -> float | None:
    """Slope of log time over log `over`, by least squares."""
    if len({row[over] for row in rows}) < 2:
        return None
    x = np.log([row[over] for row in rows])
    y = np.log([row["ms_per_update"] for row in rows])
    return float(np.polyfit(x, y, 1)[0])


def in_own_process(arguments: list[str], lock: str) -> dict[str, Any]:
    """What this script measures when called so; an error becomes the row's text."""
    command = [sys.executable, __file__, "one", *arguments, "--lock", lock]
    env = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", **os.environ}
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    if done.returncode:
        return {"error": done.stderr.strip().splitlines()[-1][:300]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def run(arguments: argparse.Namespace) -> None:
    """All rows of a kind, written after each."""
    kind, wanted = arguments.what, cells(arguments.what, arguments)
    with tempfile.NamedTemporaryFile() as lock, ThreadPoolExecutor(arguments.jobs) as pool:
        device = in_own_process(["device"], lock.name)
        path = arguments.out / f"{kind}-{device['device'].lower().replace(' ', '-')}.json"
        command = " ".join(["python", "benchmarks/speed.py", *sys.argv[1:]])
        record = {"command": command, "commit": find_commit(), **device}
        rows = earlier(path, record["commit"])

        def measure(cell: list[str]) -> None:
            row = in_own_process(cell, lock.name)
            for name, of in (("gigaflop", "product_gigaflop"), ("gigabytes", "copy_gigabytes")):
                if f"{name}_per_second" in row:
                    most = device[f"{of}_per_second"]
                    row[f"share_of_{of}_per_second"] = row[f"{name}_per_second"] / most
            name = " ".join(cell)
            rows[name] = {"cell": name, "command": command, **row}
            print(json.dumps(rows[name])[:400], flush=True)
            write(path, record, list(rows.values()))

        list(pool.map(measure, [cell for cell in wanted if not is_large(cell)]))
        for cell in wanted:
            if is_large(cell):
                measure(cell)


def earlier(path: Path, commit: str) -> dict[str, dict[str, Any]]:
    """Rows that the same code has measured before, by cell."""
    if not path.exists():
        return {}
    record = json.loads(path.read_text())
    return {row["cell"]: row for row in record["rows"]} if record["commit"] == commit else {}


def is_large(cell: list[str]) -> bool:
    kind, name, *rest = cell
    return kind == "update" and SHAPES[name].num_agents * int(rest[0]) > LARGE


def write(path: Path, record: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """The record with its rows, and how times grow among those of one seed."""
    growth = {}
    for precision in ("float32", "bfloat16"):
        single = [r for r in rows if r.get("num_seeds") == 1 and r.get("precision") == precision]
        many = [row for row in single if row["num_agents"] >= 50]
        ten = [row for row in single if row["num_agents"] == 10]
        growth[precision] = {
            "in_agents": exponent(many, "num_agents"),
            "in_steps": exponent(ten, "sequence_length"),
        }
    if record["command"].split()[2] == "update":
        record = {**record, "exponents": growth}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**record, "rows": rows}, indent=1))


def cells(kind: str, arguments: argparse.Namespace) -> list[list[str]]:
    """What is measured, one process each."""
    chosen = arguments.only or list(SHAPES)
    if kind == "update":
        return [
            ["update", name, str(seeds), precision]
            for precision in arguments.precision
            for name in chosen
            for seeds in arguments.seeds
        ]
    if kind == "acting":
        names = [name for name in chosen if name.isdigit()]
        return [["acting", name, str(envs)] for name in names for envs in (1, 64, 1024)]
    return [["rollouts", "10", "320"]]


def one(arguments: argparse.Namespace) -> None:
    """One row, as the last line of the output."""
    if arguments.lock:
        _lock.append(open(arguments.lock))  # noqa: SIM115, held until the end
        fcntl.flock(_lock[0], fcntl.LOCK_SH)
    kind, *rest = arguments.cell
    if kind == "device":
        row = measure_device()
    elif kind == "update":
        row = measure_update(replace(SHAPES[rest[0]], precision=rest[2]), int(rest[1]))
    elif kind == "acting":
        row = measure_acting(SHAPES[rest[0]], int(rest[1]))
    else:
        row = measure_rollouts(int(rest[0]), int(rest[1]))
    print(json.dumps(row))


def main() -> None:
    precisions = ["float32", "bfloat16"]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["update", "acting", "rollouts", "one"])
    parser.add_argument("cell", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--only", nargs="*", help="numbers of agents", choices=list(SHAPES))
    parser.add_argument("--seeds", nargs="*", type=int, default=[1, 10], help="numbers of seeds")
    parser.add_argument("--precision", nargs="*", choices=precisions, default=precisions)
    parser.add_argument("--jobs", type=int, default=1, help="processes that compile at once")
    parser.add_argument("--out", type=Path, default=Path("results/speed"))
    parser.add_argument("--lock", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    (one if arguments.what == "one" else run)(arguments)


if __name__ == "__main__":
    main()
