"""Runs the cells of a suite, and keeps a record of each and the tables of all."""

import json
import shlex
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from oryx_marl import experiment, files, provenance, recipes
from oryx_marl.bench import summary, table
from oryx_marl.bench.suite import Suite
from oryx_marl.data.dataset import Dataset
from oryx_marl.envs import base
from oryx_marl.errors import OryxError
from oryx_marl.eval import uniform
from oryx_marl.eval.evaluator import Evaluator
from oryx_marl.experiment import EvaluationSettings, Experiment
from oryx_marl.outcomes.scores import score
from oryx_marl.runs.documents import (
    DivergedSeeds,
    Evaluation,
    MarlEval,
    MetricRow,
    RunConfig,
    SecondsSpent,
)
from oryx_marl.runs.folder import Run
from oryx_marl.training.loop import DivergedError, TrainSettings

Report = Callable[[int, dict[str, np.ndarray]], None]
CELLS, MARL_EVAL, FIGURE = "cells", "marl_eval.json", "figure.svg"
LEAST_LEAD = 0.1
"""Of an expert before the data of its training."""
RANDOM_SEED, RANDOM_EPISODES = 0, 1_280
"""Of the random agents that scores are measured against."""


def _unwatched(title: str, total: int) -> AbstractContextManager[Report]:
    return nullcontext(lambda update, metrics: None)


@dataclass(frozen=True)
class Bench:
    """A suite, and where its results are kept."""

    suite: Suite
    out: Path
    """Folder of the records: they are small and meant to be kept."""
    work: Path
    """Folder of the runs: large, needed until their cells are finished."""
    first_seed: int = 0
    command: str = ""
    """What to call to do it again."""
    watch: Callable[[str, int], AbstractContextManager[Report]] = _unwatched
    """`with watch(title, updates) as report`: shows the progress of a cell."""
    tell: Callable[[str], None] = lambda message: None
    """Says what takes its time before."""

    def run(self, only: tuple[str, ...] = ()) -> None:
        """Every chosen cell that is not finished; one that was killed goes on where it was."""
        cells = self.suite.choose(only)
        open_cells = [cell for cell in cells if not self._path(*cell).exists()]
        for dataset in dict.fromkeys(dataset for _, dataset in open_cells):
            # What is missing is said now, not after hours of other cells.
            if recipes.is_made_quickly(dataset):
                recipes.require_assets(dataset)
            else:
                recipes.find(dataset)
        for cell in open_cells:
            _write(self._path(*cell), self._measure(*cell))
            self.write_tables()

    def records(self) -> dict[tuple[str, str], dict[str, Any]]:
        """Finished cells by variant and dataset."""
        found = {cell: self._path(*cell) for cell in self.suite.cells()}
        return {cell: _read(path) for cell, path in found.items() if path.exists()}

    def missing(self) -> list[tuple[str, str]]:
        """Cells that are not finished."""
        return [cell for cell in self.suite.cells() if not self._path(*cell).exists()]

    def write_tables(self) -> None:
        """The table as Markdown and CSV, and all scores as marl-eval reads them."""
        records = self.records()
        found = summary.make_table(self.suite, records)
        note = tell_diverged(records) + _tell_missing(self.missing())
        _write_text(self.out / "table.md", table.markdown(found) + note)
        _write_text(self.out / "table.csv", table.csv(found))
        if self.suite.is_scaling:
            _write_text(self.out / FIGURE, summary.make_figure(self.suite, records))
        merged: dict[str, Any] = {}
        for record in records.values():
            for environment, tasks in record["marl_eval"].items():
                for task, algorithms in tasks.items():
                    place = merged.setdefault(environment, {}).setdefault(task, {})
                    place[record["variant"]] = next(iter(algorithms.values()))
        _write_text(self.out / MARL_EVAL, json.dumps(merged))

    def _path(self, variant: str, dataset: str) -> Path:
        return self.out / CELLS / f"{_plain(variant)}--{_plain(dataset)}.json"

    def _settings(self) -> TrainSettings:
        suite = self.suite
        return TrainSettings(
            updates=suite.updates,
            seeds=suite.seeds,
            first_seed=self.first_seed,
            log_every=min(suite.log_every, suite.updates),
            evaluate_every=suite.log_every * 4,
            checkpoint_every=suite.log_every * 4,
            continue_on_divergence=True,
        )

    def _measure(self, variant: str, dataset: str) -> dict[str, Any]:
        """Trains and scores one cell; the record says how to do it again."""
        suite, chosen = self.suite, self.suite.variants[variant]
        if recipes.is_made_quickly(dataset):
            self.tell(f"making {dataset}")
            recipes.make(dataset, tell=self.tell)
        run = Run(self.work / suite.name / _plain(variant) / _plain(dataset))
        seconds = _clock(run)
        data = recipes.open(dataset)
        _require_whole(data, dataset)
        work = Experiment(
            chosen.algorithm,
            chosen.config,
            data,
            run.folder,
            self._settings(),
            EvaluationSettings(episodes=suite.episodes, replays=0),
        )
        references = _references(data) if suite.is_scaling else {}
        with self.watch(f"{variant} on {dataset}", suite.updates) as report:

            def on_progress(update: int, metrics: dict[str, np.ndarray]) -> None:
                run.write(SecondsSpent(seconds()))
                report(update, metrics)

            scores, diverged = _train(work, on_progress)
        nothing = MetricRow(0, 0.0, {})  # of what diverged before its first line
        last = [nothing, *run.rows(MetricRow)][-1]
        return {
            "variant": variant,
            "command": f"{self.command} --only {shlex.quote(variant)} {dataset}",
            "commit": provenance.find_commit() or "unknown",
            **run.read(RunConfig).to_json(),
            "wall_seconds": round(seconds(), 1),
            "training_seconds": last.seconds,
            "final_metrics": {
                name: float(np.nanmean(np.array(values, float)))
                for name, values in last.metrics.items()
            },
            "curve": [[row.update, float(row.returns.mean())] for row in run.rows(Evaluation)],
            "num_agents": data.spec.num_agents,
            "transitions": data.num_rows,
            "references": references,
            "diverged": diverged,
            "scores": scores,
            "acting": _act_otherwise(work, chosen.acting, suite.episodes),
            "marl_eval": run.read(MarlEval).values,
        }


