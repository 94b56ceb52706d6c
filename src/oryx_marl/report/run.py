"""What a page shows of a run: its documents as series and curves, read before anything is drawn."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float, Int

from oryx_marl.errors import OryxError
from oryx_marl.eval.metrics import is_binary
from oryx_marl.ope.document import Trust
from oryx_marl.report import live_page
from oryx_marl.runs import replay, sealed
from oryx_marl.runs.documents import (
    DatasetCard,
    MarlEval,
    MetricRow,
    RunConfig,
    SeedEvaluations,
    SpecDocument,
    Summary,
)
from oryx_marl.runs.folder import Run
from oryx_marl.runs.held_out import HeldOut
from oryx_marl.runs.replay import Episode
from oryx_marl.types import Spec

T = TypeVar("T")
LIVE = "live"
"""Where a note says why the page plays nothing live."""


@dataclass(frozen=True)
class Curve:
    """Returns of the evaluations made during training."""

    seeds: tuple[str, ...]
    updates: Int[np.ndarray, "evaluations"]
    scores: Float[np.ndarray, "S evaluations"]
    """Mean return of the episodes of one seed at one evaluation; NaN where there was none."""
    is_rate: bool
    """Whether every episode has a return of 0 or 1."""
    last: Float[np.ndarray, "S"]
    """Mean return of each seed at its last evaluation."""
    last_episodes: int
    """Episodes of each seed behind `last`."""


@dataclass(frozen=True)
class Series:
    """One logged metric."""

    updates: Float[np.ndarray, "lines"]
    values: Float[np.ndarray, "S lines"]


@dataclass(frozen=True)
class Metrics:
    """What training logged."""

    seconds: float
    """Training time at the last line."""
    series: dict[str, Series]


@dataclass(frozen=True)
class RunContents:
    """A run folder as the page shows it; what is None says why in `notes`, by the file's name."""

    folder: Path
    config: RunConfig
    curve: Curve | None
    """None where the data come from no environment we know."""
    held_out: HeldOut | None
    trust: Trust | None
    spec: Spec | None
    metrics: Metrics | None
    summary: Summary | None
    dataset: DatasetCard | None
    replay: tuple[Episode, ...] | None
    live: dict[str, Any] | None
    """What the page plays live; None where it shows the recorded pictures alone."""
    notes: dict[str, str]


def read(folder: Path) -> RunContents:
    """The run in a folder. Only `config.json` and `eval.json` must be there and be whole, or where
    there is no environment `held_out.json`."""
    run, notes = Run(folder), dict[str, str]()
    run.require()
    config = run.read(RunConfig)
    curve = None
    if run.has(MarlEval) or not run.has(HeldOut):
        with sealed.explain(folder / MarlEval.file):
            curve = _make_curve(run.read(MarlEval).by_seed(config.algorithm))
        held_out = _optional(run, HeldOut.file, lambda: run.read(HeldOut), notes)
    else:
        held_out = run.read(HeldOut)
    spec = _optional(run, SpecDocument.file, lambda: run.read(SpecDocument).spec, notes)
    episodes = _optional(run, replay.FILE, run.read_replay, notes)
    return RunContents(
        folder=folder,
        config=config,
        curve=curve,
        held_out=held_out,
        trust=_optional(run, Trust.file, lambda: run.read(Trust), notes),
        spec=spec,
        metrics=_optional(run, MetricRow.file, lambda: _collect(run), notes),
        summary=_optional(run, Summary.file, lambda: run.read(Summary), notes),
        dataset=_optional(run, DatasetCard.file, lambda: run.read(DatasetCard), notes),
        replay=episodes,
        live=_find_live(run, spec, episodes, notes),
        notes=notes,
    )


def _optional(run: Run, file: str, read: Callable[[], T], notes: dict[str, str]) -> T | None:
    """What a file holds, or None and a note that says why not."""
    if not (run.folder / file).is_file():
        notes[file] = f"This run has no {file}"
        return None
    try:
        return read()
    except (*sealed.DAMAGE, OryxError) as error:
        notes[file] = f"{file} of this run cannot be read ({sealed.tell_why(error)})"
        return None


def _find_live(
    run: Run, spec: Spec | None, episodes: tuple[Episode, ...] | None, notes: dict[str, str]
) -> dict[str, Any] | None:
    """The policy for the page to run, where it can; a page without it is whole."""
    if spec is None or episodes is None:
        return None
    try:
        return live_page.find(run, spec, episodes)
    except (*sealed.DAMAGE, OryxError) as error:
        notes[LIVE] = f"The policy cannot run in this page ({sealed.tell_why(error)})"
        return None


def _make_curve(by_seed: dict[str, SeedEvaluations]) -> Curve:
    """The evaluations of all seeds side by side."""
    if empty := [seed for seed, run in by_seed.items() if not run.by_update]:
        raise ValueError(f"seed {empty[0]} has no evaluation")
    runs = list(by_seed.values())
    updates = sorted({update for run in runs for update in run.by_update})
    scores = np.full((len(runs), len(updates)), np.nan)
    for row, run in enumerate(runs):
        for update, returns in run.by_update.items():
            scores[row, updates.index(update)] = returns.mean()
    last = [run.by_update[max(run.by_update)] for run in runs]
    everything = np.concatenate([each for run in runs for each in run.by_update.values()])
    return Curve(
        seeds=tuple(by_seed),
        updates=np.array(updates),
        scores=scores,
        is_rate=is_binary(everything),
        last=np.array([returns.mean() for returns in last]),
        last_episodes=min(len(returns) for returns in last),
    )


def _collect(run: Run) -> Metrics:
    """The lines of the log as one series for each metric."""
    rows = list(run.rows(MetricRow))
    if not rows:
        raise ValueError("it holds no line")
    updates: dict[str, list[float]] = {}
    values: dict[str, list[np.ndarray]] = {}
    for row in rows:
        for name, per_seed in row.metrics.items():
            updates.setdefault(name, []).append(float(row.update))
            values.setdefault(name, []).append(sealed.to_floats(per_seed))
    series = {name: Series(np.array(updates[name]), np.stack(values[name], 1)) for name in values}
    return Metrics(rows[-1].seconds, series)
