"""Callbacks: the events of a training, and who is told of them.

A logger is a callback that passes numbers on to another program (TensorBoard, W&B, a table). It is
a convenience: when it fails, that is told once and the training goes on without it. The exceptions
of every other callback are not caught: they are the user's own code, and the run can be resumed.
"""

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from oryx_marl import config as configs
from oryx_marl import registry, texts
from oryx_marl.errors import OryxError, OryxWarning
from oryx_marl.runs.documents import Evaluation, MetricRow, RunConfig, Summary
from oryx_marl.runs.folder import Run

ROOM = "loggers"


class Callback:
    """Told of the events of a training; override those that matter.

    `run` is the run's folder (`run.folder`, `run.read(RunConfig)`, `run.rows(MetricRow)`). With
    several processes only the first one's callbacks are told.
    """

    def on_begin(self, run: Run, update: int) -> None:
        """Training begins, or goes on after `update` updates: lines after it are written anew."""

    def on_log(self, row: MetricRow) -> None:
        """A line was added to metrics.jsonl: `row.metrics` has one number for each seed."""

    def on_evaluation(self, row: Evaluation) -> None:
        """Weights were scored: `row.returns` [S, episodes], and `row.metrics` by name."""

    def on_checkpoint(self, update: int) -> None:
        """A checkpoint of this update is on the disk."""

    def on_end(self, summary: Summary | None) -> None:
        """The run has ended; its scores, where there is an environment to score in."""

    def close(self) -> None:
        """Nothing more will happen: the run has ended, was stopped, or failed."""


class Logger(Callback):
    """A callback that passes numbers on. Its failures end the logger, never the training."""

    name: str
    """As `--log` has it."""


class Callbacks(Callback):
    """All callbacks of a training, told in their order."""

    def __init__(self, callbacks: Iterable[Callback] = ()) -> None:
        self._told = list(callbacks)

    def on_begin(self, run: Run, update: int) -> None:
        self._tell(lambda each: each.on_begin(run, update))

    def on_log(self, row: MetricRow) -> None:
        self._tell(lambda each: each.on_log(row))

    def on_evaluation(self, row: Evaluation) -> None:
        self._tell(lambda each: each.on_evaluation(row))

    def on_checkpoint(self, update: int) -> None:
        self._tell(lambda each: each.on_checkpoint(update))

    def on_end(self, summary: Summary | None) -> None:
        self._tell(lambda each: each.on_end(summary))

    def close(self) -> None:
        self._tell(lambda each: each.close())

    def _tell(self, event: Callable[[Callback], None]) -> None:
        for callback in [*self._told]:
            try:
                event(callback)
            except Exception as error:
                if not isinstance(callback, Logger):
                    raise
                self._told.remove(callback)
                warnings.warn(
                    f"logging to {callback.name} has failed and ends here "
                    f"({type(error).__name__}: {texts.first_line(error)}); the training goes on, "
                    "and the run's own metrics.jsonl has everything",
                    OryxWarning,
                    stacklevel=3,
                )


NOBODY = Callbacks()


def make(names: Sequence[str]) -> list[Logger]:
    """The loggers of these names; raises before any work if a package is missing."""
    if twice := {name for name in names if list(names).count(name) > 1}:
        raise OryxError(f"each logger can be named once; given twice: {', '.join(sorted(twice))}")
    return [registry.load(ROOM, name).make() for name in names]


class Scalar(NamedTuple):
    """One number of one seed."""

    name: str
    """Such as train/policy_loss or evaluation/return."""
    seed: int
    value: float


Line = MetricRow | Evaluation


def lines_of(run: Run) -> list[Line]:
    """All lines that a run has logged so far, in the order of their updates."""
    found: list[Line] = [*run.rows(MetricRow), *run.rows(Evaluation)]
    return sorted(found, key=lambda row: row.update)


def scalars(row: Line, seeds: Sequence[int]) -> Iterator[Scalar]:
    """The numbers of a line, one for each seed; an evaluation's are means over its episodes.

    What is not known (a seed that diverged, a metric that no episode reported) is left out.
    """
    for name, values in _by_name(row).items():
        for seed, value in zip(seeds, values, strict=True):
            if value is not None and math.isfinite(value):
                yield Scalar(name, seed, float(value))


def _by_name(row: Line) -> dict[str, Sequence[float | None]]:
    if isinstance(row, MetricRow):
        return {f"train/{name}": values for name, values in row.metrics.items()}
    found = {"return": row.returns, **row.metrics}
    return {f"evaluation/{name}": _mean(table) for name, table in found.items()}


def _mean(table: np.ndarray) -> list[float]:
    """Over each seed's episodes that have a number; NaN where none has."""
    is_known = np.isfinite(table)
    counts = is_known.sum(axis=1)
    totals = np.where(is_known, table, 0.0).sum(axis=1)
    return np.where(counts > 0, totals / np.maximum(counts, 1), np.nan).tolist()


def means(found: Iterable[Scalar]) -> dict[str, float]:
    """Means over the seeds, by name."""
    by_name: dict[str, list[float]] = {}
    for each in found:
        by_name.setdefault(each.name, []).append(each.value)
    return {name: sum(values) / len(values) for name, values in by_name.items()}


def final_scores(summary: Summary) -> dict[str, float]:
    """The means over seeds of a run's scores, such as final/last/sampled."""
    return {
        f"final/{weights}/{acting}": score.mean
        for (weights, acting), score in summary.scores.items()
        if math.isfinite(score.mean)
    }


def hyperparameters(config: RunConfig) -> dict[str, Any]:
    """Settings of a run by name, nested ones as `group/name`; only what a dashboard can show."""
    about = {"algorithm": config.algorithm, "dataset": config.dataset, "updates": config.updates}
    given = {**about, "seeds": len(config.seeds), **configs.flatten(config.config)}
    return {
        name: value if isinstance(value, bool | int | float | str) else str(value)
        for name, value in given.items()
        if value is not None
    }
