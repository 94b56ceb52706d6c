"""The page of `oryx trust`, and the ranking of runs."""

import math
from dataclasses import replace

import pytest

from oryx_marl.cli.trust import tell
from oryx_marl.ope.document import SeedTrust, Trust
from oryx_marl.ope.intervals import Estimate
from oryx_marl.ope.support import Support, Unusual
from oryx_marl.ope.verdict import judge
from oryx_marl.report import trust_page
from oryx_marl.runs.documents import RunConfig
from oryx_marl.trusting import place
from oryx_marl.tuning import expect_loss

REFUSED = Estimate(None, refused="the weights come down to 1.2 effective episodes of 30")
LOGS = Estimate(1.0, 0.9, 1.1, 0.05)


def make_trust(value: Estimate, outside: float = 0.02) -> Trust:
    listed = Unusual(12, 3, [2, None], [0, None], -8.0)
    support = Support(outside, outside, [outside] * 2, [0.0, None, 0.1, 0.0], -4.6, 99, [listed])
    estimates = {"fqe": value, "wdr": REFUSED, "wpdis": REFUSED, "pdis": REFUSED}
    seeds = [SeedTrust(seed, estimates, 1.2, support, [0.5, 1.5]) for seed in (0, 1)]
    return Trust(
        key="k",
        dataset="depot/<first>",
        act="sampled",
        horizon=20,
        episodes=300,
        held_out=30,
        logged=LOGS,
        logged_spread=1.0,
        estimates=estimates,
        seeds=seeds,
        support=support,
        agents=["red", "<b>"],
        logged_per_agent=[0.4, 1.6],
        verdict=judge(value, LOGS, support, 1.0, {"doubly robust": REFUSED}, 30),
        seconds=12.0,
    )


def test_the_page_has_the_verdict_and_loads_nothing() -> None:
    config = RunConfig("oryx", "depot/<first>", (0, 1), 100, {})
    page = trust_page.render(config, make_trust(Estimate(2.0, 1.6, 2.4, 0.15)))
    assert "Better than the logs, by the critics alone" in page
    assert "no number: the weights come down to 1.2 effective episodes" in page
    assert "episode 12, step 3" in page
    assert "2, absent" in page
    # From the logs' 0.9 to 2.4, and 4% more at both ends: (0.9 - 0.84) / 1.62 = 3.70%.
    assert "Lines run from 0.840 to 2.460; the dashes are the logs." in page
    assert 'style="left:3.70%;width:12.35%" class="range"' in page
    assert page.count('class="point"') == 2
    assert "Agent by agent" in page
    assert "Stability over seeds" in page
    assert "&lt;b&gt;" in page
    assert "<b></th>" not in page
    assert "http" not in page.replace("http-equiv", "")


def test_documents_with_seeds_are_read_back() -> None:
    found = make_trust(Estimate(2.0, 1.6, 2.4, 0.15))
    assert Trust.from_json(found.to_json()) == found
    assert found.per_agent == [0.5, 1.5]


def test_runs_are_ranked_by_the_lower_end_and_the_unknown_last() -> None:
    sure, wide = Estimate(2.0, 1.8, 2.2, 0.1), Estimate(2.5, 1.2, 3.8, 0.5)
    high = make_trust(Estimate(9.0, 8.0, 10.0, 0.5), outside=0.5)
    found = sorted([high, make_trust(wide), make_trust(sure)], key=place)
    assert [each.value for each in found] == [sure, wide, high.value]


def test_the_expected_loss_is_that_of_uncertain_values() -> None:
    """Of two equal values with errors of 1 each, the best is above either by 1/√π on average."""
    same = make_trust(Estimate(2.0, 1.9, 2.1, 1.0))
    assert expect_loss([same, same]) == pytest.approx(1 / math.sqrt(math.pi), abs=0.03)
    sure = make_trust(Estimate(3.0, 2.9, 3.1, 0.0))
    assert expect_loss([sure, make_trust(Estimate(2.0, 1.9, 2.1, 0.0))]) == 0
    unknown = make_trust(Estimate(9.0, 8.9, 9.1, 0.0), outside=0.5)
    assert expect_loss([sure, unknown]) == 0


def test_estimates_in_words() -> None:
    assert tell(LOGS) == "1 [0.9, 1.1]"
    assert tell(REFUSED).startswith("none: the weights")
    assert tell(replace(LOGS, low=None)) == "1"
