"""Off-policy estimates against the truth: policies of different quality on one dataset, each
evaluated by logs alone and in the environment (in the manner of DOPE, Fu et al., 2021).

    python benchmarks/ope_validation.py anticoordination-20/random --updates 2000 --rows 10000
    python benchmarks/ope_validation.py --tables     # write the table into the documents

Policies are checkpoints of trainings of Oryx and BC with a fifth of the episodes held out, and ways
of acting. Cells that are done are kept, so a stopped validation goes on. Results are written to
results/ope/, trained policies to --work.
"""

import argparse
import json
import math
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from documents import ROOT, fill
from oryx_marl import api, files, provenance, recipes
from oryx_marl.data.dataset import Dataset
from oryx_marl.data.split import find_held_out, split
from oryx_marl.data.subsample import whole_episodes
from oryx_marl.envs import base
from oryx_marl.eval import held_out
from oryx_marl.eval.evaluator import Evaluator
from oryx_marl.experiment import EvaluationSettings
from oryx_marl.ope import evaluate
from oryx_marl.ope.document import NAMES
from oryx_marl.ope.settings import OpeSettings
from oryx_marl.policy import artifact
from oryx_marl.policy.acting import temperature_of
from oryx_marl.runs.folder import Run

RESULTS = ROOT / "results" / "ope"
HOLD_OUT = 0.2
TRUTH_STREAM = 77
SHARES = (0.01, 0.1, 0.25, 0.5, 1.0)
"""Of the updates, at which policies are taken."""


class Cell(NamedTuple):
    """A policy of the validation: weights, and a way of acting."""

    algorithm: str
    updates: int
    act: str

    @property
    def name(self) -> str:
        return f"{self.algorithm}-{self.updates}-{self.act}"


def cells(updates: int) -> list[Cell]:
    """In the order in which they are trained."""
    taken = [max(int(share * updates), 1) for share in SHARES]
    found = [Cell("oryx", each, "sampled") for each in taken]
    found += [Cell("oryx", taken[-1], act) for act in ("greedy", "0.5", "2")]
    found += [Cell("oryx", taken[1], "greedy"), Cell("bc", taken[1], "sampled")]
    return [*found, Cell("bc", taken[-1], "sampled")]


def train(algorithm: str, updates: int, dataset: Dataset, work: Path, settings: dict) -> Path:
    """The policy file of an algorithm after so many updates; goes on with its training.

    `settings` are those of the algorithm and of the training.
    """
    path = work / f"{algorithm}-{updates}.npz"
    if path.exists():
        return path
    run = work / algorithm
    evaluation = EvaluationSettings(episodes=1, replays=0, hold_out=HOLD_OUT)
    if Run(run).newest_update() is None:
        api.train(
            algorithm,
            dataset,
            out=run,
            updates=updates,
            seeds=1,
            evaluation=evaluation,
            progress=False,
            **settings,
        )
    else:
        api.resume(run, updates=updates, data=dataset, evaluation=evaluation, progress=False)
    artifact.save(path, Run(run).policy())
    return path


def measure_truth(policy: artifact.PolicyArtifact, act: str, episodes: int) -> dict[str, float]:
    """Mean return in the environment, and its standard error."""
    evaluator = Evaluator(policy.algorithm, base.make(policy.spec), list(policy.seeds))
    weights = jax.tree.map(jnp.asarray, policy.weights)
    found = evaluator.evaluate(weights, TRUTH_STREAM, episodes, temperature_of(act))["return"]
    return {"mean": float(found.mean()), "error": float(found.std() / np.sqrt(found.size))}


def run_cell(cell: Cell, policy: artifact.PolicyArtifact, subject: Any, options: Any) -> dict:
    """One policy: by logs alone, and in truth."""
    began = time.monotonic()
    seed = evaluate.evaluate_seed(policy, policy.seeds[0], subject, cell.act)
    trust = evaluate.conclude(policy, subject, cell.act, [seed], began)
    parts = split(subject.dataset, HOLD_OUT, policy.algorithm.sequence_length)
    weights = jax.tree.map(jnp.asarray, policy.weights)
    likelihood = held_out.score(policy.algorithm, weights, parts)["log_likelihood"]
    return {
        "policy": cell._asdict(),
        "truth": measure_truth(policy, cell.act, options.episodes),
        "estimates": {name: asdict(each) for name, each in trust.estimates.items()},
        "effective_sample_size": seed.effective_sample_size,
        "outside": trust.support.share,
        "verdict": trust.verdict.text,
        "log_likelihood": None if likelihood is None else likelihood["mean"],
        "seconds": trust.seconds,
    }


