"""Against hand-worked numbers, scipy 1.17.1, and rliable 1.2.0 run apart on the same scores."""

import math

import numpy as np
import pytest
from scipy import stats

from oryx_marl.bench import published
from oryx_marl.bench.statistics import (
    Estimate,
    Summary,
    aggregate,
    by_best_published,
    by_highest_return,
    by_random_and_expert,
    mean_std,
    not_significantly_worse,
    paired,
    probability_of_improvement,
    welch,
)
from oryx_marl.errors import OryxError

X = np.array(
    [
        [0.10, 0.21, 0.52, 0.96, 0.95, 1.06],
        [0.10, -0.17, 0.52, 0.57, 0.97, 1.08],
        [0.15, 0.43, 0.48, 0.82, 0.91, 1.16],
        [0.11, 0.21, 0.68, 0.83, 0.95, 0.78],
        [0.08, 0.20, 0.69, 1.15, 0.95, 0.55],
        [0.04, 0.53, 0.50, 1.21, 0.87, 1.45],
        [0.10, 0.25, 0.55, 0.71, 0.99, 0.97],
    ]
)
"""Seven runs of six tasks."""
Y = np.array(
    [
        [0.10, 0.10, 0.80, 0.76, 0.91, 1.11],
        [0.06, 0.35, 0.58, 0.59, 0.87, 1.55],
        [0.13, 0.28, 0.71, 0.54, 0.88, 1.50],
        [0.10, 0.34, 0.62, 0.59, 0.82, 1.21],
        [0.03, 0.00, 0.54, 0.89, 0.94, 1.27],
    ]
)
"""Five runs of the same tasks, with ties."""
RLIABLE = {
    "median": Estimate(0.727857142857143, 0.643125, 0.773306),
    "iqm": Estimate(0.6477272727272726, 0.589602, 0.704433),
    "mean": Estimate(0.623095238095238, 0.572826, 0.672887),
    "optimality_gap": Estimate(0.4033333333333333, 0.366042, 0.443482),
}
"""Of X; intervals are means over eight bootstraps of 20,000, which vary by up to 0.0008."""


def test_mean_and_spread_by_hand() -> None:
    """Deviations -2, 0, 2 from 4: variance 8 / 2 with S - 1."""
    assert mean_std(np.array([2.0, 4.0, 6.0])) == Summary(4.0, 2.0, 3)


def test_spread_of_one_seed_is_unknown() -> None:
    found = mean_std(np.array([0.3]))
    assert found.mean == 0.3
    assert math.isnan(found.std)


def test_equal_scores_have_no_spread_at_all() -> None:
    """Rounding would leave 1e-17, and any difference would look significant."""
    assert mean_std(np.full(3, 0.1)) == Summary(0.1, 0.0, 3)


def test_welch_by_hand() -> None:
    """t = 3/√2 with 4 / ((1/9)/2 + (25/9)/3) = 4.0755 degrees; the density integrated apart."""
    x, y = mean_std(np.array([1.0, 2.0, 3.0])), mean_std(np.array([2.0, 4.0, 6.0, 8.0]))
    assert welch(x, y) == pytest.approx(0.0999128643118, rel=1e-9)
    assert welch(y, x) == welch(x, y)


def test_welch_with_one_constant_side() -> None:
    """As the one-sample test of [2, 4, 6, 8] against 3."""
    y = mean_std(np.array([2.0, 4.0, 6.0, 8.0]))
    assert welch(Summary(3.0, 0.0, 4), y) == pytest.approx(0.219102037417, rel=1e-9)


def test_welch_without_spread() -> None:
    assert welch(Summary(1.0, 0.0, 3), Summary(1.0, 0.0, 5)) == 1
    assert welch(Summary(1.0, 0.0, 3), Summary(0.9, 0.0, 5)) == 0


def test_welch_with_one_seed_is_unknown() -> None:
    assert math.isnan(welch(mean_std(np.array([5.0])), Summary(0.0, 0.1, 10)))


def test_not_significantly_worse() -> None:
    found = not_significantly_worse(
        {
            "worse": np.array([0.1, 0.2, 0.1]),
            "close": np.array([0.7, 0.9, 0.8, 1.0]),
            "best": np.array([0.9, 0.8, 1.0]),
            "one seed": np.array([0.0]),
        }
    )
    assert found.best == "best"
    assert found.alike == {"close", "one seed"}


def test_of_equal_means_the_first_is_best() -> None:
    scores = {"a": np.array([1.0, 1.0]), "b": np.array([1.0, 1.0]), "c": np.array([0.0, 0.0])}
    assert not_significantly_worse(scores) == ("a", {"b"})


