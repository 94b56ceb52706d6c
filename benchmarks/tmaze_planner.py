"""Oryx and its ablations on the planner's T-Maze data: one JSON file per cell into results/.

    python benchmarks/tmaze_planner.py --seeds 10 --jobs 4

Cells run side by side in processes of their own; finished ones are not run again. Needs the
package (installed, or PYTHONPATH=src) and an accelerator to be quick. `--table` prints what is in
the results folder and runs nothing.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from oryx_marl import config as configs
from oryx_marl import experiment
from oryx_marl.algorithms import oryx
from oryx_marl.data import catalog
from oryx_marl.data.dataset import Dataset
from oryx_marl.networks.sable import NetworkConfig
from oryx_marl.runs.documents import Evaluation, MetricRow, RunConfig
from oryx_marl.runs.folder import Run
from oryx_marl.training.loop import TrainSettings

ORYX = oryx.Config()
PAPER = oryx.Config(
    network=NetworkConfig(decay_scale=0.5, remember_last_action=False),
    td_lambda=0.0,
    act_with_ema=False,
)
VARIANTS = {
    "oryx": ORYX,
    "oryx-paper-settings": PAPER,
    "cloning": replace(ORYX, objective="bc"),
    "without-memory": replace(ORYX, memory=False),
    "without-memory-length-2": replace(ORYX, sequence_length=2),
    "without-autoregressive": replace(ORYX, network=replace(ORYX.network, autoregressive=False)),
    "without-icq": replace(ORYX, objective="q_learning"),
    "own-advantage": replace(ORYX, advantage="own"),
}
CELLS = {
    f"{variant}/{data}": (config, data)
    for variant, config in VARIANTS.items()
    for data in ("planner-expert", "planner-mixed")
} | {"oryx/planner-expert-3-percent-illegal": (ORYX, "planner-expert")}


def plant_illegal(dataset: Dataset, share: float, seed: int = 0) -> Dataset:
    """The dataset with a share of its logged actions replaced by illegal ones."""
    assert dataset.action_mask is not None
    rng = np.random.default_rng(seed)
    scores = np.where(dataset.action_mask, -1.0, rng.random(dataset.action_mask.shape))
    chosen = (rng.random(dataset.actions.shape) < share) & ~dataset.action_mask.all(axis=-1)
    actions = np.where(chosen, scores.argmax(axis=-1), dataset.actions)
    name = f"{dataset.name}-{share:.0%}-illegal"
    return replace(dataset, actions=actions.astype(dataset.actions.dtype), name=name)


def run_cell(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Trains and scores one cell; returns its record."""
    config, data = CELLS[name]
    dataset = catalog.open(f"tmaze/{data}")
    illegal = name.endswith("illegal")
    if illegal:
        dataset = plant_illegal(dataset, 0.03)
    return measure(name, config, dataset, arguments, "tmaze_planner.py", illegal)


def measure(
    name: str,
    config: oryx.Config,
    dataset: Dataset,
    arguments: argparse.Namespace,
    script: str,
    drop_invalid: bool = False,
) -> dict[str, Any]:
    """Trains Oryx with these settings on this data; the record says how to do it again.

    The run stays in runs/bench/; one that was killed is continued.
    """
    settings = TrainSettings(
        updates=arguments.updates,
        seeds=arguments.seeds,
        first_seed=arguments.first_seed,
        log_every=arguments.log_every,
        evaluate_every=arguments.log_every * 4,
        checkpoint_every=arguments.log_every * 4,
    )
    began = time.monotonic()
    out = Path("runs") / "bench" / f"{name}-seeds-from-{arguments.first_seed}"
    work = experiment.Experiment(
        "oryx",
        config,
        dataset,
        out,
        settings,
        experiment.EvaluationSettings(replays=0),
        drop_invalid=drop_invalid,
    )
    result = experiment.run(work, resume=True)
    assert result.summary is not None
    summary = result.summary.to_json()
    described = result.run.read(RunConfig).to_json()
    logged = list(Run(out).rows(MetricRow))[-1]
    last = {key: float(np.mean(value)) for key, value in logged.metrics.items()}
    curve = [[row.update, float(row.returns.mean())] for row in Run(out).rows(Evaluation)]
    return {
        "cell": name,
        "command": f"python benchmarks/{script} --only {name} --seeds {arguments.seeds} "
        f"--first-seed {arguments.first_seed} --updates {arguments.updates} "
        f"--log-every {arguments.log_every}",
        "commit": arguments.commit,
        **described,
        "config": configs.to_dict(config),
        "wall_seconds": round(time.monotonic() - began, 1),
        "training_seconds": logged.seconds,
        "final_metrics": last,
        "curve": curve,
        "scores": summary,
    }


