"""Paired tests between the algorithms of a suite, on the episodes that both have played."""

import math
from collections.abc import Mapping

from oryx_marl.bench import statistics
from oryx_marl.bench.record import CellRecord
from oryx_marl.bench.suite import Suite
from oryx_marl.bench.summary import LEAST_SEEDS, Records, Scores
from oryx_marl.bench.table import Cell, Row, Table
from oryx_marl.errors import OryxError

LABELS = ["dataset", "algorithm", "against", "difference", "seeds", "paired test"]
LEGEND = (
    "difference of the scores, each by its own way of acting, with the 95% interval of the paired "
    "t-test over seeds;\nWelch p: of the test that does not know of the pairs"
)
OTHER_EPISODES = "not paired: other seeds or episodes"


def make_comparison(suite: Suite, records: Records, names: tuple[str, ...] = ()) -> Table:
    """The first of `names` against the others; without names the best on each dataset against all.

    What diverged is left out, and with fewer than three seeds nothing is compared by itself.
    """
    require_known(suite, names)
    rows = []
    for dataset in suite.datasets:
        found = {
            variant: record
            for (variant, of), record in records.items()
            if of == dataset and (variant in names or not names) and not record.get("diverged")
        }
        scores = {name: Scores.of(suite, name, found[name]["scores"]) for name in found}
        if len(found) < 2 or (names and names[0] not in found):
            continue
        if not names and min(len(each.own) for each in scores.values()) < LEAST_SEEDS:
            continue
        first = names[0] if names else max(scores, key=lambda name: scores[name].own.mean())
        for other in names[1:] or scores:
            if other in scores and other != first:
                labels, cell = _compare(scores[first], scores[other], _pairs(found, first, other))
                rows.append(Row([dataset, first, other, *labels], [cell]))
    return Table(LABELS, ["Welch p"], rows)


def require_known(suite: Suite, names: tuple[str, ...]) -> None:
    """Raises for a name that the suite does not have."""
    if unknown := [name for name in names if name not in suite.variants]:
        raise OryxError(
            f"suite '{suite.name}' has no {', '.join(unknown)}; it has the algorithms "
            f"{', '.join(suite.variants)}"
        )


def _pairs(found: Mapping[str, CellRecord], first: str, other: str) -> bool:
    """Whether both have played the same episodes: their keys are made of the seed alone."""
    facts = [(found[n]["seeds"], found[n]["evaluation"]["episodes"]) for n in (first, other)]
    return facts[0] == facts[1]


def _compare(x: Scores, y: Scores, is_paired: bool) -> tuple[list[str], Cell | None]:
    """Difference with its interval, seeds and verdict in words, and Welch's p."""
    if not is_paired:
        means = [statistics.mean_std(each.own) for each in (x, y)]
        labels = [f"{means[0].mean - means[1].mean:+.3f}", "", OTHER_EPISODES]
        p = statistics.welch(*means)
    else:
        result = statistics.paired(x.own, y.own)
        value, low, high = result.difference
        interval = "" if math.isnan(low) else f" [{low:+.3f}, {high:+.3f}]"
        labels = [f"{value:+.3f}{interval}", str(result.num_seeds), result.verdict]
        p = result.welch
    return labels, None if math.isnan(p) else Cell(p, decimals=3)
