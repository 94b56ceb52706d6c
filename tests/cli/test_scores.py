"""Scores as people read them."""

import math

from oryx_marl.cli.console import PlainConsole
from oryx_marl.cli.scores import interval, make_table, per_seed
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


def test_a_table_of_ways_of_acting() -> None:
    """What a score does not have stays empty; names of metrics are no markup."""
    worst, length = Score(0.125, 0.0, 0.25, (0.0, 0.25)), Score(7.0, 6.0, 8.0, (6.5, 7.5))
    near = {"[near]": Score(1.0, 0.9, 1.0, (1.0, 0.9))}
    whole = Score(0.5, 0.25, 0.75, (0.4, 0.6), (), near, worst, length)
    scores = {("sampled",): whole, ("0.25",): Score(0.75, 0.5, 1.0, (0.7, 0.8))}
    console = PlainConsole()
    console.width = 300
    with console.capture() as shown:
        console.print(make_table(("acting",), scores, "return"))
    lines = [line for line in shown.get().splitlines() if "sampled" in line or "0.25 " in line]
    first = [cell.strip() for cell in lines[0].strip("│").split("│")]
    assert first == [
        "sampled",
        "0.50 [0.25, 0.75]",
        "0.12 [0.00, 0.25]",
        "7.00 [6.00, 8.00]",
        "1.00 [0.90, 1.00]",
        "0.40 0.60",
    ]
    second = [cell.strip() for cell in lines[1].strip("│").split("│")]
    assert second == ["0.25", "0.75 [0.50, 1.00]", "", "", "", "0.70 0.80"]
    assert "[near]" in shown.get()
    assert "worst tenth" in shown.get()
