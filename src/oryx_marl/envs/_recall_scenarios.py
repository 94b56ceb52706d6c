"""Names of the recall tasks, and what they stand for; without JAX, so that lists are quick."""

import re
from typing import Any

from oryx_marl import limits
from oryx_marl.errors import OryxError

DELAYS = (60,)
"""Steps between cue and answer of the tasks that are listed."""
ONE_SEES = "-one-sees"
"""What is added to the name where only the first agent sees the cue."""
SCENARIOS = (
    *(f"recall-{delay}{end}" for delay in DELAYS for end in ("", ONE_SEES)),
    f"any recall-<T> and recall-<T>{ONE_SEES}",
)


def find_scenario(name: str) -> dict[str, Any] | None:
    """The settings of recall-<T> or recall-<T>-one-sees."""
    found = re.fullmatch(rf"recall-(\d+)({ONE_SEES})?", name)
    if found is None:
        return None
    check_config(int(found[1]))
    return {"delay": int(found[1]), "both_see": found[2] is None}


def check_config(delay: int) -> None:
    """Raises unless there are such tasks."""
    limits.require_whole("recall", delay=delay)
    limits.require("recall", delay, limits.EPISODE_STEPS, "steps")
    if delay < 1:
        raise OryxError(f"recall: delay must be at least 1, got {delay}")
