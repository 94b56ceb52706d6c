"""Coordinates, ticks and intervals against values worked out by hand."""

import re

import numpy as np
import pytest

from oryx_marl.report import charts, interval, numbers

NAN = float("nan")


def path(chart: str, kind: str) -> list[str]:
    """The outlines of one class, in the order they are drawn."""
    return re.findall(rf'<path class="{kind}" d="([^"]*)"', chart)


@pytest.mark.parametrize(
    ("values", "intervals", "ticks"),
    [
        ([0.0, 1.0], 5, (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)),
        ([0.03, 0.97], 4, (0.0, 0.5, 1.0)),
        ([-3.0, 7.0], 4, (-5.0, 0.0, 5.0, 10.0)),
        ([2.0, 2.0], 4, (1.0, 1.5, 2.0, 2.5, 3.0)),
        ([0.0, 0.0], 4, (0.0, 0.5, 1.0)),
        ([NAN], 4, (0.0, 0.5, 1.0)),
    ],
)
def test_axis_has_round_ticks(
    values: list[float], intervals: int, ticks: tuple[float, ...]
) -> None:
    axis = charts.axis(values, intervals)
    assert axis.ticks == ticks
    assert (axis.low, axis.high) == (ticks[0], ticks[-1])


def test_tight_axis_ends_where_the_values_end() -> None:
    axis = charts.axis([0.0, 3000.0], is_tight=True)
    assert (axis.low, axis.high, axis.ticks) == (0.0, 3000.0, (0.0, 1000.0, 2000.0, 3000.0))


def test_learning_curve_coordinates() -> None:
    updates = np.array([0.0, 50.0, 100.0])
    scores = np.array([[0.0, 0.4, 1.0], [0.2, 0.6, 1.0]])
    mean, low, high = scores.mean(0), scores.min(0), scores.max(0)
    chart = charts.learning_curve(updates, scores, mean, low, high, 0.8)
    assert path(chart, "mean") == ["M0 900L500 500L1000 0"]
    assert path(chart, "seed") == ["M0 1000L500 600L1000 0", "M0 800L500 400L1000 0"]
    assert path(chart, "band") == ["M0 800L500 400L1000 0L1000 0L500 600L0 1000Z"]
    assert path(chart, "level") == ["M0 200L1000 200"]
    assert "<title>update 50: 0.50 [0.40, 0.60]</title>" in chart


def test_line_breaks_where_a_value_is_missing() -> None:
    updates = np.array([0.0, 1.0, 2.0, 4.0])
    scores = np.array([[0.0, NAN, 1.0, 0.5]])
    chart = charts.learning_curve(updates, scores, scores[0], np.full(4, NAN), np.full(4, NAN), NAN)
    assert path(chart, "mean") == ["M0 1000M500 0L1000 500"]
    assert path(chart, "band") == []
    assert "nan" not in chart


def test_histogram_coordinates() -> None:
    edges, counts = np.array([0.0, 1.0, 2.0]), np.array([3.0, 1.0])
    chart = charts.histogram(edges, counts, {"level": 0.5, "policy": 2.0})
    bars = re.findall(r'<rect class="bar" x="(.*?)" y="(.*?)" width="(.*?)" height="(.*?)"', chart)
    assert bars == [("0", "0", "500", "1000"), ("500", "666.7", "500", "333.3")]
    assert path(chart, "level") == ["M250 0V1000"]
    assert path(chart, "policy") == ["M1000 0V1000"]


def test_small_chart_is_logarithmic_over_decades() -> None:
    updates = np.array([0.0, 1.0, 2.0, 3.0])
    chart = charts.small(updates, np.array([[1000.0, 100.0, 10.0, 1.0]]), "loss")
    assert path(chart, "mean") == ["M0 0L333.3 333.3L666.7 666.7L1000 1000"]
    assert "log scale" in chart


def test_small_chart_keeps_spikes() -> None:
    values = np.zeros((1, 1000))
    values[0, 501] = 8.0
    chart = charts.small(np.arange(1000.0), values, "loss")
    (band,) = path(chart, "band")
    assert " 200L" in band  # 8 on an axis that ends at 10
    assert path(chart, "mean")[0].count("L") == charts.MOST_POINTS - 1


def test_small_chart_of_nothing_finite() -> None:
    chart = charts.small(np.arange(3.0), np.full((2, 3), NAN), "loss")
    assert path(chart, "mean") == [""]


def test_interval_is_students() -> None:
    values = np.array([[1.0, 5.0, NAN], [2.0, 5.0, 7.0], [3.0, 5.0, NAN]])
    mean, low, high = interval.over_seeds(values)
    # mean 2, standard deviation 1, t with 2 degrees of freedom 4.302653, so 2 ± 4.302653 / √3
    np.testing.assert_allclose(mean, [2.0, 5.0, 7.0])
    np.testing.assert_allclose(low, [2 - 2.484138, 5.0, NAN], rtol=1e-6)
    np.testing.assert_allclose(high, [2 + 2.484138, 5.0, NAN], rtol=1e-6)


def test_interval_of_no_value_is_nan() -> None:
    assert np.isnan(interval.over_seeds(np.full((2, 1), NAN))).all()


def test_numbers_that_belong_together() -> None:
    assert numbers.together([0.981, 0.96, 1.0]) == ["0.98", "0.96", "1.00"]
    assert numbers.together([1234.5, -7.0]) == ["1,234", "−7"]
    assert numbers.together([12.345, NAN]) == ["12.3", "–"]
    assert numbers.together([0.0123, 0.002]) == ["0.012", "0.002"]
    assert numbers.together([0.981], extra=1) == ["0.981"]


def test_numbers_alone() -> None:
    assert [numbers.one(x) for x in (0.0, 3000.0, 0.93, 3e-4, -1.25, NAN)] == [
        *("0", "3,000", "0.93", "3e−4", "−1.25", "not finite")
    ]
    assert [numbers.short(x) for x in (500.0, 20_000.0, 3e6, 0.1 + 0.2)] == [
        *("500", "20k", "3M", "0.3")
    ]
    assert [numbers.duration(x) for x in (4.26, 93.6, 7200.0)] == [
        "4.3 s",
        "1 min 34 s",
        "2 h 0 min",
    ]