def validate(options: Any) -> None:
    """All cells of one dataset."""
    if recipes.is_made_quickly(options.dataset):
        recipes.make(options.dataset)
    dataset = recipes.open(options.dataset)
    dataset = whole_episodes(dataset, options.rows, seed=0)
    name = options.dataset.replace("/", "-")
    target, work = RESULTS / f"{name}.json", Path(options.work) / name
    done = json.loads(target.read_text()) if target.exists() else {"cells": {}}
    settings = {"learning_rate": options.learning_rate, "batch_size": options.batch_size}
    every = math.gcd(*(cell.updates for cell in cells(options.updates)))
    schedule = {"log_every": every, "checkpoint_every": 1_000 * every, "evaluate_every": 0}
    ope = OpeSettings(critic_updates=options.critic_updates, clone_updates=options.clone_updates)
    commit = provenance.find_commit()  # of the code that runs, whatever is changed meanwhile
    subject: evaluate.Subject | None = None
    for cell in cells(options.updates):
        if cell.name in done["cells"]:
            continue
        path = train(cell.algorithm, cell.updates, dataset, work, {**settings, **schedule})
        policy = artifact.load(path)
        if subject is None:
            length = policy.algorithm.sequence_length
            subject = evaluate.prepare(dataset, find_held_out(dataset, HOLD_OUT, length), ope)
        done["cells"][cell.name] = run_cell(cell, policy, subject, options)
        returns = subject.returns
        done |= {
            "dataset": options.dataset,
            "rows": dataset.num_rows,
            "episodes": dataset.num_episodes,
            "agents": dataset.spec.num_agents,
            "logged": {"mean": float(returns.mean()), "std": float(returns.std())},
            "settings": {"ope": asdict(ope), "training": settings, "hold_out": HOLD_OUT},
            "command": " ".join(["python benchmarks/ope_validation.py", *sys.argv[1:]]),
            "commit": commit,
            "device": jax.devices()[0].device_kind,
            "seeds": [0],
        }
        files.write_json(target, done)
        print(cell.name, json.dumps(done["cells"][cell.name]), flush=True)


def summarise(record: dict) -> Iterator[tuple[str, dict[str, float]]]:
    """Every way of choosing with its error, rank correlation, regret and coverage."""
    found = list(record["cells"].values())
    truth = np.array([each["truth"]["mean"] for each in found])
    spread = float(truth.max() - truth.min()) or 1.0
    for name in NAMES:
        known = [number for number, each in enumerate(found) if _value(each, name) is not None]
        if len(known) < 2:
            yield name, {"known": len(known)}
            continue
        values = np.array([_value(found[number], name) for number in known], np.float64)
        inside = [_covers(found[number], name) for number in known]
        ranked = {}
        if np.ptp(values) > 0 and np.ptp(truth[known]) > 0:  # else there are no ranks
            ranked = {"rank": float(stats.spearmanr(values, truth[known]).statistic)}
        yield (
            name,
            {
                "known": len(known),
                "error": float(np.abs(values - truth[known]).mean() / spread),
                **ranked,
                "regret": float((truth.max() - truth[known][values.argmax()]) / spread),
                "coverage": float(np.mean(inside)),
            },
        )
    scores = [each["log_likelihood"] for each in found]
    likelihood = np.array([-np.inf if each is None else each for each in scores])
    yield (
        "held-out likelihood",
        {
            "known": len(found),
            "rank": float(stats.spearmanr(likelihood, truth).statistic),
            "regret": float((truth.max() - truth[likelihood.argmax()]) / spread),
        },
    )
    last = max(range(len(found)), key=lambda n: found[n]["policy"]["updates"])
    yield "pick the last", {"known": 1, "regret": float((truth.max() - truth[last]) / spread)}


def _value(cell: dict, name: str) -> float | None:
    return cell["estimates"][name]["value"]


def _covers(cell: dict, name: str) -> bool:
    """Whether the interval covers the truth, which itself is known up to its error."""
    estimate, truth = cell["estimates"][name], cell["truth"]
    slack = 2 * truth["error"]
    return estimate["low"] - slack <= truth["mean"] <= estimate["high"] + slack


def make_table() -> str:
    """All datasets, for the documents."""
    lines = [
        "| dataset | estimator | policies | absolute error | rank correlation | regret@1 | "
        "coverage |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for path in sorted(RESULTS.glob("*.json")):
        record = json.loads(path.read_text())
        for name, row in summarise(record):
            shown = [f"{row[key]:.2f}" if key in row else "–" for key in COLUMNS]
            of = f"{int(row['known'])} of {len(record['cells'])}"
            cells = [record["dataset"], NAMES.get(name, name), of, *shown]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def tables() -> dict[str, str]:
    """Generated parts of the documents."""
    return {"ope_validation": make_table()}


COLUMNS = ("error", "rank", "regret", "coverage")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("dataset", nargs="?")
    parser.add_argument("--updates", type=int, default=4_000)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--episodes", type=int, default=2_000, help="for the truth")
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--critic-updates", type=int, default=OpeSettings.critic_updates)
    parser.add_argument("--clone-updates", type=int, default=OpeSettings.clone_updates)
    parser.add_argument("--work", default="runs/ope-validation")
    parser.add_argument("--tables", action="store_true")
    options = parser.parse_args()
    if options.dataset:
        validate(options)
    if options.tables:
        fill(tables())


if __name__ == "__main__":
    main()
