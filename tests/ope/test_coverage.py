"""Whether logs show what a policy does: by hand, and where T-Maze's logs do not."""

import numpy as np
import pytest

import oryx_marl as oryx
from oryx_marl.ope import coverage

LEAST = 10.0


def ratios(share: float, steps: int = 3, episodes: int = 400) -> np.ndarray:
    """Logs of fair coins. The policy always says heads, which was never logged in the last step of
    a share of the episodes: there the clone is wrong."""
    generator = np.random.default_rng(0)
    heads = generator.random((episodes, steps)) < 0.5
    heads[: int(share * episodes), -1] = False
    return np.where(heads, np.log(1 / 0.5), -50.0)


def test_mean_weight_by_hand() -> None:
    found = coverage.weigh(np.log([[2.0, 0.5], [0.5, 1.0], [0.5, 4.0]]))
    np.testing.assert_allclose(found.mean, [1.0, 3.5 / 3])
    np.testing.assert_allclose(found.effective, [9 / 4.5, 3.5**2 / (1 + 0.25 + 4)])
    np.testing.assert_allclose(found.error[0], np.sqrt(0.5) / np.sqrt(3))


def test_logs_that_show_everything_leave_no_doubt() -> None:
    assert coverage.find_doubt(ratios(0.0), LEAST) == ""


def test_what_was_never_tried_is_found() -> None:
    told = coverage.find_doubt(ratios(0.7, steps=2), LEAST)
    assert "up to step 2" in told
    assert "never tried" in told


def test_a_misjudged_behaviour_is_found() -> None:
    wrong = ratios(0.0) + 0.5 * (ratios(0.0) > 0)  # heads are thought to be rarer than they are
    assert "should have one of 1" in coverage.find_doubt(wrong, LEAST)


def test_few_episodes_say_nothing() -> None:
    assert coverage.find_doubt(ratios(0.7, episodes=12), LEAST) == ""


@pytest.mark.parametrize("name", ["tmaze/planner-mixed", "tmaze/planner-expert"])
def test_nobody_in_the_logs_of_tmaze_stands_on_the_wrong_goals(name: str) -> None:
    """What the guide says of policies that critics are too sure of."""
    state = oryx.open(name).state
    assert state is not None
    rows, columns = state[:, [0, 2]], np.round(5 * state[:, [1, 3]])
    differ = (state[:, 5:7] != state[:, 7:9]).any(axis=1)  # the chosen colours
    is_last_row = (rows == 1).all(axis=1) & differ
    on_both = is_last_row & (np.sort(columns, axis=1) == [0, 5]).all(axis=1)
    assert is_last_row.sum() > 100
    assert on_both.sum() == 0  # on the right goals an episode ends before it is seen
