"""What a run folder holds, read and checked before anything is drawn."""

import json
import math
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float, Int, UInt8

from oryx_marl.errors import OryxError
from oryx_marl.report.again import flatten
from oryx_marl.types import Spec

T = TypeVar("T")

DAMAGE = (KeyError, TypeError, ValueError, AttributeError, IndexError, OSError)
"""What reading a file of the wrong form raises."""


@dataclass(frozen=True)
class Curve:
    """Returns of the evaluations made during training."""

    seeds: tuple[str, ...]
    updates: Int[np.ndarray, "evaluations"]
    scores: Float[np.ndarray, "S evaluations"]
    """Mean return of the episodes of one seed at one evaluation; NaN where there was none."""
    lowest: float
    """Lowest return of any episode: no mean can be below it."""
    highest: float
    last: Float[np.ndarray, "S"]
    """Mean return of each seed at its last evaluation."""
    last_episodes: int
    """Episodes of each seed behind `last`."""


@dataclass(frozen=True)
class Score:
    """A result over seeds."""

    mean: float
    low: float
    high: float
    per_seed: tuple[float, ...]
    within_seed_std: tuple[float, ...]


@dataclass(frozen=True)
class Summary:
    """The result of a run."""

    metric: str
    episodes: int
    """Episodes of each seed."""
    scores: dict[tuple[str, str], Score]
    """By weights (`last`, `best`) and way of acting (`sampled`, `greedy`)."""


@dataclass(frozen=True)
class HeldOut:
    """How well the actions of episodes that were held out are foretold."""

    episodes: int
    steps: int
    agreement: Score
    log_likelihood: Score | None
    """None where a policy has no odds."""
    guess: dict[str, float]
    """What the frequencies of the actions alone would reach, by the names of the scores."""


@dataclass(frozen=True)
class DatasetCard:
    """The dataset in a few numbers."""

    name: str
    fingerprint: str
    facts: dict[str, float]
    mean_return: float
    """NaN where no return is a number."""
    edges: Float[np.ndarray, "edges"]
    counts: Float[np.ndarray, "bins"]


@dataclass(frozen=True)
class Series:
    """One logged metric."""

    updates: Float[np.ndarray, "lines"]
    values: Float[np.ndarray, "S lines"]


@dataclass(frozen=True)
class Metrics:
    """What training logged."""

    seconds: float
    """Training time at the last line."""
    series: dict[str, Series]


@dataclass(frozen=True)
class Episode:
    """One recorded episode."""

    title: str
    episode_return: float
    frames: UInt8[np.ndarray, "T height width 3"]
    actions: tuple[tuple[str, ...], ...]
    """What each agent did between frame k and frame k+1."""
    rewards: tuple[float, ...]


@dataclass(frozen=True)
class Run:
    """A run folder; what is None says why in `notes`, under the file's name."""

    folder: Path
    config: dict[str, Any]
    curve: Curve | None
    """None where the data come from no environment we know."""
    held_out: HeldOut | None
    spec: Spec | None
    metrics: Metrics | None
    summary: Summary | None
    dataset: DatasetCard | None
    replay: tuple[Episode, ...] | None
    notes: dict[str, str]


def read(folder: Path) -> Run:
    """The run in a folder. Only `config.json` and `eval.json` must be there and be whole, or where
    there is no environment `held_out.json`."""
    if not folder.is_dir():
        raise OryxError(f"{folder} is not a folder; give the folder that `oryx train` wrote")
    config = _required(folder / "config.json", _config)
    notes: dict[str, str] = {}
    curve, foretold = None, folder / "held_out.json"
    if (folder / "eval.json").exists() or not foretold.exists():
        curve = _required(folder / "eval.json", lambda path: _curve(path, config["algorithm"]))
        held_out = _optional(foretold, _held_out, notes)
    else:
        held_out = _required(foretold, _held_out)
    return Run(
        folder=folder,
        config=config,
        curve=curve,
        held_out=held_out,
        spec=_optional(folder / "spec.json", lambda path: Spec.from_dict(_json(path)), notes),
        metrics=_optional(folder / "metrics.jsonl", _metrics, notes),
        summary=_optional(folder / "summary.json", _summary, notes),
        dataset=_optional(folder / "dataset.json", _dataset, notes),
        replay=_optional(folder / "replay.npz", _replay, notes),
        notes=notes,
    )


