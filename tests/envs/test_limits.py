"""Environments whose settings come out of a file: nothing is made that takes all memory."""

from typing import Any

import pytest

from oryx_marl import limits
from oryx_marl.envs import base
from oryx_marl.errors import OryxError
from oryx_marl.types import ActionSpace, Spec


@pytest.mark.parametrize(
    ("family", "config"),
    [
        ("connector", {"grid_size": 60_000, "num_agents": 3}),
        ("connector", {"grid_size": 1_000, "num_agents": 5_000}),
        ("connector", {"grid_size": "5", "num_agents": 3}),
        ("connector", {"grid_size": 5, "num_agents": 3, "observation_mode": []}),
        ("tmaze", {"length": 10**9, "time_limit": 10**10}),
        ("tmaze", {"length": 5, "width": 10**9, "time_limit": 10**10}),
        ("tmaze", {"time_limit": 10**12}),
        ("tmaze", {"time_limit": 1e9}),
        ("recall", {"delay": 10**12}),
        ("anticoordination", {"length": 10**12}),
        ("anticoordination", {"length": None}),
        ("smax", {"num_units": 10**6}),
        ("hanabi", {"players": 10**6}),
    ],
)
def test_settings_out_of_files(family: str, config: dict[Any, Any]) -> None:
    """A grid of 60,000 took 15 GB."""
    spec = Spec(family, ("a",), (1,), ActionSpace("discrete", 2), environment_config=config)
    with pytest.raises(OryxError, match=family):
        base.make(spec)


def test_limits_can_be_lifted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BOARD_CELLS", 10)
    wanted = r"more than the 10 .*\(from Python: ORYX_ALLOW_LARGE=1\)"
    with pytest.raises(limits.LimitError, match=wanted):
        base.make_named("tmaze")
    monkeypatch.setenv(limits.VARIABLE, "1")
    assert base.make_named("tmaze").name == "tmaze"
