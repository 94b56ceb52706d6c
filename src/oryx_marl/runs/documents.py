"""The documents of a run, typed: what is in each of them, and how it is written as JSON."""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from oryx_marl import renamed
from oryx_marl.errors import OryxError
from oryx_marl.policy.acting import SAMPLED, by_name
from oryx_marl.runs.sealed import Document, require_object, rest_of, to_floats
from oryx_marl.types import Spec

WEIGHTS = ("last", "best")
"""Which weights of a run are scored."""


@dataclass(frozen=True)
class RunConfig(Document):
    """How the run was made: everything needed to do it again."""

    file = "config.json"
    algorithm: str
    dataset: str
    """Name of the dataset, or of the environment of an online learner."""
    seeds: tuple[int, ...]
    updates: int
    config: dict[str, Any]
    """Settings of the algorithm."""
    online: bool = False
    steps_per_update: int = 0
    spec_sha256: str | None = None
    """Of spec.json, so that it cannot be exchanged unnoticed."""
    action_names: list[str] | None = None
    version: str = ""
    """Of the package."""
    device: str = ""
    rest: dict[str, Any] = field(default_factory=dict)
    """Further settings by name."""

    @classmethod
    def from_json(cls, values: Any) -> "RunConfig":
        found = require_object(values)
        found = renamed.settings(found, bool(found.get("online", False)))
        return cls(
            algorithm=str(found["algorithm"]),
            dataset=str(found["dataset"]),
            seeds=tuple(int(seed) for seed in found["seeds"]),
            updates=int(found["updates"]),
            config=dict(found.get("config", {})),
            online=bool(found.get("online", False)),
            steps_per_update=int(found.get("steps_per_update", 0)),
            spec_sha256=found.get("spec_sha256"),
            action_names=found.get("action_names"),
            version=str(found.get("version", "")),
            device=str(found.get("device", "")),
            rest=_check_rest(rest_of(cls, found)),
        )

    def to_json(self) -> dict[str, Any]:
        return {**_fields(self), "seeds": list(self.seeds), **self.rest}


def _check_rest(rest: dict[str, Any]) -> dict[str, Any]:
    """Those of the further settings of a run that others take for granted."""
    evaluation, named = (require_object(rest.get(name) or {}) for name in ("evaluation", "named"))
    by_name(evaluation.get("act") or SAMPLED)
    plugins, log = named.get("plugins", []), rest.get("log", [])
    words = [named.get("data"), named.get("env"), rest.get("environment"), *plugins, *log]
    if odd := [word for word in words if not isinstance(word, str | None)]:
        raise ValueError(f"{odd[0]!r} is no name")
    return rest


def _fields(document: Document) -> dict[str, Any]:
    """The fields of a document by name, without the rest."""
    names = [each.name for each in fields(document)]
    return {name: getattr(document, name) for name in names if name != "rest"}


@dataclass(frozen=True)
class SpecDocument(Document):
    """What the agents see and do."""

    file = "spec.json"
    spec: Spec

    @classmethod
    def from_json(cls, values: Any) -> "SpecDocument":
        try:
            return cls(Spec.from_dict(require_object(values)))
        except OryxError as error:
            raise ValueError(str(error)) from error

    def to_json(self) -> dict[str, Any]:
        return self.spec.to_dict()