def test_the_papers_marks_from_its_printed_numbers() -> None:
    """Ten seeds of Oryx and five of the others (four in AlberDICE's table) give all its marks."""
    tasks: dict[tuple[str | None, ...], dict[str, published.Score]] = {}
    for score in published.scores():
        if score.best is not None:
            task = (score.source, score.environment, score.scenario, score.dataset)
            tasks.setdefault(task, {})[score.algorithm] = score
    assert len(tasks) == 65
    for task, scores in tasks.items():
        others = 4 if task[0] == "alberdice" else 5
        seeds = {name: 10 if name == "Oryx" else others for name in scores}
        found = not_significantly_worse(
            {name: Summary(each.mean, each.std, seeds[name]) for name, each in scores.items()}
        )
        marked = {name for name, s in scores.items() if s.best or s.not_significantly_worse}
        assert {found.best, *found.alike} == marked, task


def test_normalised_scores_by_hand() -> None:
    scores = np.array([0.0, 1.0, 5.0])
    np.testing.assert_allclose(by_random_and_expert(scores, 1.0, 3.0), [-0.5, 0.0, 2.0])
    np.testing.assert_allclose(by_highest_return(scores, 4.0), [0.0, 0.25, 1.25])
    np.testing.assert_allclose(by_best_published(scores[None], 0.5), [[0.0, 2.0, 10.0]])


@pytest.mark.parametrize("expert", [1.0, 0.5, math.nan])
def test_an_expert_must_beat_chance(expert: float) -> None:
    with pytest.raises(OryxError, match=r"must be above the random one \(1\.0\)"):
        by_random_and_expert(np.array([0.0]), 1.0, expert)


@pytest.mark.parametrize("whole", [0.0, -62.6, math.nan])
def test_only_positive_scores_normalise(whole: float) -> None:
    with pytest.raises(OryxError, match="the dataset's highest return is"):
        by_highest_return(np.array([0.0]), whole)
    with pytest.raises(OryxError, match="the best published score is"):
        by_best_published(np.array([0.0]), whole)


def test_aggregates_by_hand() -> None:
    """Runs 0, 2 | 1, 1 | 4, 10: task means 1, 1, 7; the middle of 0 1 1 2 4 10 is 1 1 2 4."""
    scores = np.array([[0.0, 1.0, 4.0], [2.0, 1.0, 10.0]])
    found = aggregate(scores, repetitions=10)
    assert found["median"].value == 1
    assert found["mean"].value == pytest.approx(3)
    assert found["iqm"].value == pytest.approx(2)
    assert found["optimality_gap"].value == pytest.approx(1 / 6)
    assert aggregate(scores, repetitions=10, gamma=5.0)["optimality_gap"].value == pytest.approx(
        (4 + 4 + 0.5) / 3
    )


def test_aggregates_of_unequal_numbers_of_runs() -> None:
    """Task means 1, 2, 6; the middle of 0 2 2 2 2 6 6 is 2 2 2 2 6; the gap is 1 of 2, once."""
    scores = [np.array([0.0, 2.0]), np.array([2.0, 2.0, 2.0]), np.array([6.0, 6.0])]
    found = aggregate(scores, repetitions=1000)
    assert found["median"] == Estimate(2.0, 2.0, 2.0)
    assert found["mean"].value == 3
    assert found["iqm"].value == pytest.approx(2.8)
    assert found["optimality_gap"] == Estimate(0.5 / 3, 0.0, pytest.approx(1 / 3))
    assert (found["mean"].low, found["mean"].high) == pytest.approx((8 / 3, 10 / 3))


@pytest.mark.parametrize("name", RLIABLE)
def test_aggregates_as_rliable(name: str) -> None:
    found = aggregate(X, seed=1, repetitions=50_000)[name]
    assert found.value == pytest.approx(RLIABLE[name].value, abs=1e-12)
    assert found.low == pytest.approx(RLIABLE[name].low, abs=0.002)
    assert found.high == pytest.approx(RLIABLE[name].high, abs=0.002)


def test_a_matrix_and_a_list_are_the_same_scores() -> None:
    assert aggregate(X, repetitions=100) == aggregate(list(X.T), repetitions=100)


def test_the_seed_decides_the_interval() -> None:
    assert aggregate(X, seed=3) == aggregate(X, seed=3)
    assert aggregate(X, seed=3)["mean"] != aggregate(X, seed=4)["mean"]
    assert probability_of_improvement(X, Y, seed=3) == probability_of_improvement(X, Y, seed=3)
    assert probability_of_improvement(X, Y, seed=3) != probability_of_improvement(X, Y, seed=4)


def test_tasks_are_redrawn_independently() -> None:
    """Opposite tasks: redrawn together, every mean would be one half."""
    scores = np.array([[0.0, 1.0], [1.0, 0.0]])
    assert aggregate(scores, repetitions=1000)["mean"] == Estimate(0.5, 0.0, 1.0)


def test_a_single_run_has_no_interval() -> None:
    found = aggregate([np.array([1.0]), np.array([0.0, 1.0])], repetitions=10)
    assert found["mean"].value == 0.75
    assert all(math.isnan(e.low) and math.isnan(e.high) for e in found.values())
    improvement = probability_of_improvement(X, Y[:1], repetitions=10)
    assert math.isnan(improvement.low)


