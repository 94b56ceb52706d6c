"""Scores as the commands print them."""

import math

from oryx_marl.runs.documents import Score


def interval(score: Score) -> str:
    """A mean and its interval over seeds."""
    if math.isnan(score.low):
        return f"{score.mean:.2f} (one seed: no interval)"
    return f"{score.mean:.2f} [{score.low:.2f}, {score.high:.2f}]"