def hash_spec(spec: Spec) -> str:
    """SHA-256 of a Spec, as config.json notes it."""
    return hashlib.sha256(json.dumps(spec.to_dict(), sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Score:
    """A mean over seeds with its interval, NaN where there is none."""

    mean: float
    low: float
    high: float
    per_seed: tuple[float, ...]
    within_seed_std: tuple[float, ...] = ()
    metrics: Mapping[str, "Score"] = field(default_factory=dict)
    """What the environment reported in the same episodes, by name."""
    worst_tenth: "Score | None" = None
    """The same of each seed's worst tenth of episodes (CVaR at 10%); None in older documents."""
    length: "Score | None" = None
    """Steps of the episodes; None in older documents."""

    @property
    def interval(self) -> tuple[float, float]:
        """95% over seeds; NaN with one seed."""
        return self.low, self.high

    @property
    def has_interval(self) -> bool:
        """Whether the interval says anything: several seeds, and not all of them equal."""
        return bool(self.high - self.low > 1e-9 * max(1.0, abs(self.mean)))

    @property
    def is_constant(self) -> bool:
        """Whether several seeds score the same, so that there is no interval."""
        return not math.isnan(self.low) and not self.has_interval

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Score":
        low, high = to_floats([values.get("low"), values.get("high")]).tolist()
        return cls(
            mean=to_floats([values["mean"]]).item(),
            low=low,
            high=high,
            per_seed=tuple(to_floats(values.get("per_seed", [])).tolist()),
            within_seed_std=tuple(to_floats(values.get("within_seed_std", [])).tolist()),
            metrics={name: cls.from_json(each) for name, each in values.get("metrics", {}).items()},
            **{name: cls.from_json(values[name]) for name in BESIDE if name in values},
        )

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "mean": None if math.isnan(self.mean) else self.mean,
            "low": None if math.isnan(self.low) else self.low,
            "high": None if math.isnan(self.high) else self.high,
            "per_seed": list(self.per_seed),
        }
        if self.within_seed_std:
            found["within_seed_std"] = list(self.within_seed_std)
        beside = {name: getattr(self, name) for name in BESIDE}
        found |= {name: each.to_json() for name, each in beside.items() if each is not None}
        if self.metrics:
            found["metrics"] = {name: each.to_json() for name, each in self.metrics.items()}
        return found


BESIDE = ("worst_tenth", "length")
"""Scores of the same episodes that a Score may have."""


@dataclass(frozen=True)
class Summary(Document):
    """The result of a run in its environment."""

    file = "summary.json"
    metric: str
    """What the environment calls its return."""
    episodes: int
    """Episodes of each seed."""
    scores: dict[tuple[str, str], Score]
    """By weights (`last`, `best`) and way of acting (`sampled`, `greedy` or a temperature such as
    `0.25`); the first is the headline."""

    @classmethod
    def from_json(cls, values: Any) -> "Summary":
        """Any of the scores may be absent, but not all."""
        found = require_object(values)
        scores = {
            (weights, acting): Score.from_json(score)
            for weights in WEIGHTS
            for acting, score in found.get(weights, {}).items()
        }
        if not scores:
            raise ValueError("it holds no score")
        return cls(str(found["metric"]), int(found["episodes"]), scores)

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"episodes": self.episodes}
        for (weights, acting), score in self.scores.items():
            found.setdefault(weights, {})[acting] = score.to_json()
        return {**found, "metric": self.metric}


@dataclass(frozen=True)
class DatasetCard(Document):
    """The data that were learned from, in a few numbers."""

    file = "dataset.json"
    name: str
    returns: dict[str, Any]
    """Mean, std, min, max of the episodes' returns; None where no return is a number."""
    lengths: dict[str, Any] = field(default_factory=dict)
    """Mean, min, max of the episodes' lengths."""
    histogram: dict[str, list] = field(default_factory=lambda: {"edges": [], "counts": []})
    """Of the returns."""
    fingerprint: str = ""
    episodes: int | None = None
    transitions: int | None = None
    agents: list[str] | int | None = None
    rest: dict[str, Any] = field(default_factory=dict)
    """Further statistics by name."""

    @classmethod
    def from_json(cls, values: Any) -> "DatasetCard":
        found = require_object(values)
        rest = rest_of(cls, found)
        card = cls(**{name: found[name] for name in found if name not in rest}, rest=rest)
        to_floats(card.returns["mean"])
        edges, counts = (to_floats(card.histogram[name]) for name in ("edges", "counts"))
        if counts.size and edges.size != counts.size + 1:
            raise ValueError(f"the histogram has {edges.size} edges for {counts.size} counts")
        return card

    def to_json(self) -> dict[str, Any]:
        return {**_fields(self), **self.rest}


@dataclass(frozen=True)
class Row(Document):
    """A line of a log."""

    update: int
    seconds: float
    """Training time until then."""


@dataclass(frozen=True)
class MetricRow(Row):
    """Means of what training logged since the line before."""

    file = "metrics.jsonl"
    metrics: dict[str, list[float | None]]
    """One number for each seed; None of one that had diverged before."""

    @classmethod
    def from_json(cls, values: Any) -> "MetricRow":
        found = require_object(values)
        metrics = {
            renamed.METRICS.get(name, name): list(each) for name, each in found["metrics"].items()
        }
        return cls(int(found["update"]), float(found.get("seconds", math.nan)), metrics)

    def to_json(self) -> dict[str, Any]:
        return {"update": self.update, "seconds": self.seconds, "metrics": self.metrics}


@dataclass(frozen=True, eq=False)
class Evaluation(Row):
    """Episodes that were played to score the weights of one update."""

    file = "evaluations.jsonl"
    returns: Float[np.ndarray, "S episodes"]
    metrics: dict[str, Float[np.ndarray, "S episodes"]] = field(default_factory=dict)
    """What the environment reported of each episode, by name."""

    @classmethod
    def from_json(cls, values: Any) -> "Evaluation":
        found = require_object(values)
        metrics = {name: _table(each) for name, each in found.get("metrics", {}).items()}
        seconds = float(found.get("seconds", math.nan))
        return cls(int(found["update"]), seconds, _table(found["returns"]), metrics)

    def to_json(self) -> dict[str, Any]:
        row = {"update": self.update, "seconds": self.seconds, "returns": self.returns.tolist()}
        if not self.metrics:
            return row
        return {**row, "metrics": {name: _plain(each) for name, each in self.metrics.items()}}


