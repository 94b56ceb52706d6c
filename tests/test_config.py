"""Settings that are read from a disk are those that the types allow."""

from typing import Any

import pytest

from oryx_marl import config as configs
from oryx_marl.algorithms import bc, oryx
from oryx_marl.errors import OryxError


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("objective", "x", "objective must be one of .*, got 'x'"),
        ("batch_size", "many", "batch_size must be a whole number"),
        ("batch_size", 2.5, "batch_size must be a whole number"),
        ("act_with_ema", 1, "act_with_ema must be True or False"),
        ("learning_rate", None, "learning_rate must be a number"),
        ("network", 3, "network must be a table of settings"),
    ],
)
def test_values_of_another_type_are_refused(name: str, value: Any, told: str) -> None:
    stored = configs.to_dict(oryx.Config())
    assert name in stored
    with pytest.raises(OryxError, match=told):
        configs.from_stored(oryx.Config, {**stored, name: value})


@pytest.mark.parametrize("kind", [oryx.Config, bc.Config])
def test_what_was_stored_is_read(kind: Any) -> None:
    assert configs.from_stored(kind, configs.to_dict(kind())) == kind()