def _required(path: Path, parse: Callable[[Path], T]) -> T:
    """What a file holds, or an error that says how to get it."""
    if not path.is_file():
        raise OryxError(
            f"{path} is missing; is {path.parent} the folder of a run? "
            "`oryx train` writes the file, and `oryx train --resume` completes a run that stopped"
        )
    try:
        return parse(path)
    except DAMAGE as error:
        raise OryxError(
            f"{path} is damaged: {_why(error)}; "
            "restore it from a copy, or make the run again with `oryx train`"
        ) from error


def _optional(path: Path, parse: Callable[[Path], T], notes: dict[str, str]) -> T | None:
    """What a file holds, or None and a note that says why not."""
    if not path.is_file():
        notes[path.name] = f"This run has no {path.name}"
        return None
    try:
        return parse(path)
    except (*DAMAGE, OryxError, zipfile.BadZipFile) as error:
        notes[path.name] = f"{path.name} of this run cannot be read ({_why(error)})"
        return None


def _why(error: Exception) -> str:
    """An exception in words."""
    if isinstance(error, KeyError):
        return f"the entry {error} is missing"
    return str(error) or type(error).__name__


def _json(path: Path) -> dict[str, Any]:
    """The object in a JSON file."""
    value = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(value, dict):
        raise ValueError(f"it holds a {type(value).__name__}, not an object")
    return value


def _config(path: Path) -> dict[str, Any]:
    """How the run was made; the settings come back as a dict even where there are none."""
    config = _json(path)
    return {
        **config,
        "algorithm": str(config["algorithm"]),
        "dataset": str(config["dataset"]),
        "seeds": [int(seed) for seed in config["seeds"]],
        "updates": int(config["updates"]),
        "config": flatten(dict(config.get("config", {}))),
    }


def _curve(path: Path, algorithm: str) -> Curve:
    """The evaluations of one algorithm on one task, from the layout of marl-eval."""
    tasks: dict[str, Any] = next(iter(_json(path).values()), {})
    algorithms: dict[str, Any] = next(iter(tasks.values()), {})
    by_seed: dict[str, Any] = algorithms.get(algorithm) or next(iter(algorithms.values()), {})
    points: dict[tuple[int, int], np.ndarray] = {}
    last: list[np.ndarray] = []
    # The absolute metrics belong to the best weights, not the last: they only widen the range.
    absolute: list[np.ndarray] = []
    for row, (seed, steps) in enumerate(by_seed.items()):
        for name, step in steps.items():
            if name == "absolute_metrics":
                absolute.append(_floats(step.get("return", [])))
            else:
                points[row, int(step["step_count"])] = _returns(step)
        mine = [update for other, update in points if other == row]
        if not mine:
            raise ValueError(f"{seed} has no evaluation")
        last.append(points[row, max(mine)])
    if not points:
        raise ValueError("it holds no evaluation")
    updates = sorted({update for _, update in points})
    scores = np.full((len(by_seed), len(updates)), np.nan)
    for (row, update), returns in points.items():
        scores[row, updates.index(update)] = returns.mean()
    everything = np.concatenate([*points.values(), *absolute])
    everything = everything[np.isfinite(everything)]
    return Curve(
        seeds=tuple(name.removeprefix("seed_") for name in by_seed),
        updates=np.array(updates),
        scores=scores,
        lowest=float(everything.min(initial=math.inf)),
        highest=float(everything.max(initial=-math.inf)),
        last=np.array([returns.mean() for returns in last]),
        last_episodes=min(len(returns) for returns in last),
    )


def _returns(step: Mapping[str, Any]) -> Float[np.ndarray, "episodes"]:
    """The returns of one evaluation of one seed."""
    returns = _floats(step["return"])
    if not returns.size:
        raise ValueError("an evaluation has no episode")
    return returns


