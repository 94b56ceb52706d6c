"""What saving costs: one checkpoint, and a training at the default interval, of two source trees.

    python benchmarks/checkpoint_time.py BEFORE/src AFTER/src

Each tree has a process of its own for each round, on the T-Maze data of the package with two seeds;
the order changes from round to round. A checkpoint is timed by itself many times; a training from
its first line of the log, after compilation, to its last: checkpoints and lines are included.
Printed are medians and the ratio after / before; the last line is the same as JSON.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

NAMES = ("before", "after")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", type=Path, help="folder that holds oryx_marl")
    parser.add_argument("after", type=Path, help="folder that holds oryx_marl")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=30, help="checkpoints in a round")
    parser.add_argument("--updates", type=int, default=4_000, help="of a training; 0: none")
    parser.add_argument("--folder", type=Path, help="on the disk that is timed; default: a new one")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        print(json.dumps(measure(arguments)))
        return
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in NAMES}
    for number in range(arguments.rounds):
        for name in NAMES if number % 2 == 0 else NAMES[::-1]:
            found[name].append(start(getattr(arguments, name)))
    rows = {}
    for key in ("checkpoint_ms", "training_s"):
        times = {name: [value for each in found[name] for value in each[key]] for name in NAMES}
        if times["before"]:
            middle = {name: median(times[name]) for name in NAMES}
            rows[key] = {**middle, "ratio": middle["after"] / middle["before"], "all": times}
            told = f"{middle['before']:10.2f}  {middle['after']:10.2f}  {rows[key]['ratio']:8.4f}"
            print(f"{key:>14}  {told}")
    print(json.dumps({"command": " ".join(["python", *sys.argv]), **rows}))


def start(source: Path) -> dict[str, Any]:
    """The times of one tree, in a process of its own."""
    command = [sys.executable, __file__, *sys.argv[1:], "--worker"]
    environment = {**os.environ, "PYTHONPATH": str(source.absolute())}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.strip().splitlines()[-1])


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Milliseconds of each checkpoint, and seconds of a training."""
    from oryx_marl import experiment
    from oryx_marl.algorithms import oryx
    from oryx_marl.data import catalog
    from oryx_marl.experiment import EvaluationSettings, Experiment
    from oryx_marl.runs import checkpoint
    from oryx_marl.training.loop import TrainSettings, init_state

    logged = catalog.open("tmaze/planner-expert")
    with TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name)
        algorithm = oryx.make(oryx.Config(), logged.spec)
        state = init_state(algorithm, [0, 1])
        checkpoints = []
        for update in range(arguments.repeats):
            began = time.perf_counter()
            kept = checkpoint.Checkpoint(update, state, {"elapsed": 0.0})
            checkpoint.save(folder / "checkpoints", kept)
            checkpoints.append(1e3 * (time.perf_counter() - began))
        moments: list[float] = []
        training = []
        if arguments.updates:
            train = TrainSettings(arguments.updates, seeds=2, evaluate_every=0)
            scores = EvaluationSettings(episodes=1, episodes_while_training=1, replays=0)
            work = Experiment("oryx", oryx.Config(), logged, folder / "run", train, scores)
            experiment.run(work, on_progress=lambda *_: moments.append(time.perf_counter()))
            training = [moments[-1] - moments[0]]
    return {"checkpoint_ms": checkpoints[2:], "training_s": training}


if __name__ == "__main__":
    main()