def commit() -> str:
    """The commit of the working tree, or $ORYX_COMMIT, or 'unknown'."""
    if "ORYX_COMMIT" in os.environ:
        return os.environ["ORYX_COMMIT"]
    try:
        found = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True)
    except FileNotFoundError:
        return "unknown"
    return found.stdout.strip() or "unknown"


DESCRIPTIONS = {
    "oryx": "**Oryx**",
    "oryx-paper-settings": "Oryx, the paper's settings for T-Maze",
    "own-advantage": "Oryx, own advantage",
    "cloning": "plain cloning",
    "without-memory": "without memory",
    "without-memory-length-2": "trained on windows of 2 steps (the paper's ablation of memory)",
    "without-autoregressive": "without autoregressive actions",
    "without-icq": "without ICQ (Q-learning alone)",
}


def markdown(out: Path) -> str:
    """The table of docs/results/tmaze-planner.md: success by variant, data and way of acting."""
    records = [json.loads(path.read_text()) for path in sorted(out.glob("*.json"))]
    scores = {r["cell"]: r["scores"]["last"] for r in records}
    columns = {
        "planner-expert": "`planner-expert`",
        "planner-mixed": "`planner-mixed`",
        "planner-expert-3-percent-illegal": "`planner-expert` with 3% illegal labels",
    }
    lines = ["| | data | sampled | greedy |", "|---|---|---|---|"]
    for variant, description in DESCRIPTIONS.items():
        for data, name in columns.items():
            found = scores.get(f"{variant}/{data}")
            if found:
                cells = [
                    f"{s['mean']:.3f} [{max(s['low'], 0):.3f}, {min(s['high'], 1):.3f}]"
                    for s in (found["sampled"], found["greedy"])
                ]
                lines.append(f"| {description} | {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def write_readme(out: Path, readme: Path) -> None:
    """Puts the table between its two markers."""
    before, rest = readme.read_text().split("<!-- results:tmaze_planner -->\n")
    _, after = rest.split("<!-- /results -->", 1)
    marker = "<!-- results:tmaze_planner -->\n"
    readme.write_text(f"{before}{marker}{markdown(out)}\n<!-- /results -->{after}")


def print_table(out: Path) -> None:
    print(f"{'cell':45} {'sampled':>22} {'greedy':>8} {'best':>6} {'ESS':>5} {'logit':>6} {'s':>5}")
    for path in sorted(out.glob("*.json")):
        record = json.loads(path.read_text())
        scores = record["scores"]
        last, metrics = scores["last"]["sampled"], record["final_metrics"]
        interval = "" if last["low"] is None else f" [{last['low']:.3f}, {last['high']:.3f}]"
        print(
            f"{record['cell']:45} {last['mean']:.3f}{interval:>17} "
            f"{scores['last']['greedy']['mean']:8.3f} {scores['best']['sampled']['mean']:6.3f} "
            f"{metrics['effective_sample_size']:5.2f} {metrics['max_logit']:6.1f} "
            f"{record['wall_seconds']:5.0f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", default=list(CELLS), choices=list(CELLS))
    parser.add_argument("--updates", type=int, default=20_000)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--log-every", type=int, default=500)
    parser.add_argument("--jobs", type=int, default=1, help="cells side by side")
    parser.add_argument("--out", type=Path, default=Path("results/tmaze_planner"))
    parser.add_argument("--commit", default=commit())
    parser.add_argument("--table", action="store_true", help="print the results and run nothing")
    parser.add_argument("--readme", type=Path, help="put the table into this file, run nothing")
    arguments = parser.parse_args()
    if arguments.readme:
        write_readme(arguments.out, arguments.readme)
        return
    arguments.out.mkdir(parents=True, exist_ok=True)
    files = {name: arguments.out / f"{name.replace('/', '--')}.json" for name in arguments.only}
    todo = [] if arguments.table else [n for n in arguments.only if not files[n].exists()]
    if len(todo) == 1:
        record = run_cell(todo[0], arguments)
        files[todo[0]].write_text(json.dumps(record, indent=1))
    elif todo:
        run_side_by_side(todo, arguments)
    print_table(arguments.out)


def run_side_by_side(todo: list[str], arguments: argparse.Namespace) -> None:
    """Each cell in a process of its own, `--jobs` at a time."""
    passed = ["updates", "seeds", "first_seed", "log_every", "out", "commit"]
    flags = [f"--{name.replace('_', '-')}={getattr(arguments, name)}" for name in passed]
    environment = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    running: list[subprocess.Popen] = []
    while todo or running:
        while todo and len(running) < arguments.jobs:
            command = [sys.executable, __file__, "--only", todo.pop(0), *flags]
            running.append(subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL))
        time.sleep(0.2)
        running = [process for process in running if process.poll() is None]


if __name__ == "__main__":
    main()
