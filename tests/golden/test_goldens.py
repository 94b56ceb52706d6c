"""Trainings and roll-outs give what they gave when they were recorded."""

import goldens
import numpy as np
import pytest

QUICK = ("bc", "oryx")
"""The others compile for longer than a test of the suite may."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in QUICK else pytest.mark.slow)
        for name in [*goldens.VARIANTS, *goldens.POLICIES]
    ],
)
def test_everything_is_as_it_was_recorded(name: str) -> None:
    expected, found = goldens.read(name), goldens.compute(name)
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        np.testing.assert_allclose(found[key], value, rtol=1e-5, atol=1e-5, err_msg=key)
