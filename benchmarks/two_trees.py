"""Whether a change made updates slower: two source trees timed in turn, in one call.

    python benchmarks/two_trees.py BEFORE/src AFTER/src --agents 2 10 50

Each tree has a process of its own, on the same synthetic data. Both compile, then they are timed in
alternation, so that a device whose speed drifts slows both down alike. `--rounds 5 --repeats 1`
starts new processes for each timing, which also compares what the compiler chooses when it is asked
again. The table holds medians and the ratio after / before; the last line is the same as JSON.

Uses only what both trees are expected to have: `Dataset`, `put_on_device`, `run_updates` and Oryx.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

SEQUENCE, BATCH, EPISODE = 20, 64, 50
NAMES = ("before", "after")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", type=Path, help="folder that holds oryx_marl")
    parser.add_argument("after", type=Path, help="folder that holds oryx_marl")
    parser.add_argument("--agents", nargs="*", type=int, default=[2, 10, 50])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=5, help="timings of each tree in a round")
    parser.add_argument("--rounds", type=int, default=1, help="times that all is compiled anew")
    parser.add_argument("--updates", type=int, help="in one timing; default: about half a second")
    parser.add_argument("--rows", type=int, default=5_000, help="logged steps")
    parser.add_argument("--precision", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--out", type=Path, help="JSON file")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker is not None:
        work(arguments)
        return
    rows = [compare(arguments, agents) for agents in arguments.agents]
    print(f"\n{'agents':>6}  {'before ms':>10}  {'after ms':>10}  {'after/before':>12}")
    for row in rows:
        times = f"{row['before_ms']:10.4f}  {row['after_ms']:10.4f}"
        print(f"{row['num_agents']:6}  {times}  {row['ratio']:12.4f}")
    record = json.dumps({"command": " ".join(["python", *sys.argv]), "rows": rows})
    if arguments.out:
        arguments.out.write_text(record)
    print(record)


def compare(arguments: argparse.Namespace, agents: int) -> dict[str, Any]:
    """Medians over all rounds, and every single time in milliseconds per update."""
    trees = dict(zip(NAMES, (arguments.before, arguments.after), strict=True))
    times: dict[str, list[float]] = {name: [] for name in NAMES}
    facts: dict[str, Any] = {}
    for _ in range(arguments.rounds):
        with ExitStack() as stack:
            workers = {}
            for name, tree in trees.items():
                # One after the other: the compiler times kernels to choose among them.
                workers[name] = stack.enter_context(Worker(tree, agents))
                facts[name] = workers[name].ask()
            for repeat in range(arguments.repeats):
                # Who follows whom changes too.
                for name in NAMES if repeat % 2 == 0 else reversed(NAMES):
                    times[name].append(workers[name].ask()["ms"])
                print(f"N = {agents}:", {name: round(times[name][-1], 4) for name in NAMES})
    before, after = (median(times[name]) for name in NAMES)
    return {
        "num_agents": agents,
        "num_seeds": arguments.seeds,
        "precision": arguments.precision,
        "before_ms": before,
        "after_ms": after,
        "ratio": after / before,
        "times_ms": times,
        **facts,
    }


class Worker:
    """A process that compiles the updates of one tree and times them whenever it is asked to."""

    def __init__(self, tree: Path, agents: int) -> None:
        if not (tree / "oryx_marl").is_dir():
            raise SystemExit(f"{tree} holds no package oryx_marl")
        environment = {
            "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
            **os.environ,
            "PYTHONPATH": str(tree.resolve()),
        }
        command = [sys.executable, __file__, *sys.argv[1:], "--worker", str(agents)]
        self.tree = tree.resolve()
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self) -> dict[str, Any]:
        """The next answer: what was compiled at first, then one time each."""
        assert self.process.stdin
        assert self.process.stdout
        print("go", file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"the process of {self.tree} ended; its error stands above")
        found = json.loads(answer)
        if "tree" in found and Path(found["tree"]) != self.tree:
            raise SystemExit(f"{self.tree} was asked for, but {found['tree']} was imported")
        return found

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


def work(arguments: argparse.Namespace) -> None:
    """Compiles, then answers each line of the input with a time."""
    # What the package prints is not an answer.
    answers, sys.stdout = sys.stdout, sys.stderr
    import jax
    import jax.numpy as jnp

    import oryx_marl
    from oryx_marl.data.sampler import put_on_device

    try:
        from oryx_marl.training.offline import run_updates
    except ModuleNotFoundError:  # of version 0.1.0
        from oryx_marl.train.offline import run_updates

    agents, on_cpu = arguments.worker, jax.default_backend() == "cpu"
    usual = (0.3 + 0.06 * agents) * arguments.seeds * (100 if on_cpu else 1)  # milliseconds
    updates = arguments.updates or max(4, round(500 / usual))
    algorithm, dataset = make_task(agents, arguments.rows, arguments.precision)
    data, keys = put_on_device(dataset), jax.random.split(jax.random.key(0), arguments.seeds)
    # Copies, since a target network begins as the network itself, and both are donated.
    learners = jax.tree.map(jnp.copy, jax.vmap(algorithm.init)(keys))

    def advance(learners: Any) -> tuple[Any, float]:
        began = time.perf_counter()
        learners, _ = run_updates(algorithm, updates, learners, keys, data, jnp.asarray(0))
        jax.block_until_ready(learners)
        return learners, time.perf_counter() - began

    learners, first = advance(learners)
    learners, second = advance(learners)
    facts = {
        "tree": str(Path(oryx_marl.__file__).resolve().parents[1]),
        "device": jax.devices()[0].device_kind,
        "updates": updates,
        "compile_seconds": first - second,
    }
    sys.stdin.readline()
    print(json.dumps(facts), file=answers, flush=True)
    for _ in sys.stdin:
        learners, seconds = advance(learners)
        print(json.dumps({"ms": 1000 * seconds / updates}), file=answers, flush=True)


def make_task(agents: int, rows: int, precision: Any) -> tuple[Any, Any]:
    """Oryx and random data: small networks for two agents, else as wide as in the paper."""
    import numpy as np

    from oryx_marl.algorithms import oryx
    from oryx_marl.data.dataset import Dataset
    from oryx_marl.networks.sable import NetworkConfig
    from oryx_marl.types import ActionSpace, Spec

    small = agents <= 2
    features, actions = (11, 7) if small else (100, 5)
    network = NetworkConfig(
        width=64 if small else 128, num_heads=1 if small else 4, precision=precision
    )
    names = tuple(f"agent_{i}" for i in range(agents))
    spec = Spec("", names, (features,) * agents, ActionSpace("discrete", actions))
    config = oryx.Config(network=network, batch_size=BATCH, sequence_length=SEQUENCE)
    random = np.random.default_rng(0)
    last = (np.arange(rows) % EPISODE == EPISODE - 1) | (np.arange(rows) == rows - 1)
    dataset = Dataset(
        spec=spec,
        observations=random.normal(size=(rows, agents, features)).astype(np.float32),
        actions=random.integers(0, actions, (rows, agents)).astype(np.int8),
        rewards=random.normal(size=(rows, agents)).astype(np.float32),
        terminals=np.repeat(last[:, None], agents, axis=1),
        truncations=np.zeros((rows, agents), bool),
        episode_starts=np.arange(0, rows, EPISODE),
    )
    return oryx.make(config, spec), dataset


if __name__ == "__main__":
    main()