def _plain(values: Float[np.ndarray, "S episodes"]) -> list[list[float | None]]:
    """Numbers for JSON: None where an environment did not report one."""
    return [[None if math.isnan(value) else value for value in row] for row in values.tolist()]


def _table(values: Any) -> Float[np.ndarray, "S episodes"]:
    """Numbers of JSON for each seed and episode."""
    found = np.stack([to_floats(each) for each in values])
    if not found.size:
        raise ValueError("an evaluation has no episode")
    return found


@dataclass(frozen=True, eq=False)
class SeedEvaluations:
    """The returns of one seed's episodes."""

    by_update: dict[int, Float[np.ndarray, "episodes"]]
    """While training; empty if the seed diverged before the first evaluation."""
    absolute: Float[np.ndarray, "fresh"]
    """Of the best weights, on fresh episodes; empty if they were not scored."""


@dataclass(frozen=True)
class MarlEval(Document):
    """The evaluations in the layout that marl-eval reads, which has no room for a checksum: that is
    in `Checksums`."""

    file = "eval.json"
    is_sealed: ClassVar[bool] = False
    values: dict[str, Any]
    """By environment, task, algorithm, seed and step."""

    @classmethod
    def from_json(cls, values: Any) -> "MarlEval":
        found = cls(require_object(values))
        for algorithm in found._algorithms() or {"": None}:
            found.by_seed(algorithm)
        return found

    def to_json(self) -> dict[str, Any]:
        return self.values

    def by_seed(self, algorithm: str) -> dict[str, SeedEvaluations]:
        """Evaluations of an algorithm (of the first if that is not there) on the first task."""
        algorithms = self._algorithms()
        runs: dict[str, Any] = algorithms.get(algorithm) or next(iter(algorithms.values()), {})
        if not runs:
            raise ValueError("it holds no evaluation")
        return {name.removeprefix("seed_"): _read_seed(run) for name, run in runs.items()}

    def _algorithms(self) -> dict[str, Any]:
        tasks: dict[str, Any] = next(iter(self.values.values()), {})
        return next(iter(tasks.values()), {})


def _read_seed(run: Mapping[str, Any]) -> SeedEvaluations:
    absolute = run.get("absolute_metrics", {}).get("return", [])
    steps = [step for key, step in run.items() if key != "absolute_metrics"]
    by_update = {int(step["step_count"]): to_floats(step["return"]) for step in steps}
    if not all(returns.size for returns in by_update.values()):
        raise ValueError("an evaluation has no episode")
    return SeedEvaluations(by_update, to_floats(absolute))


@dataclass(frozen=True)
class Checksums(Document):
    """Of documents that cannot carry their own."""

    file = "checksums.json"
    files: dict[str, tuple[str, ...]]
    """By the file's name: of the content that was written last, and of the one before it, which is
    there still if a kill has come between."""

    @classmethod
    def from_json(cls, values: Any) -> "Checksums":
        found = require_object(values)
        return cls({name: tuple(str(each) for each in listed) for name, listed in found.items()})

    def to_json(self) -> dict[str, Any]:
        return {name: list(listed) for name, listed in self.files.items()}


@dataclass(frozen=True)
class DivergedSeeds(Document):
    """Seeds that diverged while the others trained on."""

    file = "lost.json"
    updates: dict[int, int]
    """Updates that each of them has made, by the seed's number."""

    @classmethod
    def from_json(cls, values: Any) -> "DivergedSeeds":
        found = require_object(values)
        return cls({int(seed): int(update) for seed, update in found.items()})

    def to_json(self) -> dict[str, Any]:
        return {str(seed): update for seed, update in self.updates.items()}


@dataclass(frozen=True)
class SecondsSpent(Document):
    """Seconds that all processes so far have spent on a run; of version 0.1.0 the number alone."""

    file = "seconds_spent.json"
    seconds: float

    @classmethod
    def from_json(cls, values: Any) -> "SecondsSpent":
        return cls(float(values["seconds"] if isinstance(values, dict) else values))

    def to_json(self) -> dict[str, Any]:
        return {"seconds": self.seconds}


@dataclass(frozen=True)
class RecordingRequest(Document):
    """What was asked for when a recording of a training was begun."""

    file = "request.json"
    rows: int
    seed: int

    @classmethod
    def from_json(cls, values: Any) -> "RecordingRequest":
        found = require_object(values)
        return cls(int(found["rows"]), int(found["seed"]))

    def to_json(self) -> dict[str, Any]:
        return {"rows": self.rows, "seed": self.seed}
