"""What off-policy evaluation has found out about a run, as it is kept in its folder."""

from dataclasses import asdict, dataclass, field
from typing import Any

from oryx_marl.ope.intervals import Estimate
from oryx_marl.ope.support import Support
from oryx_marl.ope.verdict import Verdict
from oryx_marl.runs.sealed import Document, require_object, rest_of

NAMES = {
    "fqe": "fitted Q evaluation",
    "wdr": "weighted doubly robust",
    "wpdis": "weighted importance sampling",
    "pdis": "importance sampling",
}
"""Estimators by their names on disk."""


@dataclass(frozen=True)
class SeedTrust(Document):
    """Of one seed's policy."""

    file = "trust"
    """Further documents of this kind are named by seed, see `evaluate.py`."""
    seed: int
    estimates: dict[str, Estimate]
    effective_sample_size: float
    """Least over the steps: of how many episodes importance weights take the mean."""
    support: Support
    per_agent: list[float] | None
    """Value of each agent's own return, where rewards are per agent."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, values: Any) -> "SeedTrust":
        found = require_object(values)
        return cls(
            seed=int(found["seed"]),
            estimates={name: Estimate(**each) for name, each in found["estimates"].items()},
            effective_sample_size=float(found["effective_sample_size"]),
            support=Support.from_json(found["support"]),
            per_agent=found["per_agent"],
        )


@dataclass(frozen=True)
class Trust(Document):
    """What a run's policy is worth, without a simulator."""

    file = "trust.json"
    key: str
    """Names the policy, the data and the settings."""
    dataset: str
    act: str
    """Way of acting: `sampled`, `greedy` or a temperature."""
    horizon: int
    """Steps over which returns are counted."""
    episodes: int
    """Logged episodes that were used."""
    held_out: int
    """Those of them that the policy has not learned from; 0: none, and then all were used."""
    logged: Estimate
    """Return of the logs."""
    logged_spread: float
    """Standard deviation of the logged returns."""
    estimates: dict[str, Estimate]
    """Return of the policy by estimator, mean over seeds; `fqe` is the headline."""
    seeds: list[SeedTrust]
    support: Support
    """Mean over seeds."""
    agents: list[str]
    logged_per_agent: list[float] | None
    verdict: Verdict
    seconds: float
    settings: dict[str, Any] = field(default_factory=dict)
    rest: dict[str, Any] = field(default_factory=dict)

    @property
    def value(self) -> Estimate:
        """The headline."""
        return self.estimates["fqe"]

    @property
    def per_agent(self) -> list[float] | None:
        """Value of each agent's own return, mean over seeds, where rewards are per agent."""
        found = [each.per_agent for each in self.seeds if each.per_agent is not None]
        if not found:
            return None
        return [sum(values) / len(found) for values in zip(*found, strict=True)]

    def to_json(self) -> dict[str, Any]:
        found = asdict(self)
        rest = found.pop("rest")
        return {**found, **rest}

    @classmethod
    def from_json(cls, values: Any) -> "Trust":
        found = require_object(values)
        known = {name: found[name] for name in found if name not in (rest := rest_of(cls, found))}
        parts = {
            "logged": Estimate(**found["logged"]),
            "estimates": {name: Estimate(**each) for name, each in found["estimates"].items()},
            "seeds": [SeedTrust.from_json(each) for each in found["seeds"]],
            "support": Support.from_json(found["support"]),
            "verdict": Verdict.from_json(found["verdict"]),
        }
        return cls(**{**known, **parts}, rest=rest)
