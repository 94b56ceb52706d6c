"""What is shown of a training where there is no terminal."""

import io

import numpy as np
import pytest
from rich.console import Console

from oryx_marl import progress


def test_a_line_now_and_then_and_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports come every 4 seconds, the last two at the same time."""
    times = iter([100.0, 104.0, 108.0, 112.0, 116.0, 116.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(times))
    text = io.StringIO()
    losses = {
        "policy_loss": np.array([0.5, 1.0]),
        "entropy": np.array([3.0]),
        "return": np.array([2.0]),
    }
    with progress.training_bar(6_000, Console(file=text), "BC on [data]") as report:
        for update in range(1_000, 7_000, 1_000):
            report(update, losses)
    assert text.getvalue().splitlines() == [
        "BC on [data]: 1,000 of 6,000 updates  policy 0.750 return 2.000",
        "BC on [data]: 4,000 of 6,000 updates  policy 0.750 return 2.000",
        "BC on [data]: 6,000 of 6,000 updates  policy 0.750 return 2.000",
    ]


def test_the_only_loss_of_an_algorithm_is_shown() -> None:
    """BC has one, called `loss`; beside others it would be their sum."""
    assert progress._losses({"loss": np.array([0.5]), "entropy": np.array([1.0])}) == "loss 0.500"
    several = {"loss": np.array([3.0]), "critic_loss": np.array([2.0])}
    assert progress._losses(several) == "critic 2.000"
