"""Published numbers: scores of the Oryx paper's tables, and facts about the public datasets.

The files in `tables/` hold them as printed; what a file does not say is None.
"""

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from textwrap import fill
from typing import TypeVar

from oryx_marl.bench.table import Cell, Entry, Table, arrange
from oryx_marl.data.hub import archives as hub
from oryx_marl.errors import OryxError

TABLES = Path(__file__).parent / "tables"
LEGEND = "± as published; by the paper: [ ] best on these data, * not significantly worse than it"
MOST_DECIMALS = 2
"""The paper prints no more."""

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Score:
    """One algorithm on one dataset, over seeds."""

    environment: str
    dataset: str
    algorithm: str
    mean: float
    std: float
    scenario: str | None = None
    source: str | None = None
    """Who recorded the dataset; the same scenario and quality exist from several."""
    metric: str | None = None
    best: bool | None = None
    """Bold in the paper: the highest mean on this dataset."""
    not_significantly_worse: bool | None = None
    """Starred in the paper: by its t-test not told from the best."""


@dataclass(frozen=True)
class Aggregate:
    """One algorithm over all datasets of an environment, with a 95% bootstrap interval."""

    environment: str
    metric: str
    algorithm: str
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class DatasetFacts:
    """What is known about a public dataset; shapes are those of one step."""

    environment: str
    scenario: str
    transitions: int
    mean_return: float
    min_return: float
    max_return: float
    std_return: float | None = None
    source: str | None = None
    dataset: str | None = None
    action_space: str | None = None
    num_agents: int | None = None
    observation_size: int | None = None
    actions_shape: Shape | None = None
    legals_shape: Shape | None = None
    state_shape: Shape | None = None
    other_infos: str | None = None
    episodes: int | None = None
    joint_coverage: float | None = None
    """Share of distinct joint state-action pairs."""
    has_truncations: bool | None = None


Record = TypeVar("Record", Score, Aggregate, DatasetFacts)


def scores(
    environment: str | None = None,
    dataset: str | None = None,
    algorithm: str | None = None,
    scenario: str | None = None,
    source: str | None = None,
) -> list[Score]:
    """Scores of the benchmark and of T-Maze; each argument narrows them, in any case of letters."""
    found = [_benchmark_score(row) for row in read("benchmark")]
    found += [_tmaze_score(row) for row in read("tmaze")]
    wanted = {
        "environment": environment,
        "source": source,
        "scenario": scenario,
        "dataset": dataset,
        "algorithm": algorithm,
    }
    return _select("score", found, wanted)


def overview() -> str:
    """What scores there are, environment by environment, in the words that narrow them."""
    lines = []
    for environment in dict.fromkeys(score.environment for score in scores()):
        found = scores(environment)
        lines.append(f"{environment}: {len(found)} scores")
        for field in ("scenario", "dataset", "algorithm"):
            values = dict.fromkeys(getattr(score, field) for score in found)
            names = ", ".join(value for value in values if value is not None)
            if names:
                label = f"  {field:<11}"
                lines.append(fill(names, 96, initial_indent=label, subsequent_indent=" " * 13))
    return "\n".join(lines) + "\n"


def aggregates() -> list[Aggregate]:
    """MAT+ICQ against Oryx, normalised by the highest return of each dataset."""
    return [
        Aggregate(
            row["env"],
            row["metric"],
            row["algorithm"],
            float(row["value"]),
            float(row["ci_low"]),
            float(row["ci_high"]),
        )
        for row in read("mat_vs_oryx")
    ]


def datasets(
    environment: str | None = None,
    dataset: str | None = None,
    scenario: str | None = None,
    source: str | None = None,
) -> list[DatasetFacts]:
    """Datasets that OG-MARL offers, and the paper's of Connector; each argument narrows them."""
    found = [_og_marl_dataset(row) for row in hub.cards()]
    found += [_connector_dataset(row) for row in read("connector_datasets")]
    wanted = {
        "environment": environment,
        "source": source,
        "scenario": scenario,
        "dataset": dataset,
    }
    return _select("dataset", found, wanted)


