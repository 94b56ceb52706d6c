"""TensorBoard: event files in the run's folder, `tensorboard --logdir runs` shows all runs."""

import json
import time
from typing import Any

from oryx_marl.installation import optional
from oryx_marl.loggers.base import (
    Line,
    Logger,
    final_scores,
    hyperparameters,
    lines_of,
    means,
    scalars,
)
from oryx_marl.runs.documents import Evaluation, MetricRow, RunConfig, Summary
from oryx_marl.runs.folder import Run

FOLDER = "tensorboard"
MEAN = "mean"
"""Series of the means over seeds; the others are seed_0, seed_1, ..."""


def make() -> "TensorBoardLogger":
    """The logger; raises if the package is missing."""
    return TensorBoardLogger(optional("tensorboardX", "tensorboard"))


class TensorBoardLogger(Logger):
    """One series for each seed and one for their mean, over updates.

    A run that goes on writes what it has so far again, behind an event that makes TensorBoard drop
    all that it has read of the run: lines that a kill has taken or that are trained again are there
    once, in a TensorBoard that is open too.
    """

    name = "tensorboard"

    def __init__(self, package: Any) -> None:
        self._package = package

    def on_begin(self, run: Run, update: int) -> None:
        self._folder = run.folder / FOLDER
        self._config = run.read(RunConfig)
        self._seeds = self._config.seeds
        names = [f"seed_{seed}" for seed in self._seeds]
        folders = names if len(names) == 1 else [MEAN, *names]
        restart = {"purge_step": 0} if self._folder.exists() else {}
        self._writers = {
            name: self._package.SummaryWriter(logdir=str(self._folder / name), **restart)
            for name in folders
        }
        first = self._writers[folders[0]]
        first.add_text("config", f"```json\n{json.dumps(self._config.to_json(), indent=1)}\n```")
        before = lines_of(run)
        self._began = time.time() - max((row.seconds for row in before), default=0.0)
        for row in before:
            self._add(row)
        self.on_checkpoint(update)

    def on_log(self, row: MetricRow) -> None:
        self._add(row)

    def on_evaluation(self, row: Evaluation) -> None:
        self._add(row)

    def _add(self, row: Line) -> None:
        found = [*scalars(row, self._seeds)]
        at = {"global_step": row.update, "walltime": self._began + row.seconds}
        for each in found:
            self._writers[f"seed_{each.seed}"].add_scalar(each.name, each.value, **at)
        if MEAN in self._writers:
            for name, value in means(found).items():
                self._writers[MEAN].add_scalar(name, value, **at)

    def on_checkpoint(self, update: int) -> None:
        for writer in self._writers.values():
            writer.flush()

    def on_end(self, summary: Summary | None) -> None:
        scores = {} if summary is None else final_scores(summary)
        settings, updates = hyperparameters(self._config), self._config.updates
        # In a folder of its own: TensorBoard reads the settings of a folder once, and a run that
        # trains on has other scores.
        writer = next(iter(self._writers.values()))
        writer.add_hparams(settings, scores, name=f"after_{updates}_updates", global_step=updates)

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()
