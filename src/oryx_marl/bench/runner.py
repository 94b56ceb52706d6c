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

from oryx_marl import config as configs
from oryx_marl import experiment, files, provenance, recipes
from oryx_marl.algorithms._making import make_algorithm
from oryx_marl.bench import comparison, summary, table
from oryx_marl.bench.record import CellRecord, read_cell, write_json
from oryx_marl.bench.suite import Suite, Variant
from oryx_marl.data import catalog, stats
from oryx_marl.data.dataset import Dataset
from oryx_marl.envs import base
from oryx_marl.envs.base import Env
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
from oryx_marl.training.online import OnlineSettings

Report = Callable[[int, dict[str, np.ndarray]], None]
CELLS, DATA, MARL_EVAL, FIGURE = "cells", "data", "marl_eval.json", "figure.svg"
PAIRED = "Paired tests of the best on each dataset against the others"
SPEED_NOTE = "all seeds together, evaluations and checkpoints included, compilation left out"
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
    make_table: Callable[[Suite, summary.Records], table.Table] = summary.make_table
    """The table of what is finished."""

    def run(self, only: tuple[str, ...] = ()) -> None:
        """Every chosen cell that is not finished; one that was killed goes on where it was."""
        cells = self.suite.choose(only)
        open_cells = [cell for cell in cells if not self._path(*cell).exists()]
        for variant, dataset in open_cells:
            if self.suite.variants[variant].steps is None:
                self._require_made(dataset)
        for cell in open_cells:
            write_json(self._path(*cell), self._measure(*cell))
            self.write_tables()
        for dataset in () if only else self.suite.described:
            if recipes.is_made_quickly(dataset) or catalog.locate(dataset):
                self._open(dataset)

    def records(self) -> dict[tuple[str, str], CellRecord]:
        """Finished cells by variant and dataset."""
        found = {cell: self._path(*cell) for cell in self.suite.cells()}
        return {cell: read_cell(path) for cell, path in found.items() if path.exists()}

    def missing(self) -> list[tuple[str, str]]:
        """Cells that are not finished."""
        return [cell for cell in self.suite.cells() if not self._path(*cell).exists()]

    def markdown(self) -> str:
        """The table of what is finished, paired tests, what diverged and what is not run yet."""
        found = self.records()
        told = f"\n{self.suite.note}\n" if self.suite.note else ""
        note = told + tell_diverged(self.suite, found) + _tell_missing(self.missing())
        tests = comparison.make_comparison(self.suite, found)
        paired = f"\n{PAIRED}:\n\n{table.markdown(tests)}" if tests.rows else ""
        return table.markdown(self.make_table(self.suite, found)) + paired + note

    def write_tables(self) -> None:
        """The table as Markdown and CSV, the figure, and all scores as marl-eval reads them."""
        found = self.records()
        _write_text(self.out / "table.md", self.markdown())
        _write_text(self.out / "table.csv", table.csv(self.make_table(self.suite, found)))
        if self.suite.is_scaling:
            _write_text(self.out / FIGURE, summary.make_figure(self.suite, found))
        _write_text(self.out / MARL_EVAL, json.dumps(summary.merge_marl_eval(found)))

    def _path(self, variant: str, dataset: str) -> Path:
        name = f"{_plain(variant)}--{self._place(variant, dataset)}"
        return self.out / CELLS / f"{name}.json"

    def _place(self, variant: str, dataset: str) -> str:
        """The dataset, and what tells tuned settings from the suite's own."""
        identity = self.suite.variants[variant].identity
        return f"{_plain(dataset)}--{identity}" if identity else _plain(dataset)

    def _folder(self, variant: str, dataset: str) -> Path:
        """Of the run."""
        return self.work / self.suite.name / _plain(variant) / self._place(variant, dataset)

    def _require_made(self, dataset: str) -> None:
        """What is missing is said before anything is run, not after hours of other cells."""
        derived = self.suite.derived.get(dataset)
        name = derived.source if derived else dataset
        if recipes.is_made_quickly(name):
            recipes.require_assets(name)
        else:
            recipes.find(name)

    def _open(self, name: str) -> Dataset:
        """A dataset, made first where that is quick; what is in it is written down once."""
        if derived := self.suite.derived.get(name):
            return replace(derived.change(self._open(derived.source)), name=name)
        began = time.monotonic()
        if recipes.is_made_quickly(name):
            self.tell(f"making {name}")
            recipes.make(name, tell=self.tell)
        seconds = round(time.monotonic() - began, 1)
        data = recipes.open(name)
        _require_whole(data, name)
        path = self.out / DATA / f"{_plain(name)}.json"
        if not path.exists():
            write_json(path, _describe(data, seconds))
        return data

    def _settings(self, chosen: Variant, learn_from: Dataset | Env) -> TrainSettings:
        suite, seeds = self.suite, chosen.seeds or self.suite.seeds
        if chosen.steps is not None:
            online = OnlineSettings(chosen.steps, seeds, self.first_seed)
            algorithm = make_algorithm(chosen.algorithm, chosen.config, learn_from.spec)
            per_update = algorithm.batch_size * algorithm.sequence_length
            return replace(online.in_updates(per_update), continue_on_divergence=True)
        return TrainSettings(
            updates=suite.updates,
            seeds=seeds,
            first_seed=self.first_seed,
            log_every=min(suite.log_every, suite.updates),
            evaluate_every=suite.log_every * 4,
            checkpoint_every=suite.log_every * 4,
            continue_on_divergence=True,
        )

    def _plan(self, variant: str, dataset: str) -> Experiment:
        """What the cell trains, and where."""
        suite, chosen = self.suite, self.suite.variants[variant]
        learn_from: Dataset | Env
        if chosen.steps is None:
            learn_from = self._open(dataset)
        else:
            learn_from = base.require_jax(base.make_named(dataset), "this suite")
        derived = suite.derived.get(dataset)
        return Experiment(
            chosen.algorithm,
            chosen.config,
            learn_from,
            self._folder(variant, dataset),
            self._settings(chosen, learn_from),
            EvaluationSettings(episodes=suite.episodes, replays=0, act=suite.act),
            drop_invalid=derived is not None and derived.drop_invalid,
        )

    def _measure(self, variant: str, dataset: str) -> CellRecord:
        """Trains and scores one cell; the record says how to do it again."""
        suite, chosen = self.suite, self.suite.variants[variant]
        run = Run(self._folder(variant, dataset))
        seconds = _clock(run)
        work = self._plan(variant, dataset)
        data = work.learn_from if isinstance(work.learn_from, Dataset) else None
        references = _references(data) if suite.is_scaling and data is not None else {}
        with self.watch(f"{variant} on {dataset}", work.train.updates) as report:

            def on_progress(update: int, metrics: dict[str, np.ndarray]) -> None:
                run.write(SecondsSpent(seconds()))
                report(update, metrics)

            scores, diverged = _train(work, on_progress)
        nothing = MetricRow(0, 0.0, {})  # of what diverged before its first line
        last = [nothing, *run.rows(MetricRow)][-1]
        return {
            "variant": variant,
            "tuning": None if chosen.chosen is None else configs.to_dict(chosen.chosen),
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
            **(_curves(run) if data is None else {"transitions": data.num_rows}),
            "num_agents": work.learn_from.spec.num_agents,
            "references": references,
            "diverged": diverged,
            "scores": scores,
            "acting": _act_otherwise(work, chosen.acting, suite.episodes),
            "marl_eval": run.read(MarlEval).values,
        }


