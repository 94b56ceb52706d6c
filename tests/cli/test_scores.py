"""Scores as people read them."""

import math

from oryx_marl.cli.scores import interval, per_seed
from oryx_marl.runs.documents import Score


def test_an_interval_is_shown_only_where_there_is_one() -> None:
    """Two equal seeds had one of width zero, which looked like certainty."""
    assert interval(Score(0.5, 0.25, 0.75, (0.4, 0.6))) == "0.50 [0.25, 0.75]"
    assert interval(Score(0.525, 0.25, 0.75, (0.4, 0.65)), 3) == "0.525 [0.250, 0.750]"
    assert interval(Score(1.0, 1.0, 1.0, (1.0, 1.0))) == "1.00 (all seeds equal: no interval)"
    assert interval(Score(1.0, math.nan, math.nan, (1.0,))) == "1.00 (one seed: no interval)"


def test_the_scores_of_many_seeds_are_not_all_printed() -> None:
    assert per_seed((0.5, 1.0)) == "0.50 1.00"
    assert per_seed((0.5,) * 1_000).endswith("0.50 and 990 more")
