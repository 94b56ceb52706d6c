"""What the records of a suite show: one table, and where teams differ in size one figure."""

from collections.abc import Mapping, Set
from typing import Any

import numpy as np

from oryx_marl.bench import published, statistics, table
from oryx_marl.bench.suite import Suite
from oryx_marl.errors import OryxError
from oryx_marl.report import figure

LEAST_SEEDS = 3
"""Below, nothing is marked as best or as good: a test on two seeds finds nothing."""
LEGEND = (
    "± standard deviation over seeds; [ ] best on these data; * not significantly worse than it "
    "(Welch's t-test, 5% level)"
)

Records = Mapping[tuple[str, str], dict[str, Any]]
"""Of finished cells by variant and dataset."""


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
        score = record["scores"]["last"]["sampled"]
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
        rows = {
            name + (" (diverged)" if record.get("diverged") else ""): record
            for (name, of), record in records.items()
            if of == dataset
        }
        for acting in ("sampled", "greedy"):
            runs = {
                name: np.array(record["scores"]["last"][acting]["per_seed"])
                for name, record in rows.items()
            }
            lost = {name for name, record in rows.items() if record.get("diverged")}
            for name, cell in _compare(runs, lost).items():
                entries.append(table.Entry((dataset, name), acting, cell))
        for name, record in rows.items():
            references = record["references"]
            scores = np.array(record["scores"]["last"]["sampled"]["per_seed"])
            shares = _normalise(scores, references)
            if shares is not None:
                cell = table.Cell(*statistics.mean_std(shares)[:2])
                entries.append(table.Entry((dataset, name), "of expert", cell))
            for column, value in references.items():
                if value is not None:
                    entries.append(table.Entry((dataset, name), column, table.Cell(value)))
            cell = table.Cell(record["wall_seconds"] / 60, decimals=1)
            entries.append(table.Entry((dataset, name), "minutes", cell))
    columns = ["sampled", "greedy", "of expert", "random", "data", "expert", "minutes"]
    return table.choose_columns(table.arrange(["dataset", "algorithm"], entries), columns)


def _normalise(scores: np.ndarray, references: dict[str, float | None]) -> np.ndarray | None:
    """0 is random, 1 the expert; None where no expert is known."""
    random, expert = references["random"], references["expert"]
    if random is None or expert is None:
        return None
    return statistics.by_random_and_expert(scores, random, expert)


def _by_algorithm(suite: Suite, records: Records) -> table.Table:
    """Algorithms down; for each dataset our sampled and greedy scores, minutes, and the paper's."""
    entries = []
    for dataset in suite.datasets:
        data = _short(dataset)
        rows = {
            name: scores
            for (_, of), record in records.items()
            if of == dataset
            for name, scores in {record["variant"]: record["scores"], **record["acting"]}.items()
        }
        for acting in ("sampled", "greedy"):
            runs = {name: np.array(s["last"][acting]["per_seed"]) for name, s in rows.items()}
            for name, cell in _compare(runs).items():
                entries.append(table.Entry((name,), f"{data}, {acting}", cell))
        for (name, of), record in records.items():
            if of == dataset:
                cell = table.Cell(record["wall_seconds"] / 60, decimals=1)
                entries.append(table.Entry((name,), f"{data}, minutes", cell))
        for score in _published(dataset):
            if score.algorithm in rows:
                cell = table.Cell(score.mean, score.std)
                entries.append(table.Entry((score.algorithm,), f"{data}, paper", cell))
    order = [name for variant, v in suite.variants.items() for name in (variant, *v.acting)]
    entries.sort(key=lambda entry: order.index(entry.row[0]))
    columns = [
        f"{_short(dataset)}, {kind}"
        for dataset in suite.datasets
        for kind in ("sampled", "greedy", "paper", "minutes")
    ]
    found = table.arrange(["algorithm"], entries)
    return table.choose_columns(found, columns)


def _compare(runs: dict[str, np.ndarray], lost: Set[str] = frozenset()) -> dict[str, table.Cell]:
    """Mean and spread of each, the best and those not significantly worse marked.

    What is as high as the best in the digits that are printed is marked as best too. Those that are
    `lost`, because they diverged, are not compared: their spread would hide any difference.
    """
    found = {name: statistics.mean_std(scores) for name, scores in runs.items()}
    cells = {name: table.Cell(each.mean, each.std) for name, each in found.items()}
    compared = {name: each for name, each in found.items() if name not in lost}
    if len(runs) < 2 or not compared or min(map(len, runs.values())) < LEAST_SEEDS:
        return cells
    ranking = statistics.not_significantly_worse(compared)
    highest = cells[ranking.best].mean_text
    return {
        name: cell._replace(
            best=name in compared and cell.mean_text == highest,
            star=cell.mean_text != highest and name in ranking.alike,
        )
        for name, cell in cells.items()
    }


def _short(dataset: str) -> str:
    """A dataset without its family, or an environment."""
    return dataset.split("/")[-1]


def _published(dataset: str) -> list[published.Score]:
    environment, _, quality = dataset.partition("/")
    try:
        return published.scores(environment=environment, dataset=quality)
    except OryxError:  # the paper has nothing on this one
        return []
