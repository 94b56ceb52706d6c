"""Scores with honest intervals: the seed is the unit, episodes of one seed are not independent."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import stats

WORST = 10
"""One of so many episodes is among the worst."""


def mean_interval(
    per_seed: Float[np.ndarray, " S"], confidence: float = 0.95
) -> tuple[float, float, float]:
    """Mean and Student-t interval over seeds; without a second seed the interval is unknown."""
    mean = float(per_seed.mean())
    if len(per_seed) < 2:
        return mean, float("nan"), float("nan")
    error = per_seed.std(ddof=1) / np.sqrt(len(per_seed))
    half = float(stats.t.ppf(0.5 + confidence / 2, len(per_seed) - 1) * error)
    return mean, mean - half, mean + half


def is_rate(metric: str) -> bool:
    """Whether a metric of this name lies between 0 and 1."""
    return metric.endswith("rate")


def is_binary(values: Float[np.ndarray, "..."]) -> bool:
    """Whether every value that is known is 0 or 1, so that their mean is a rate."""
    known = values[~np.isnan(values)]
    return bool(known.size) and bool(np.isin(known, (0, 1)).all())


def summarise(values: Float[np.ndarray, "S episodes"], metric: str) -> dict[str, Any]:
    """Mean and interval over seeds, a rate's cut to what it can be (Student's t knows no bounds).

    A rate is called one, or every episode has 0 or 1. Nothing else is cut: the episodes that were
    played do not bound the mean of all others.

    The spread within each seed stands apart. Episodes in which a metric was not reported (NaN) do
    not count; `reported_share` says so. Numbers that nothing is known of are None.
    """
    is_known = ~np.isnan(values)
    if is_known.all():
        per_seed = values.mean(axis=1, dtype=np.float64)
        spread = values.std(axis=1, dtype=np.float64)
    else:
        known = [row[mask] for row, mask in zip(values, is_known, strict=True)]
        per_seed = np.array([x.mean(dtype=np.float64) if len(x) else np.nan for x in known])
        spread = np.array([x.std(dtype=np.float64) if len(x) else np.nan for x in known])
    return {
        **_over_seeds(per_seed, is_rate(metric) or is_binary(values)),
        "within_seed_std": none_for_nan(spread.tolist()),
        **({} if is_known.all() else {"reported_share": float(is_known.mean())}),
    }


def _over_seeds(per_seed: Float[np.ndarray, " S"], is_bounded: bool) -> dict[str, Any]:
    """Mean and interval of the seeds of which something is known; a rate's is cut to 0 and 1."""
    known = per_seed[~np.isnan(per_seed)]
    mean, low, high = mean_interval(known) if len(known) else (np.nan,) * 3
    if is_bounded:
        low, high = np.clip([low, high], 0.0, 1.0).tolist()
    return {
        "mean": none_for_nan(mean),
        "low": none_for_nan(low),
        "high": none_for_nan(high),
        "per_seed": none_for_nan(per_seed.tolist()),
    }


def summarise_worst(returns: Float[np.ndarray, "S episodes"], metric: str) -> dict[str, Any]:
    """Mean over seeds of the mean of each seed's worst tenth of episodes (CVaR at 10%).

    Of n episodes these are the ⌈n / 10⌉ with the lowest return.
    """
    count = -(-returns.shape[1] // WORST)
    lowest = np.sort(returns, axis=1)[:, :count]
    return _over_seeds(lowest.mean(axis=1, dtype=np.float64), is_rate(metric) or is_binary(returns))


def summarise_scores(scores: Mapping[str, np.ndarray], return_name: str) -> dict[str, Any]:
    """The summary of the returns, their worst tenth, the episodes' lengths, and under `metrics`
    the summaries of what the environment reports."""
    summary = summarise(scores["return"], return_name)
    summary["worst_tenth"] = summarise_worst(scores["return"], return_name)
    lengths = scores["length"].mean(axis=1, dtype=np.float64)
    summary["length"] = _over_seeds(lengths, is_bounded=False)
    if metrics := reported(scores):
        summary["metrics"] = {name: summarise(values, name) for name, values in metrics.items()}
    return summary


def reported(scores: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What the environment reports, without what is known of every environment."""
    return {name: values for name, values in scores.items() if name not in ("return", "length")}


def evaluation_row(update: int, seconds: float, scores: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """A line of evaluations.jsonl; `metrics` is there only if the environment reports some."""
    row = {"update": update, "seconds": round(seconds, 3), "returns": scores["return"].tolist()}
    if metrics := reported(scores):
        row["metrics"] = {name: none_for_nan(values.tolist()) for name, values in metrics.items()}
    return row


def none_for_nan(values: Any) -> Any:
    """The same numbers, or lists of them, as JSON has them: None where nothing is known."""
    if isinstance(values, list):
        return [none_for_nan(value) for value in values]
    return None if np.isnan(values) else values


def marl_eval(
    environment: str,
    task: str,
    algorithm: str,
    seeds: list[int],
    evaluations: list[dict[str, Any]],
    absolute: Mapping[str, np.ndarray],
) -> dict[str, Any]:
    """The layout that marl-eval reads; `step_count` counts gradient updates.

    `evaluations` are rows of evaluations.jsonl; `absolute` are the scores [S, episodes] of each
    seed's best weights on fresh episodes. Every metric stands as a list beside `return`.
    """
    best = evaluation_row(0, 0.0, absolute)
    runs = {}
    for index, seed in enumerate(seeds):
        steps: dict[str, Any] = {
            f"step_{number}": {
                "step_count": row["update"],
                "elapsed_time": row["seconds"],
                **_of_seed(row, index),
            }
            for number, row in enumerate(evaluations)
        }
        steps["absolute_metrics"] = _of_seed(best, index)
        runs[f"seed_{seed}"] = steps
    return {environment: {task: {algorithm: runs}}}


def _of_seed(row: dict[str, Any], index: int) -> dict[str, list]:
    metrics = {name: values[index] for name, values in row.get("metrics", {}).items()}
    return {"return": row["returns"][index], **metrics}
