"""Comparing algorithms over seeds and tasks: significance, normalised scores, aggregates.

Aggregates follow Agarwal et al. 2021, "Deep RL at the Edge of the Statistical Precipice".
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import stats

from oryx_marl.errors import OryxError

Runs = Float[np.ndarray, "_"]
"""One score per seed."""
Scores = Float[np.ndarray, "_ _"] | Sequence[Runs]
"""Scores [runs, tasks], or one array per task where their numbers of runs differ."""
Tasks = Sequence[Float[np.ndarray, "..."]]
"""One array per task, its runs on the last axis; resamples stand before it."""


class Summary(NamedTuple):
    """Mean and spread of one algorithm over its seeds on one task."""

    mean: float
    std: float
    """Unknown (NaN) with a single seed."""
    num_seeds: int


class Ranking(NamedTuple):
    """Who is best on a task, and which others are not significantly worse."""

    best: str
    alike: frozenset[str]


class Estimate(NamedTuple):
    """A number and its interval; low and high are NaN where a task has a single run."""

    value: float
    low: float
    high: float


class Paired(NamedTuple):
    """How two algorithms differ when seed k of both is scored on the same episodes."""

    difference: Estimate
    """Mean over seeds of x - y, with Student's t interval; low and high are NaN where a single seed
    or equal differences say nothing about spread."""
    welch: float
    """Two-sided p-value of Welch's test, which does not know of the pairs."""
    num_seeds: int

    @property
    def verdict(self) -> str:
        """`significant` is said where the interval leaves out 0, and nowhere else."""
        value, low, high = self.difference
        if math.isnan(low):
            if self.num_seeds == 1:
                return "one seed, no interval"
            return "equal in every seed" if value == 0 else "the same in every seed, no interval"
        return "significant" if low > 0 or high < 0 else "not significant"


def mean_std(per_seed: Runs) -> Summary:
    """Mean and standard deviation over seeds, with S - 1 in the denominator.

    The seeds are a sample of all seeds; and only so read do the paper's spreads give its stars.
    """
    _require_finite(per_seed, "the scores")
    values = per_seed.astype(np.float64)
    if np.ptp(values) == 0:  # rounding would give equal numbers a spread
        return Summary(float(values[0]), 0.0 if len(values) > 1 else math.nan, len(values))
    return Summary(float(values.mean()), float(values.std(ddof=1)), len(values))


def welch(x: Summary, y: Summary) -> float:
    """Two-sided p-value of Welch's t-test; unknown (NaN) where one side is a single seed.

    Without spread on either side it is 1 for equal means and 0 for different ones.
    """
    if math.isnan(x.std) or math.isnan(y.std):
        return math.nan
    if x.std == y.std == 0:
        return float(x.mean == y.mean)
    return float(stats.ttest_ind_from_stats(*x, *y, equal_var=False).pvalue)


def paired(x: Runs, y: Runs, confidence: float = 0.95) -> Paired:
    """The differences x - y seed by seed, with their t interval over seeds, and Welch beside.

    Where both were scored on the same episodes (the same seeds, streams and number of episodes),
    what makes those episodes hard or easy is in both scores and drops out.
    """
    _require_confidence(confidence)
    if len(x) != len(y):
        raise OryxError(f"{len(x)} and {len(y)} seeds make no pairs; compare them by Welch's test")
    p = welch(mean_std(x), mean_std(y))
    found = mean_std(x.astype(np.float64) - y.astype(np.float64))
    if found.num_seeds < 2 or found.std == 0:
        return Paired(Estimate(found.mean, math.nan, math.nan), p, found.num_seeds)
    quantile = stats.t.ppf(0.5 + confidence / 2, found.num_seeds - 1)
    half = float(quantile * found.std / math.sqrt(found.num_seeds))
    difference = Estimate(found.mean, found.mean - half, found.mean + half)
    return Paired(difference, p, found.num_seeds)


def not_significantly_worse(
    scores: Mapping[str, Runs | Summary], confidence: float = 0.95
) -> Ranking:
    """The best mean, and all others that Welch's test does not tell from it (the paper's stars).

    Of equal means the first is called best. A single seed proves nothing, so it is never worse.
    """
    if not scores:
        raise OryxError("no scores to compare")
    _require_confidence(confidence)
    found = {
        name: each if isinstance(each, Summary) else mean_std(each) for name, each in scores.items()
    }
    best = max(found, key=lambda name: found[name].mean)
    worse = {name for name in found if welch(found[best], found[name]) < 1 - confidence}
    return Ranking(best, frozenset(found) - worse - {best})


def by_random_and_expert(
    scores: Float[np.ndarray, "*shape"], random: float, expert: float
) -> Float[np.ndarray, "*shape"]:
    """`(score - random) / (expert - random)`: 0 is chance, 1 the expert."""
    if not expert > random:
        raise OryxError(f"the expert's score ({expert}) must be above the random one ({random})")
    return (scores - random) / (expert - random)


def by_highest_return(
    scores: Float[np.ndarray, "*shape"], highest: float
) -> Float[np.ndarray, "*shape"]:
    """Share of the highest return in the dataset."""
    return _share(scores, highest, "the dataset's highest return")


def by_best_published(
    scores: Float[np.ndarray, "*shape"], best: float
) -> Float[np.ndarray, "*shape"]:
    """Multiple of the best published score: above 1 is better than published."""
    return _share(scores, best, "the best published score")


