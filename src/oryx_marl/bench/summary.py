"""What the records of a suite show: one table, and where teams differ in size one figure."""

from collections.abc import Mapping, Set
from typing import Any, NamedTuple

import numpy as np

from oryx_marl.bench import published, statistics, table
from oryx_marl.bench.suite import Acting, Suite
from oryx_marl.errors import OryxError
from oryx_marl.report import figure

LEAST_SEEDS = 3
"""Below, nothing is marked as best or as good: a test on two seeds finds nothing."""
LEGEND = (
    "weights of the last checkpoint; ± standard deviation over seeds; ( ) not the algorithm's own "
    "way of acting;\n[ ] best on these data; * not significantly worse than it (Welch's t-test, 5% "
    "level)"
)

Records = Mapping[tuple[str, str], dict[str, Any]]
"""Of finished cells by variant and dataset."""


class Scores(NamedTuple):
    """What the last weights of one row score, one number per seed."""

    by_acting: dict[str, np.ndarray]
    own_acting: Acting

    @staticmethod
    def of(suite: Suite, variant: str, scores: Mapping[str, Any]) -> "Scores":
        """Those of a record."""
        last = scores["last"]
        found = {acting: np.array(last[acting]["per_seed"]) for acting in ("sampled", "greedy")}
        return Scores(found, suite.variants[variant].own_acting(last))

    @property
    def own(self) -> np.ndarray:
        """By the algorithm's own way of acting."""
        return self.by_acting[self.own_acting]


def make_table(suite: Suite, records: Records) -> table.Table:
    """All that is finished."""
    if not records:
        raise OryxError(f"nothing of suite '{suite.name}' is finished yet")
    return _by_dataset(suite, records) if suite.is_scaling else _by_algorithm(suite, records)


def merge_marl_eval(records: Records) -> dict[str, Any]:
    """Scores of all cells in one document, as marl-eval reads them."""
    merged: dict[str, Any] = {}
    for record in records.values():
        for environment, tasks in record["marl_eval"].items():
            for task, algorithms in tasks.items():
                place = merged.setdefault(environment, {}).setdefault(task, {})
                place[record["variant"]] = next(iter(algorithms.values()))
    return merged


def make_figure(suite: Suite, records: Records) -> str:
    """Normalised scores over the number of agents with 95% intervals over seeds, as SVG.

    What diverged is a cross.
    """
    series: dict[str, list[figure.Point]] = {}
    for (variant, _), record in records.items():
        last = record["scores"]["last"]
        score = last[suite.variants[variant].own_acting(last)]
        ends = [score["mean"] if score[end] is None else score[end] for end in ("low", "high")]
        shares = _normalise(np.array([score["mean"], *ends]), record["references"])
        if shares is not None:
            mean, low, high = shares.tolist()
            is_lost = bool(record.get("diverged"))
            point = figure.Point(record["num_agents"], mean, low, high, is_lost)
            series.setdefault(variant, []).append(point)
    ordered = {name: sorted(series[name]) for name in suite.variants if name in series}
    is_any_lost = any(point.is_lost for each in ordered.values() for point in each)
    return figure.points(
        f"{suite.name}: score over the number of agents{' (cross: diverged)' * is_any_lost}",
        "agents",
        "0: random, 1: expert",
        ordered,
    )


def _by_dataset(suite: Suite, records: Records) -> table.Table:
    """Datasets and algorithms down; our scores, and what they are measured against."""
    entries = []
    for dataset in suite.datasets:
        found = {name: record for (name, of), record in records.items() if of == dataset}
        lost = {name for name, record in found.items() if record.get("diverged")}
        rows = {
            name: (dataset, name + " (diverged)" * (name in lost), suite.variants[name].tuned_over)
            for name in found
        }
        scores = {name: Scores.of(suite, name, record["scores"]) for name, record in found.items()}
        for name, cells in _compare(scores, lost).items():
            entries += [table.Entry(rows[name], *each) for each in cells.items()]
        for name, record in found.items():
            references = record["references"]
            shares = _normalise(scores[name].own, references)
            if shares is not None:
                cell = table.Cell(*statistics.mean_std(shares)[:2])
                entries.append(table.Entry(rows[name], "of expert", cell))
            for column, value in references.items():
                if value is not None:
                    entries.append(table.Entry(rows[name], column, table.Cell(value)))
            cell = table.Cell(record["wall_seconds"] / 60, decimals=1)
            entries.append(table.Entry(rows[name], "minutes", cell))
        for score in _published(suite, dataset):
            if score.algorithm in rows:
                cell = table.Cell(score.mean, score.std)
                entries.append(table.Entry(rows[score.algorithm], "paper", cell))
    columns = ["sampled", "greedy", "of expert", "random", "data", "expert", "paper", "minutes"]
    labels = ["dataset", "algorithm", "tuned over"]
    return table.choose_columns(table.arrange(labels, entries), columns)