def _metrics(path: Path) -> Metrics:
    """All log lines. The last one may be half written: the run was stopped there."""
    lines = path.read_text(encoding="utf-8").strip().splitlines()
    entries = []
    for place, line in enumerate(lines):
        try:
            entries.append(json.loads(line))
        except ValueError as error:
            if place < len(lines) - 1:
                raise ValueError(f"line {place + 1}: {error}") from error
    if not entries:
        raise ValueError("it holds no line")
    updates: dict[str, list[float]] = {}
    values: dict[str, list[np.ndarray]] = {}
    for entry in entries:
        for name, per_seed in entry["metrics"].items():
            updates.setdefault(name, []).append(float(entry["update"]))
            values.setdefault(name, []).append(_floats(per_seed))
    series = {name: Series(np.array(updates[name]), np.stack(values[name], 1)) for name in values}
    return Metrics(float(entries[-1].get("seconds", math.nan)), series)


def _summary(path: Path) -> Summary:
    """The result; any of the four combinations may be absent, but not all."""
    values = _json(path)
    scores = {
        (weights, acting): _score(values[weights][acting])
        for weights in ("last", "best")
        for acting in ("sampled", "greedy")
        if acting in values.get(weights, {})
    }
    if not scores:
        raise ValueError("it holds no score")
    return Summary(str(values["metric"]), int(values["episodes"]), scores)


def _score(values: Mapping[str, Any]) -> Score:
    """One entry of the summary; without an interval, low and high are NaN."""
    low, high = _floats([values.get("low"), values.get("high")]).tolist()
    per_seed = tuple(_floats(values.get("per_seed", [])).tolist())
    within = tuple(_floats(values.get("within_seed_std", [])).tolist())
    return Score(float(values["mean"]), low, high, per_seed, within)


def _held_out(path: Path) -> HeldOut:
    """What was foretold."""
    values = _json(path)
    likelihood = values["log_likelihood"]
    return HeldOut(
        episodes=int(values["episodes"]),
        steps=int(values["steps"]),
        agreement=_score(values["agreement"]),
        log_likelihood=None if likelihood is None else _score(likelihood),
        guess={name: float(values["guess"][name]) for name in ("agreement", "log_likelihood")},
    )


def _dataset(path: Path) -> DatasetCard:
    """The dataset's card, with its facts under the names people see."""
    values = _json(path)
    returns, lengths = values["returns"], values.get("lengths", {})
    histogram = values.get("histogram", {"edges": [], "counts": []})
    edges, counts = _floats(histogram["edges"]), _floats(histogram["counts"])
    if counts.size and edges.size != counts.size + 1:
        raise ValueError(f"the histogram has {edges.size} edges for {counts.size} counts")
    facts: dict[str, Any] = {
        name: values.get(name) for name in ("episodes", "transitions", "agents")
    }
    if isinstance(facts["agents"], list):
        facts["agents"] = len(facts["agents"])
    facts |= {f"return, {name}": returns.get(name) for name in ("mean", "std", "min", "max")}
    facts |= {f"episode length, {name}": lengths.get(name) for name in ("mean", "min", "max")}
    return DatasetCard(
        name=str(values["name"]),
        fingerprint=str(values.get("fingerprint", "")),
        facts={name: float(value) for name, value in facts.items() if value is not None},
        mean_return=float(_floats(returns["mean"])[0]),
        edges=edges,
        counts=counts,
    )


def _replay(path: Path) -> tuple[Episode, ...]:
    """The recorded episodes."""
    episodes = []
    with np.load(path, allow_pickle=False) as arrays:
        captions = json.loads(str(arrays["captions"].reshape(-1)[0]))
        for place, caption in enumerate(captions):
            frames = arrays[f"frames_{place}"]
            if frames.dtype != np.uint8 or frames.ndim != 4 or frames.shape[-1] != 3:
                raise ValueError(f"frames_{place} is {frames.dtype} {frames.shape}, not pictures")
            if not frames.size:
                raise ValueError(f"frames_{place} is empty")
            steps = caption["steps"]
            episodes.append(
                Episode(
                    title=str(caption["title"]),
                    episode_return=float(caption["return"]),
                    frames=frames,
                    actions=tuple(tuple(str(a) for a in step["actions"]) for step in steps),
                    rewards=tuple(float(step["reward"]) for step in steps),
                )
            )
    if not episodes:
        raise ValueError("it holds no episode")
    return tuple(episodes)


def _floats(values: Any) -> Float[np.ndarray, "values"]:
    """Numbers as a flat array; null is NaN."""
    flat = values if isinstance(values, list) else [values]
    return np.array([math.nan if value is None else float(value) for value in flat], np.float64)
