import json

import numpy as np
import pytest

from oryx_marl.eval.metrics import (
    evaluation_row,
    marl_eval,
    mean_interval,
    summarise,
    summarise_scores,
    summarise_worst,
)


def test_interval_by_hand() -> None:
    """Mean 2, standard error 1/√3, t(0.975, 2) = 4.30265."""
    mean, low, high = mean_interval(np.array([1.0, 2.0, 3.0]))
    assert mean == 2
    assert high - mean == pytest.approx(4.302653 / np.sqrt(3), rel=1e-6)
    assert mean - low == pytest.approx(high - mean)


def test_one_seed_has_no_interval() -> None:
    scores = summarise(np.array([[0.0, 1.0, 1.0, 0.0]]), "success rate")
    assert scores["mean"] == 0.5
    assert scores["low"] is None
    assert scores["high"] is None
    assert scores["within_seed_std"] == [0.5]


def test_the_seed_is_the_unit() -> None:
    """A thousand episodes of two seeds are two numbers, not two thousand."""
    returns = np.stack([np.zeros(1000), np.full(1000, 2.0)])
    scores = summarise(returns, "return")
    assert scores["per_seed"] == [0.0, 2.0]
    assert scores["within_seed_std"] == [0.0, 0.0]
    assert scores["high"] - scores["mean"] == pytest.approx(12.7062, rel=1e-4)


def test_a_rate_stays_between_0_and_1() -> None:
    """Of 0.9 and 1.0, Student's interval is 0.95 ± 0.635."""
    returns = np.stack([np.arange(10) > 0, np.ones(10)]).astype(np.float32)
    scores = summarise(returns, "success rate")
    assert scores["low"] == pytest.approx(0.3147, abs=1e-4)
    assert scores["high"] == 1.0
    success = summarise(np.where(returns == 1, returns, np.nan), "success")
    assert success["high"] == 1.0  # by its values, those that were reported
    assert summarise(returns, "success") == scores
    others = summarise(returns * 2, "return")
    assert others["high"] == pytest.approx(2 * 1.5853, abs=2e-4)  # nothing bounds it


def test_marl_eval_layout() -> None:
    rows = [
        {"update": 10, "seconds": 1.5, "returns": [[0.0, 1.0], [1.0, 1.0]]},
        {"update": 20, "seconds": 3.0, "returns": [[1.0, 1.0], [0.0, 1.0]]},
    ]
    found = marl_eval("maze", "expert", "oryx", [3, 4], rows, {"return": np.array([[1.0], [0.5]])})
    seed = found["maze"]["expert"]["oryx"]["seed_4"]
    assert seed["step_0"] == {"step_count": 10, "elapsed_time": 1.5, "return": [1.0, 1.0]}
    assert seed["step_1"]["return"] == [0.0, 1.0]
    assert seed["absolute_metrics"] == {"return": [0.5]}
    assert list(found["maze"]["expert"]["oryx"]) == ["seed_3", "seed_4"]


SCORES = {
    "return": np.array([[1.0, 2.0], [3.0, 4.0]], np.float32),
    "length": np.array([[5, 5], [5, 5]], np.int32),
    "success rate": np.array([[0.0, 1.0], [np.nan, 1.0]], np.float32),
}


def test_metrics_of_the_environment_stand_beside_the_return() -> None:
    """A metric that was not reported is None, as JSON has no NaN."""
    row = evaluation_row(10, 1.23456, SCORES)
    assert row == {
        "update": 10,
        "seconds": 1.235,
        "returns": [[1.0, 2.0], [3.0, 4.0]],
        "metrics": {"success rate": [[0.0, 1.0], [None, 1.0]]},
    }
    assert "metrics" not in evaluation_row(10, 1.0, {"return": SCORES["return"]})
    found = marl_eval("maze", "expert", "oryx", [3, 4], [row], SCORES)
    seed = found["maze"]["expert"]["oryx"]["seed_3"]
    assert seed["step_0"] == {
        "step_count": 10,
        "elapsed_time": 1.235,
        "return": [1.0, 2.0],
        "success rate": [0.0, 1.0],
    }
    assert seed["absolute_metrics"] == {"return": [1.0, 2.0], "success rate": [0.0, 1.0]}
    json.loads(json.dumps(found), parse_constant=pytest.fail)


def test_episodes_that_do_not_report_do_not_count() -> None:
    summary = summarise_scores(SCORES, "return")
    assert summary["per_seed"] == [1.5, 3.5]
    assert "reported_share" not in summary
    assert "length" not in summary["metrics"]
    success = summary["metrics"]["success rate"]
    assert success["per_seed"] == [0.5, 1.0]
    assert success["mean"] == 0.75
    assert success["reported_share"] == 0.75
    assert 0 <= success["low"] <= success["high"] <= 1
    unknown = summarise(np.full((2, 3), np.nan), "success rate")
    assert (unknown["mean"], unknown["low"], unknown["per_seed"]) == (None, None, [None, None])


def test_the_worst_tenth_by_hand() -> None:
    """Of 20 episodes two, of 21 three: 0 and 1 are 0.5 on average, 0, 1 and 2 are 1."""
    shuffled = np.random.default_rng(0).permutation(20).astype(np.float32)
    found = summarise_worst(np.stack([shuffled, shuffled + 10]), "return")
    assert found["per_seed"] == [0.5, 10.5]
    assert found["mean"] == 5.5
    assert found["high"] - found["mean"] == pytest.approx(12.7062 * 5, rel=1e-4)
    more = np.random.default_rng(0).permutation(21).astype(np.float32)
    assert summarise_worst(more[None], "return")["per_seed"] == [1.0]
    assert summarise_worst(np.array([[3.0]]), "return")["mean"] == 3  # the only one
    assert summarise_worst(np.arange(30.0)[None], "return")["mean"] == 1  # three, not four


def test_the_worst_tenth_of_a_rate_stays_between_0_and_1() -> None:
    solved = np.ones((3, 40), np.float32)
    solved[0, :2] = 0
    found = summarise_worst(solved, "success rate")
    assert found["per_seed"] == [0.5, 1.0, 1.0]
    assert found["high"] == 1.0


def test_scores_have_the_worst_tenth_and_lengths_beside_them() -> None:
    found = summarise_scores(SCORES, "return")
    assert found["worst_tenth"]["per_seed"] == [1.0, 3.0]
    assert found["length"]["mean"] == 5
    assert found["length"]["per_seed"] == [5.0, 5.0]
