"""Oryx's settings in the paper, by environment and, where they depend on it, dataset quality."""

import json
from typing import Any

from oryx_marl.bench.published import read
from oryx_marl.errors import OryxError

ALSO = {"td_lambda": 0.0, "act_with_ema": False, "advantage": "cumulative"}
"""What the paper's Oryx does that its tables of settings do not list."""
ALSO_NETWORK = {"remember_last_action": False}


def paper(environment: str, dataset: str) -> dict[str, Any]:
    """Fields of Oryx's Config, those of its network nested; the rest is not in the paper.

    `config.from_dict(oryx.Config, paper("tmaze", "replay"))` is the Config.
    """
    row = _find(environment, dataset)
    found: dict[str, Any] = {"network": {}, **ALSO}
    for name, text in row.items():
        if name in ("environment", "dataset"):
            continue
        part, _, field = name.rpartition(".")
        (found[part] if part else found)[field] = json.loads(text)
    found["network"] |= ALSO_NETWORK
    return found


def _find(environment: str, dataset: str) -> dict[str, str]:
    """The row of an environment; one without a dataset is for all of them."""
    rows = read("settings")
    of_environment = [row for row in rows if row["environment"] == environment.casefold()]
    if not of_environment:
        known = ", ".join(dict.fromkeys(row["environment"] for row in rows))
        raise OryxError(f"the paper has no settings for '{environment}'; it has: {known}")
    for row in of_environment:
        if row["dataset"].casefold() in ("", dataset.casefold()):
            return row
    known = ", ".join(row["dataset"] for row in of_environment)
    raise OryxError(
        f"the paper has no settings for '{dataset}' data of {environment}; it has: {known}"
    )
