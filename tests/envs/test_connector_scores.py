"""What random agents score in Connector, beside an independent measurement in jumanji itself."""

import json
import math
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXPECTED = {
    "con-5x5x3a": (0.077, 0.011),
    "con-7x7x5a": (-0.162, 0.010),
    "con-10x10x10a": (-0.342, 0.008),
    "con-15x15x23a": (-0.506, 0.013),
    "con-18x18x30a": (-0.704, 0.016),
    "con-22x22x40a": (-0.827, 0.015),
    "con-25x25x50a": (-0.956, 0.017),
}
"""Mean over agents of the individual return with its standard error: 1024 episodes of uniformly
random legal actions up to 10 x 10, 256 beyond."""


@pytest.fixture
def random_scores(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import random_scores

    return random_scores


def assert_agrees(name, found):
    mean, error = EXPECTED[name]
    both = math.hypot(error, found["standard_error"])
    assert abs(found["return"] - mean) < 3 * both, (name, found)
    assert found["standard_error"] < 0.03


def test_a_small_board(random_scores):
    found = random_scores.measure("con-5x5x3a", 1024, seed=1)
    assert_agrees("con-5x5x3a", found)
    assert abs(found["length"] - 12.9) < 0.5


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPECTED)
def test_all_boards(random_scores, name):
    assert_agrees(name, random_scores.measure(name, 256, seed=2))


def test_the_kept_scores(random_scores):
    kept = json.loads(random_scores.RESULTS.read_text())
    assert [*kept] == [*random_scores.ALL, "tmaze"]
    for name in EXPECTED:
        assert_agrees(name, kept[name])
    page = ROOT / "docs" / "reference" / "environments.md"
    assert random_scores.markdown(kept) in page.read_text()