def _share(
    scores: Float[np.ndarray, "*shape"], whole: float, name: str
) -> Float[np.ndarray, "*shape"]:
    if not whole > 0:
        raise OryxError(
            f"{name} is {whole}: only a positive one can normalise; "
            "scale by a random and an expert score instead"
        )
    return scores / whole


def aggregate(
    scores: Scores,
    seed: int = 0,
    repetitions: int = 10_000,
    confidence: float = 0.95,
    gamma: float = 1.0,
) -> dict[str, Estimate]:
    """Median, interquartile mean, mean and optimality gap over tasks, with bootstrap intervals.

    Runs are redrawn within each task, independently for each task; intervals are percentiles.
    Tasks count alike, but in the interquartile mean each run does.
    """
    _require_confidence(confidence)
    tasks = _split(scores)
    redrawn = _redraw(tasks, np.random.default_rng(seed), _require_positive(repetitions))
    statistics: dict[str, Callable[[Tasks], np.ndarray]] = {
        "median": _median,
        "iqm": _interquartile_mean,
        "mean": _mean,
        "optimality_gap": partial(_optimality_gap, gamma=gamma),
    }
    return {
        name: _estimate(float(statistic(tasks)), statistic(redrawn), confidence, tasks)
        for name, statistic in statistics.items()
    }


def probability_of_improvement(
    x: Scores,
    y: Scores,
    seed: int = 0,
    repetitions: int = 10_000,
    confidence: float = 0.95,
) -> Estimate:
    """P(X > Y) of a run of each, ties half (Mann-Whitney's U / (n m)), averaged over tasks."""
    _require_confidence(confidence)
    tasks_x, tasks_y = _split(x), _split(y)
    if len(tasks_x) != len(tasks_y):
        raise OryxError(f"scores of {len(tasks_x)} tasks cannot be compared with {len(tasks_y)}")
    rng, repetitions = np.random.default_rng(seed), _require_positive(repetitions)
    wins = [_wins(*pair) for pair in zip(tasks_x, tasks_y, strict=True)]
    draws = np.mean([_redraw_wins(each, rng, repetitions) for each in wins], axis=0)
    value = float(np.mean([each.mean() for each in wins]))
    return _estimate(value, draws, confidence, tasks_x + tasks_y)


def _median(tasks: Tasks) -> np.ndarray:
    return np.asarray(np.median(_task_means(tasks), axis=-1))


def _mean(tasks: Tasks) -> np.ndarray:
    return np.asarray(_task_means(tasks).mean(axis=-1))


def _interquartile_mean(tasks: Tasks) -> np.ndarray:
    """Mean of the middle half of all runs of all tasks."""
    return np.asarray(stats.trim_mean(np.concatenate(tasks, axis=-1), 0.25, axis=-1))


def _optimality_gap(tasks: Tasks, gamma: float) -> np.ndarray:
    """How far runs stay below `gamma`; what is above it makes up for nothing."""
    return _mean([np.maximum(gamma - runs, 0) for runs in tasks])


def _task_means(tasks: Tasks) -> np.ndarray:
    return np.stack([runs.mean(axis=-1) for runs in tasks], axis=-1)


def _wins(
    x: Float[np.ndarray, " runs_x"], y: Float[np.ndarray, " runs_y"]
) -> Float[np.ndarray, "runs_x runs_y"]:
    """1 where a run of x beats one of y, one half where they are equal."""
    return (x[:, None] > y) + 0.5 * (x[:, None] == y)


def _redraw(
    tasks: Tasks, rng: np.random.Generator, repetitions: int
) -> list[Float[np.ndarray, "repetitions _"]]:
    """Each task's runs drawn anew with replacement."""
    return [runs[rng.integers(len(runs), size=(repetitions, len(runs)))] for runs in tasks]


def _redraw_wins(
    wins: Float[np.ndarray, "runs_x runs_y"], rng: np.random.Generator, repetitions: int
) -> Float[np.ndarray, " repetitions"]:
    """Mean of `wins` over redrawn rows and columns; how often each is drawn is all that counts."""
    rows, columns = (
        rng.multinomial(count, np.full(count, 1 / count), size=repetitions) for count in wins.shape
    )
    return ((rows @ wins) * columns).sum(axis=1) / wins.size


def _estimate(
    value: float, draws: Float[np.ndarray, "_"], confidence: float, tasks: Tasks
) -> Estimate:
    """The value with its percentile interval; a single run says nothing about spread."""
    if min(len(runs) for runs in tasks) < 2:
        return Estimate(value, math.nan, math.nan)
    low, high = np.quantile(draws, [0.5 - confidence / 2, 0.5 + confidence / 2])
    return Estimate(value, float(low), float(high))


def _split(scores: Scores) -> list[Runs]:
    """One array of runs per task."""
    tasks = list(scores.T) if isinstance(scores, np.ndarray) else list(scores)
    if not tasks:
        raise OryxError("no tasks to aggregate over")
    for index, runs in enumerate(tasks):
        _require_finite(runs, f"task {index}")
    return [runs.astype(np.float64) for runs in tasks]


def _require_finite(runs: Runs, name: str) -> None:
    if not runs.size:
        raise OryxError(f"{name}: there are no runs")
    if not np.isfinite(runs).all():
        bad = int(np.flatnonzero(~np.isfinite(runs))[0])
        raise OryxError(f"{name}: run {bad} is {runs[bad]}, not a finite number")


def _require_confidence(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise OryxError(f"confidence must be between 0 and 1, got {confidence}")


def _require_positive(repetitions: int) -> int:
    if repetitions < 1:
        raise OryxError(f"repetitions must be at least 1, got {repetitions}")
    return repetitions