def _curves(run: Run) -> dict[str, Any]:
    """How every seed of an online learner fares, by environment steps: while it trains, and in
    evaluations."""
    config, rows = run.read(RunConfig), list(run.rows(MetricRow))
    per_update, seeds = config.steps_per_update, len(config.seeds)
    taken = rows[-1].seconds - rows[0].seconds
    done = (rows[-1].update - rows[0].update) * per_update * seeds
    return {
        "steps": config.updates * per_update,
        "steps_per_second": round(done / taken) if taken else None,
        "steps_per_second_note": SPEED_NOTE,
        "curves": [
            [row.update * per_update, *np.array(row.metrics["return"], float).round(4).tolist()]
            for row in rows
        ],
        "evaluations": [
            [row.update * per_update, *row.returns.mean(axis=1).round(4).tolist()]
            for row in run.rows(Evaluation)
        ],
    }


def _describe(data: Dataset, wall_seconds: float) -> dict[str, Any]:
    """What is in a dataset, and the command that made it."""
    return {
        "command": data.origin.get("command"),
        "commit": provenance.find_commit() or "unknown",
        "device": jax.devices()[0].device_kind,
        "wall_seconds": wall_seconds,
        "origin": data.origin,
        **stats.describe(data),
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


def tell_diverged(suite: Suite, records: summary.Records) -> str:
    """Whose training failed, when its scores are of, and how every seed does by itself."""
    found = []
    for (variant, dataset), record in records.items():
        if record.get("diverged"):
            scores = record["scores"]
            at = f"after {scores['update']:,} updates" if "update" in scores else record["diverged"]
            own = summary.Scores.of(suite, variant, scores).own
            seeds = ", ".join(f"{each:.2f}" for each in own)
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
        other = make_algorithm(work.algorithm, config, policy.spec)
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


def _write_text(path: Path, text: str) -> None:
    # Several processes may run different cells of one suite.
    files.write_text(path, text, draft_per_process=True)
