"""Scores as the commands print them."""

from collections.abc import Sequence

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