def as_table(found: Sequence[Score]) -> Table:
    """Algorithms as columns, datasets as rows, with as many decimals as a row's numbers have."""
    labels = ("environment", "source", "scenario", "dataset", "metric")
    rows = [tuple(getattr(score, label) or "" for label in labels) for score in found]
    decimals: dict[tuple[str, ...], int] = {}
    for row, score in zip(rows, found, strict=True):
        decimals[row] = max(decimals.get(row, 0), _decimals(score.mean), _decimals(score.std))
    return arrange(
        labels,
        (
            Entry(row, score.algorithm, _cell(score, decimals[row]))
            for row, score in zip(rows, found, strict=True)
        ),
    )


@cache
def read(name: str) -> tuple[dict[str, str], ...]:
    """Rows of a file in `tables/`, by the names of its first line."""
    with (TABLES / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return tuple(csv.DictReader(file))


def _benchmark_score(row: dict[str, str]) -> Score:
    return Score(
        environment=row["env"],
        dataset=row["dataset"],
        algorithm=row["algorithm"],
        mean=float(row["mean"]),
        std=float(row["std"]),
        scenario=row["scenario"],
        source=row["source"],
        metric=row["metric"],
        best=row["paper_best"] == "1",
        not_significantly_worse=row["paper_not_significantly_worse"] == "1",
    )


def _tmaze_score(row: dict[str, str]) -> Score:
    return Score(
        environment="tmaze",
        dataset=row["dataset"],
        algorithm=row["algorithm"],
        mean=float(row["mean"]),
        std=float(row["std"]),
    )


def _og_marl_dataset(row: dict[str, str]) -> DatasetFacts:
    return DatasetFacts(
        environment=row["env"],
        scenario=row["scenario"],
        transitions=int(row["transitions"]),
        mean_return=float(row["mean_return"]),
        min_return=float(row["min_return"]),
        max_return=float(row["max_return"]),
        std_return=float(row["std_return"]),
        source=row["source"],
        dataset=row["dataset"],
        action_space=row["action_space"],
        num_agents=int(row["num_agents"]),
        observation_size=int(row["obs_dim"]),
        actions_shape=_shape(row["actions_shape"]),
        legals_shape=_shape(row["legals_shape"]),
        state_shape=_shape(row["state_shape"]),
        other_infos=row["other_infos"] or None,
        episodes=int(row["episodes"]),
        joint_coverage=float(row["joint_saco"]),
        has_truncations=row["has_truncations"] == "1",
    )


def _connector_dataset(row: dict[str, str]) -> DatasetFacts:
    return DatasetFacts(
        environment="connector",
        scenario=row["task"],
        transitions=int(row["samples"]),
        mean_return=float(row["mean_return"]),
        min_return=float(row["min_return"]),
        max_return=float(row["max_return"]),
    )


def _shape(text: str) -> Shape | None:
    """`2x70` is (2, 70)."""
    return tuple(int(size) for size in text.split("x")) if text else None


def _select(kind: str, records: list[Record], wanted: dict[str, str | None]) -> list[Record]:
    """Records with the wanted values, or an error that lists what could have been asked for."""
    said = ""
    for field, value in wanted.items():
        if value is None:
            continue
        known = [getattr(record, field) for record in records]
        records = [
            record
            for record, have in zip(records, known, strict=True)
            if have is not None and have.casefold() == value.casefold()
        ]
        if not records:
            raise OryxError(
                f"there is no published {kind} with {field} '{value}'{said}; "
                f"there is: {_listed(known)}"
            )
        said += f"{',' if said else ' for'} {field} '{value}'"
    return records


def _listed(values: Iterable[str | None]) -> str:
    return ", ".join(sorted({value for value in values if value is not None})) or "none"


def _cell(score: Score, decimals: int) -> Cell:
    return Cell(
        score.mean, score.std, bool(score.best), bool(score.not_significantly_worse), decimals
    )


def _decimals(value: float) -> int:
    """Digits after the point, as printed."""
    exponent = Decimal(str(value)).as_tuple().exponent
    return min(max(-int(exponent), 0), MOST_DECIMALS)
