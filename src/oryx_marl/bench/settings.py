"""Oryx's settings in the paper, by environment and, where they depend on it, dataset quality."""

import json
from dataclasses import fields, replace
from typing import Any, TypeVar

from oryx_marl.bench.published import read
from oryx_marl.errors import OryxError

ALSO = {
    "td_lambda": 0.0,
    "act_with_ema": False,
    "advantage": "cumulative",
    "initial_state": "zeros",
    "permute_agents": True,
    "scale_values": False,
    "standardise": False,
}
"""What the paper's Oryx does that its tables of settings do not list."""
ALSO_NETWORK = {"remember_last_action": False, "shortest_memory": 32, "longest_memory": 512}


T = TypeVar("T")
EARLIER = {
    "initial_state": "zeros",
    "permute_agents": True,
    "scale_values": False,
    "standardise": False,
    "policy_temperature": 0.1,
}
"""Defaults of version 0.1, with which the records of the older suites were made."""
EARLIER_NETWORK = {"decay_scale": 0.9, "shortest_memory": 32}
EARLIER_WIDTH = 64
RUNS_BEHIND_DEFAULTS = 92
"""Of Oryx since version 0.1: docs/notes/differences.md#how-defaults-were-chosen."""


def earlier(config: T, **network: Any) -> T:
    """The config with the defaults of version 0.1; `network` has further settings of its part."""
    part: Any = getattr(config, "network", None)
    unsized = {
        each.name: EARLIER_WIDTH
        for each in fields(part)
        if each.name.endswith("width") and getattr(part, each.name) == 0
    }
    part = replace(part, **{**_known(part, EARLIER_NETWORK), **unsized, **network})
    return replace(config, network=part, **_known(config, EARLIER))  # type: ignore[type-var]


def _known(config: Any, values: dict[str, Any]) -> dict[str, Any]:
    return {each.name: values[each.name] for each in fields(config) if each.name in values}


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
