"""Names of SMAX's scenarios, and what they stand for; without JAX, so that lists are quick."""

import re
from typing import Any

from oryx_marl import limits
from oryx_marl.errors import OryxError

SIZES = (5, 10, 20, 30)
"""Units of each team in the paper's scenarios."""
SCENARIOS = (*(f"smacv2_{units}_units" for units in SIZES), "any smacv2_<N>_units")


def find_scenario(name: str) -> dict[str, Any] | None:
    """The settings of smacv2_<N>_units, also as the paper writes it, smacv2_<N>units."""
    found = re.fullmatch(r"smacv2_(\d+)_?units", name)
    if found is None:
        return None
    check_config(int(found[1]))
    return {"num_units": int(found[1])}


def check_config(num_units: int) -> None:
    """Raises unless there are such fights."""
    limits.require_whole("smax", num_units=num_units)
    limits.require("smax", num_units, limits.AGENTS, "units")
    if num_units < 1:
        raise OryxError(f"smax: num_units must be at least 1, got {num_units}")