def _train(work: Experiment, on_progress: Report) -> tuple[dict[str, Any], str | None]:
    """The scores, and what diverged: if all seeds did, they are scored at the last checkpoint."""
    try:
        result = experiment.run(work, resume=True, on_progress=on_progress)
    except DivergedError as error:
        summary, update = experiment.score_checkpoint(work)
        return {**summary.to_json(), "update": update}, str(error)
    assert result.summary is not None
    run = Run(work.out)
    lost = run.read(DivergedSeeds).updates if run.has(DivergedSeeds) else {}
    told = ", ".join(f"seed {seed} after {update:,} updates" for seed, update in lost.items())
    return result.summary.to_json(), told or None


def _require_whole(data: Dataset, name: str) -> None:
    """Raises if a dataset was made smaller than usual: its scores would not compare."""
    usual = recipes.usual_rows(name)
    if usual is not None and data.num_rows < usual:
        raise OryxError(
            f"{name} has {data.num_rows:,} rows here, but a suite compares on {usual:,}; remove "
            f"{recipes.find(name)} and make it again: oryx data make {name}"
        )


def _tell_missing(cells: list[tuple[str, str]]) -> str:
    """What is not run yet, each algorithm once."""
    found: dict[str, list[str]] = {}
    for variant, dataset in cells:
        found.setdefault(variant, []).append(f"`{dataset}`")
    missing = "; ".join(f"{variant} on {', '.join(names)}" for variant, names in found.items())
    return f"\nNot run yet: {missing}.\n" if missing else ""


def tell_diverged(records: summary.Records) -> str:
    """Whose training failed, when its scores are of, and how every seed does by itself."""
    found = []
    for (variant, dataset), record in records.items():
        if record.get("diverged"):
            scores = record["scores"]
            at = f"after {scores['update']:,} updates" if "update" in scores else record["diverged"]
            seeds = ", ".join(f"{each:.2f}" for each in scores["last"]["sampled"]["per_seed"])
            found.append(f"{variant} on `{dataset}` ({at}; by seed {seeds})")
    if not found:
        return ""
    return f"\nDiverged, and scored as at the last good checkpoint: {'; '.join(found)}.\n"


def _clock(run: Run) -> Callable[[], float]:
    """Seconds spent on a run so far, those of earlier processes included."""
    before = run.read(SecondsSpent).seconds if run.has(SecondsSpent) else 0.0
    began = time.monotonic() - before
    return lambda: time.monotonic() - began


def _act_otherwise(work: Experiment, acting: Any, episodes: int) -> dict[str, Any]:
    """Scores of a finished run's weights when some settings differ in acting."""
    if not acting:
        return {}
    run = Run(work.out)
    policy, weights = run.policy(), experiment.load_weights(run)
    scores = {}
    for name, changes in acting.items():
        config = replace(work.config, **changes)
        other = experiment.make_algorithm(work.algorithm, config, policy.spec)
        evaluator = Evaluator(other, base.make(policy.spec), list(policy.seeds))
        scores[name] = score(evaluator, weights, episodes)[0].to_json()
    return scores


def _references(data: Dataset) -> dict[str, float | None]:
    """What a score is measured against: mean returns of random agents, the data, and the expert.

    The expert is the policy that acted, or the one at the end of the training that was recorded.
    That one must be well above the data: an undertrained one would flatter every score.
    """
    random, _ = uniform.play(base.make(data.spec), RANDOM_EPISODES, jax.random.key(RANDOM_SEED))
    logged = float(data.episode_returns.mean())
    last = data.origin.get("final_return")
    if last is None:
        expert = logged if len(data.origin.get("policies", ())) == 1 else None
    else:
        expert = last if last >= logged + LEAST_LEAD else None
    return {
        "random": float(np.asarray(random, np.float64).mean()),
        "data": logged,
        "expert": expert,
    }


def _plain(name: str) -> str:
    """A name that is fit for a file."""
    return "".join(c if c.isalnum() else "-" for c in name.lower()).strip("-")


def _read(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text())
    except ValueError as error:
        raise OryxError(f"{path} is damaged ({error}); remove it to run the cell again") from error


def _write(path: Path, value: Any) -> None:
    _write_text(path, json.dumps(value, indent=1))


def _write_text(path: Path, text: str) -> None:
    # Several processes may run different cells of one suite.
    files.write_text(path, text, draft_per_process=True)
