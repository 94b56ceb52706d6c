"""Scores with honest intervals: the seed is the unit, episodes of one seed are not independent."""

from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import stats


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


def summarise(returns: Float[np.ndarray, "S episodes"], metric: str) -> dict[str, Any]:
    """Mean and interval over seeds, a rate's cut to what it can be (Student's t knows no bounds).

    The spread within each seed stands apart.
    """
    per_seed = returns.mean(axis=1, dtype=np.float64)
    mean, low, high = mean_interval(per_seed)
    if is_rate(metric):
        low, high = np.clip([low, high], 0.0, 1.0).tolist()
    return {
        "mean": mean,
        "low": None if np.isnan(low) else low,
        "high": None if np.isnan(high) else high,
        "per_seed": per_seed.tolist(),
        "within_seed_std": returns.std(axis=1, dtype=np.float64).tolist(),
    }


def marl_eval(
    environment: str,
    task: str,
    algorithm: str,
    seeds: list[int],
    evaluations: list[dict[str, Any]],
    absolute: Float[np.ndarray, "S episodes"],
) -> dict[str, Any]:
    """The layout that marl-eval reads; `step_count` counts gradient updates.

    `evaluations` are rows with `update`, `seconds` and `returns [S, episodes]`; `absolute` are the
    returns of each seed's best weights on fresh episodes.
    """
    runs = {}
    for index, seed in enumerate(seeds):
        steps: dict[str, Any] = {
            f"step_{number}": {
                "step_count": row["update"],
                "elapsed_time": row["seconds"],
                "return": row["returns"][index],
            }
            for number, row in enumerate(evaluations)
        }
        steps["absolute_metrics"] = {"return": absolute[index].tolist()}
        runs[f"seed_{seed}"] = steps
    return {environment: {task: {algorithm: runs}}}
