import math

import pytest

from oryx_marl.errors import OryxError, OryxWarning
from oryx_marl.policy import acting
from oryx_marl.types import ActionSpace


def test_names_and_temperatures() -> None:
    given = ("sampled", 0, 0.25, "0.50", 1.0, "greedy", 2, 1 / 3)
    assert acting.by_name(given) == {
        "sampled": 1.0,
        "greedy": 0.0,
        "0.25": 0.25,
        "0.5": 0.5,
        "2": 2.0,
        "0.3333333333333333": 1 / 3,
    }
    assert acting.by_name("greedy") == {"greedy": 0.0}
    assert acting.by_name(0.25) == {"0.25": 0.25}


def test_a_name_means_its_own_temperature() -> None:
    for temperature in (1e-5, 0.1, 0.123456789, 3.0, 1000.0):
        assert acting.temperature_of(acting.name_of(temperature)) == temperature


@pytest.mark.parametrize("wrong", ["warm", "", -0.1, "-1", math.nan, "nan", math.inf, 1001, True])
def test_what_is_no_way_of_acting_is_refused(wrong: str | float) -> None:
    with pytest.raises(OryxError, match=r"sampled, greedy or a temperature from 0 .*to 1000"):
        acting.by_name(wrong)


def test_at_least_one_is_needed() -> None:
    with pytest.raises(OryxError, match="at least one way of acting"):
        acting.by_name(())


IDS, VECTORS = ActionSpace("discrete", 3), ActionSpace("box", 1, (-1.0,), (1.0,))


def test_ids_are_sampled_and_vectors_are_the_mode_unless_said_otherwise() -> None:
    assert acting.resolve(None, IDS) == "sampled"
    assert acting.resolve(None, VECTORS) == "greedy"
    assert acting.resolve(0.5, VECTORS) == 0.5
    assert acting.ways_in(None, IDS) == {"sampled": 1.0, "greedy": 0.0}
    assert list(acting.ways_in(None, VECTORS)) == ["greedy", "sampled"]
    assert list(acting.ways_in(("sampled", 0.5), VECTORS)) == ["sampled", "0.5"]


def test_the_old_argument_comes_with_a_hint() -> None:
    with pytest.warns(OryxWarning, match='greedy=True is called act="greedy"'):
        assert acting.from_greedy(True) == "greedy"
    with pytest.warns(OryxWarning, match="sampled"):
        assert acting.from_greedy(False) == "sampled"