def test_intervals_cover_the_truth() -> None:
    """Percentiles of ten runs are narrow by √0.9: t of 36 degrees within 1.96 √0.9 is 0.929.

    A thousand experiments tell this to 0.008; four times that is allowed.
    """
    rng = np.random.default_rng(0)
    truth = np.array([0.2, 0.4, 0.6, 0.8])
    covered = 0
    for index in range(1000):
        scores = rng.normal(truth, 0.1, size=(10, 4))
        found = aggregate(scores, seed=index, repetitions=500)["mean"]
        covered += found.low <= truth.mean() <= found.high
    assert covered / 1000 == pytest.approx(0.929, abs=4 * 0.008)


def test_probability_of_improvement_as_rliable() -> None:
    """Interval of rliable: mean over eight bootstraps of 1,500, which vary by up to 0.006."""
    found = probability_of_improvement(X, Y, repetitions=50_000)
    assert found.value == pytest.approx(0.5095238095238096, abs=1e-12)
    assert found.low == pytest.approx(0.394472, abs=0.008)
    assert found.high == pytest.approx(0.623214, abs=0.008)


def test_probability_of_improvement_by_hand() -> None:
    """Of the pairs 1-1, 1-2, 3-1, 3-2 two win and one ties; where all win it is 1."""
    x = [np.array([1.0, 3.0]), np.array([5.0, 5.0, 6.0])]
    y = [np.array([1.0, 2.0]), np.array([0.0, 1.0])]
    assert probability_of_improvement(x, y).value == pytest.approx((2.5 / 4 + 1) / 2)
    assert probability_of_improvement(x, x).value == 0.5
    assert probability_of_improvement(x[1:], y[1:]) == Estimate(1.0, 1.0, 1.0)


def test_improvement_both_ways_adds_up_to_one() -> None:
    there, back = probability_of_improvement(X, Y), probability_of_improvement(Y, X)
    assert there.value + back.value == pytest.approx(1)


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(OryxError, match="run 1 is nan"):
        mean_std(np.array([0.0, math.nan]))
    with pytest.raises(OryxError, match="no scores to compare"):
        not_significantly_worse({})
    with pytest.raises(OryxError, match="no tasks"):
        aggregate([])
    with pytest.raises(OryxError, match="task 1: there are no runs"):
        aggregate([np.zeros(2), np.zeros(0)])
    with pytest.raises(OryxError, match="task 0: run 1 is inf"):
        aggregate(np.array([[0.0], [math.inf]]))
    with pytest.raises(OryxError, match="6 tasks cannot be compared with 2"):
        probability_of_improvement(X, Y[:, :2])
    with pytest.raises(OryxError, match="confidence must be between 0 and 1"):
        aggregate(X, confidence=95.0)
    with pytest.raises(OryxError, match="repetitions must be at least 1"):
        aggregate(X, repetitions=0)


def test_paired_differences_by_hand() -> None:
    """Differences 1, 2, 3: mean 2, spread 1, and t(0.975, 2) = 4.30265 over the root of 3."""
    found = paired(np.array([11.0, 22.0, 33.0]), np.array([10.0, 20.0, 30.0]))
    half = 4.302652729911275 / math.sqrt(3)
    assert found.difference == pytest.approx((2.0, 2 - half, 2 + half))
    assert (found.num_seeds, found.verdict) == (3, "not significant")
    assert found.welch == pytest.approx(0.8272818)  # seeds differ by ten times as much


@pytest.mark.parametrize(("shift", "verdict"), [(0.0, "significant"), (-0.15, "not significant")])
def test_pairs_are_those_of_scipy(shift: float, verdict: str) -> None:
    x, y = X[:5, 3] + shift, Y[:, 3]
    found, expected = paired(x, y), stats.ttest_rel(x, y).confidence_interval(0.95)
    assert found.difference[1:] == pytest.approx((expected.low, expected.high))
    assert found.welch == pytest.approx(stats.ttest_ind(x, y, equal_var=False).pvalue)
    assert found.verdict == verdict
    assert paired(y, x).verdict == verdict


@pytest.mark.parametrize(
    ("x", "y", "verdict"),
    [
        ([0.5], [0.1], "one seed, no interval"),
        ([0.5, 0.6, 0.7], [0.5, 0.6, 0.7], "equal in every seed"),
        ([1.0, 1.0, 1.0], [0.0, 0.0, 0.0], "the same in every seed, no interval"),
    ],
)
def test_without_an_interval_nothing_is_called_significant(
    x: list[float], y: list[float], verdict: str
) -> None:
    found = paired(np.array(x), np.array(y))
    assert found.verdict == verdict
    assert math.isnan(found.difference.low)
    assert found.difference.value == pytest.approx(x[0] - y[0])


def test_other_numbers_of_seeds_make_no_pairs() -> None:
    with pytest.raises(OryxError, match="3 and 2 seeds make no pairs"):
        paired(np.zeros(3), np.zeros(2))
