"""Names of anti-coordination games, and what they stand for; without JAX, so lists are quick."""

import re
from typing import Any

from oryx_marl import limits
from oryx_marl.errors import OryxError

LENGTHS = (60, 500)
"""Steps of the games that are listed."""
SCENARIOS = (*(f"anticoordination-{length}" for length in LENGTHS), "any anticoordination-<T>")


def find_scenario(name: str) -> dict[str, Any] | None:
    """The settings of anticoordination-<T>."""
    found = re.fullmatch(r"anticoordination-(\d+)", name)
    if found is None:
        return None
    check_config(int(found[1]))
    return {"length": int(found[1])}


def check_config(length: int) -> None:
    """Raises unless there are such games."""
    limits.require_whole("anticoordination", length=length)
    limits.require("anticoordination", length, limits.EPISODE_STEPS, "steps")
    if length < 1:
        raise OryxError(f"anticoordination: length must be at least 1, got {length}")
