"""Intervals by resampling whole episodes: their steps are not independent, they are."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

RESAMPLES = 1_000
LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """A value with its 95% interval, or why there is none."""

    value: float | None
    low: float | None = None
    high: float | None = None
    spread: float | None = None
    """Standard error."""
    refused: str = ""
    """Why there is no number."""

    @staticmethod
    def from_json(values: Any) -> "Estimate":
        """As `dataclasses.asdict` writes it."""
        return Estimate(**values)


def bootstrap_counts(
    num_episodes: int, seed: int = 0, resamples: int = RESAMPLES
) -> Float[np.ndarray, "B E"]:
    """How often each episode is drawn in each resample."""
    generator = np.random.default_rng(seed)
    shares = np.full(num_episodes, 1 / num_episodes)
    return generator.multinomial(num_episodes, shares, resamples).astype(np.float64)


def from_resamples(value: float, resampled: Float[np.ndarray, "B"]) -> Estimate:
    """Percentile interval of a bootstrap."""
    low, high = np.quantile(resampled, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(float(value), float(low), float(high), float(resampled.std(ddof=1)))


def mean_of_episodes(values: Float[np.ndarray, "E"], seed: int = 0) -> Estimate:
    """Mean over episodes, such as the logged return."""
    if len(values) < 2:
        return Estimate(float(values.mean()), refused="one episode has no spread")
    resampled = bootstrap_counts(len(values), seed) @ values / len(values)
    return from_resamples(float(values.mean()), resampled)
