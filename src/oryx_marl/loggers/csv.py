"""Tables for spreadsheets and notebooks: metrics.csv and evaluations.csv in the run's folder."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from oryx_marl import files
from oryx_marl.loggers.base import Line, Logger, Scalar, lines_of, scalars
from oryx_marl.runs.documents import Evaluation, MetricRow, RunConfig
from oryx_marl.runs.folder import Run

FIXED = ("update", "seconds", "seed")
"""Columns that every table begins with; one column for each metric follows."""
FILES = {"train": "metrics.csv", "evaluation": "evaluations.csv"}


def make() -> "CsvLogger":
    """The logger."""
    return CsvLogger()


class CsvLogger(Logger):
    """One line for each update and seed.

    A run that goes on has its tables made again from its own logs, so no line is there twice.
    """

    name = "csv"

    def on_begin(self, run: Run, update: int) -> None:
        self._seeds = run.read(RunConfig).seeds
        self._tables = {kind: _Table(run.folder / file) for kind, file in FILES.items()}
        for row in lines_of(run):
            self._add(row)

    def on_log(self, row: MetricRow) -> None:
        self._add(row)

    def on_evaluation(self, row: Evaluation) -> None:
        self._add(row)

    def _add(self, row: Line) -> None:
        by_seed: dict[int, list[Scalar]] = {seed: [] for seed in self._seeds}
        for each in scalars(row, self._seeds):
            by_seed[each.seed].append(each)
        for seed, found in by_seed.items():
            values = {each.name.partition("/")[2]: each.value for each in found}
            kind = "train" if isinstance(row, MetricRow) else "evaluation"
            self._tables[kind].add((row.update, row.seconds, seed), values)


class _Table:
    """A CSV file that grows by lines; a column that appears later is empty before."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._columns: list[str] = [*FIXED]
        path.unlink(missing_ok=True)

    def add(self, fixed: Sequence[float], values: dict[str, float]) -> None:
        line = {**dict(zip(FIXED, fixed, strict=True)), **values}
        new = [name for name in line if name not in self._columns]
        if new or not self._path.exists():
            self._columns += new
            self._widen()
        with self._path.open("a", newline="", encoding="utf-8") as file:
            csv.DictWriter(file, self._columns).writerow(line)

    def _widen(self) -> None:
        """Writes the file again with all columns."""
        before: list[dict[str, str]] = []
        if self._path.exists():
            with self._path.open(newline="", encoding="utf-8") as file:
                before = list(csv.DictReader(file))
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, self._columns)
        writer.writeheader()
        writer.writerows(before)
        files.write_text(self._path, text.getvalue())
