"""Scores as the commands print them."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from oryx_marl.runs.documents import Score

MOST_SEEDS = 10
"""Whose scores are printed side by side."""


def interval(score: Score, decimals: int = 2) -> str:
    """A mean and its interval over seeds."""
    mean, low, high = (f"{each:.{decimals}f}" for each in (score.mean, score.low, score.high))
    if score.has_interval:
        return f"{mean} [{low}, {high}]"
    why = "all seeds equal" if score.is_constant else "one seed"
    return f"{mean} ({why}: no interval)"


def per_seed(values: Sequence[float]) -> str:
    """The scores of the seeds, of many the first."""
    shown = " ".join(f"{value:.2f}" for value in values[:MOST_SEEDS])
    return shown if len(values) <= MOST_SEEDS else f"{shown} and {len(values) - MOST_SEEDS:,} more"


def make_table(heads: Sequence[str], scores: Mapping[Any, Score], metric: str) -> Table:
    """A row for each score: its key, a word for each head; its interval, its worst episodes, their
    lengths, and what the environment reported."""
    rows = {key: _by_column(score, metric) for key, score in scores.items()}
    columns = list(dict.fromkeys(name for row in rows.values() for name in row))
    caption = "in brackets: 95% interval over seeds"
    table = Table(*heads, *columns, "per seed", caption=caption)
    for key, row in rows.items():
        cells = [row.get(name, "") for name in columns]
        table.add_row(*key, *cells, per_seed(scores[key].per_seed))
    return table


def _by_column(score: Score, metric: str) -> dict[str, str]:
    """A score and what was measured in the same episodes, by the heads of their columns."""
    beside = {"worst tenth": score.worst_tenth, "episode length": score.length}
    means = {
        name: interval(each) if each.has_interval else f"{each.mean:.2f}"
        for name, each in beside.items()
        if each is not None
    }
    reported = {name: interval(each) for name, each in score.metrics.items()}
    return {metric: interval(score), **means, **reported}
