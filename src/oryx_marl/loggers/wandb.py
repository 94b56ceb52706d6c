"""Weights & Biases: one W&B run for each run; offline where WANDB_MODE says so."""

import os
import uuid
from dataclasses import dataclass, replace
from typing import Any

from oryx_marl.installation import optional
from oryx_marl.loggers.base import Line, Logger, final_scores, lines_of, means, scalars
from oryx_marl.runs.documents import Evaluation, MetricRow, RunConfig, Summary
from oryx_marl.runs.folder import Run
from oryx_marl.runs.sealed import Document, require_object

PROJECT = "oryx-marl"
"""Unless WANDB_PROJECT names another."""
STEP = "update"
"""What W&B draws over: its own steps count calls, and a step is never written twice."""


@dataclass(frozen=True)
class WandbState(Document):
    """Which W&B run a run is logged to, and how far: what it has is not sent again."""

    file = "wandb.json"
    id: str
    metrics: int = 0
    """Update of the last line of metrics.jsonl that was sent."""
    evaluations: int = 0
    """The same of evaluations.jsonl."""

    @classmethod
    def from_json(cls, values: Any) -> "WandbState":
        found = require_object(values)
        return cls(str(found["id"]), int(found["metrics"]), int(found["evaluations"]))

    def to_json(self) -> dict[str, Any]:
        return {"id": self.id, "metrics": self.metrics, "evaluations": self.evaluations}


def make() -> "WandbLogger":
    """The logger; raises if the package is missing."""
    return WandbLogger(optional("wandb", "wandb"))


class WandbLogger(Logger):
    """Means over seeds under their names, and `metric/seed_0` ... beside them if there are several.

    A resumed training repeats what came after its checkpoint exactly, so lines that W&B has already
    are left out, and lines that were written without the logger are sent first.
    """

    name = "wandb"

    def __init__(self, package: Any) -> None:
        self._package = package
        self._wandb: Any = None
        self._has_ended = False

    def on_begin(self, run: Run, update: int) -> None:
        self._run = run
        self._config = run.read(RunConfig)
        fresh = WandbState(uuid.uuid4().hex[:12])
        self._state = run.read(WandbState) if run.has(WandbState) else fresh
        is_offline = os.environ.get("WANDB_MODE") in ("offline", "dryrun")
        self._wandb = self._package.init(
            id=self._state.id,
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            name=run.folder.name,
            dir=str(run.folder),
            config=self._config.to_json(),
            resume=None if is_offline else "allow",  # offline, folders of one id are joined by sync
            settings=self._package.Settings(console="off"),
        )
        self._wandb.define_metric(STEP)
        self._wandb.define_metric("*", step_metric=STEP)
        for row in lines_of(run):
            self._add(row)

    def on_log(self, row: MetricRow) -> None:
        self._add(row)

    def on_evaluation(self, row: Evaluation) -> None:
        self._add(row)

    def _add(self, row: Line) -> None:
        is_metric, state = isinstance(row, MetricRow), self._state
        if row.update <= (state.metrics if is_metric else state.evaluations):
            return
        found = [*scalars(row, self._config.seeds)]
        values = means(found)
        if len(self._config.seeds) > 1:
            values |= {f"{each.name}/seed_{each.seed}": each.value for each in found}
        self._wandb.log({STEP: row.update, "seconds": row.seconds, **values})
        if is_metric:
            self._state = replace(state, metrics=row.update)
        else:
            self._state = replace(state, evaluations=row.update)
        self._run.write(self._state)

    def on_end(self, summary: Summary | None) -> None:
        if summary is not None:
            self._wandb.summary.update(final_scores(summary))
        self._has_ended = True

    def close(self) -> None:
        if self._wandb is not None:
            self._wandb.finish(exit_code=0 if self._has_ended else 1)