def _normalise(scores: np.ndarray, references: dict[str, float | None]) -> np.ndarray | None:
    """0 is random, 1 the expert; None where no expert is known."""
    random, expert = references["random"], references["expert"]
    if random is None or expert is None:
        return None
    return statistics.by_random_and_expert(scores, random, expert)


def _by_algorithm(suite: Suite, records: Records) -> table.Table:
    """Algorithms down; for each dataset our sampled and greedy scores, minutes, and the paper's."""
    entries = []
    rows = {
        name: (name, variant.tuned_over)
        for main, variant in suite.variants.items()
        for name in (main, *variant.acting)
    }
    for dataset in suite.datasets:
        data = _short(dataset)
        found = {name: record for (name, of), record in records.items() if of == dataset}
        scores = {
            name: Scores.of(suite, main, each)
            for main, record in found.items()
            for name, each in {main: record["scores"], **record["acting"]}.items()
        }
        for name, cells in _compare(scores).items():
            entries += [table.Entry(rows[name], f"{data}, {a}", cell) for a, cell in cells.items()]
        for name, record in found.items():
            cell = table.Cell(record["wall_seconds"] / 60, decimals=1)
            entries.append(table.Entry(rows[name], f"{data}, minutes", cell))
        for score in _published(suite, dataset):
            if score.algorithm in scores:
                cell = table.Cell(score.mean, score.std)
                entries.append(table.Entry(rows[score.algorithm], f"{data}, paper", cell))
    order = [*rows]
    entries.sort(key=lambda entry: order.index(entry.row[0]))
    columns = [
        f"{_short(dataset)}, {kind}"
        for dataset in suite.datasets
        for kind in ("sampled", "greedy", "paper", "minutes")
    ]
    return table.choose_columns(table.arrange(["algorithm", "tuned over"], entries), columns)


def _compare(
    scores: Mapping[str, Scores], lost: Set[str] = frozenset()
) -> dict[str, dict[str, table.Cell]]:
    """Mean and spread of each, by way of acting; each is compared by its own way alone.

    The best and those not significantly worse are marked, and what is as high as the best in the
    digits that are printed is marked as best too. Those that are `lost`, because they diverged, are
    not compared: their spread would hide any difference.
    """
    cells = {name: table.Cell(*statistics.mean_std(s.own)[:2]) for name, s in scores.items()}
    compared = {name: s.own for name, s in scores.items() if name not in lost}
    if len(cells) > 1 and compared and min(len(s.own) for s in scores.values()) >= LEAST_SEEDS:
        ranking = statistics.not_significantly_worse(compared)
        highest = cells[ranking.best].mean_text
        for name in compared:
            is_best = cells[name].mean_text == highest
            cells[name] = cells[name]._replace(
                best=is_best, star=not is_best and name in ranking.alike
            )
    return {
        name: {
            acting: cells[name]
            if acting == s.own_acting
            else table.Cell(*statistics.mean_std(runs)[:2], aside=True)
            for acting, runs in s.by_acting.items()
        }
        for name, s in scores.items()
    }


def _short(dataset: str) -> str:
    """A dataset without its family, or an environment."""
    return dataset.split("/")[-1]


def _published(suite: Suite, dataset: str) -> list[published.Score]:
    environment, _, quality = dataset.partition("/")
    wanted = suite.published.get(dataset, {"environment": environment, "dataset": quality})
    try:
        return published.scores(**wanted)
    except OryxError:  # the paper has nothing on this one
        return []
