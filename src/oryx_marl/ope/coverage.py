"""Whether the logs show what a policy does, by the weights of importance sampling.

The mean over logged episodes of ρ_{0..t} = Π π(a) / μ(a) is the share of the policy's own episodes
that keep, up to step t, to what the behaviour does now and then: 1 if all do. It tells what no
critic can: of actions that were never logged in a situation, critics say what was true in others.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

LEAST = 0.9
"""Share that the logs must show; above its inverse the behaviour is misjudged."""
ERRORS = 3.0
"""Standard errors beyond which a mean is surely below or above; it is looked at in every step."""


class Weights(NamedTuple):
    """Of all episodes, at every step."""

    mean: Float[np.ndarray, " T"]
    error: Float[np.ndarray, " T"]
    """Standard error."""
    effective: Float[np.ndarray, " T"]
    """Effective sample size."""


def weigh(log_ratios: Float[np.ndarray, "E T"]) -> Weights:
    """Means of ρ_{0..t}; log-ratios after an episode's end are 0, so that it keeps its weight."""
    weights = np.exp(np.clip(np.cumsum(log_ratios, axis=1), -100, 100))
    total, squares = weights.sum(axis=0), (weights**2).sum(axis=0)
    error = weights.std(axis=0) / np.sqrt(len(weights))
    return Weights(total / len(weights), error, total**2 / np.maximum(squares, 1e-300))


def find_doubt(log_ratios: Float[np.ndarray, "E T"], least_effective: float) -> str:
    """Why nothing can be told from these logs, or nothing.

    Args:
        log_ratios: Σ over agents of log π(a) - log μ(a), of the logged actions.
        least_effective: effective episodes below which a step is not looked at.
    """
    found = weigh(log_ratios)
    known = found.effective >= least_effective
    if not known.any():
        return ""
    highest = np.where(known, found.mean + ERRORS * found.error, np.inf)
    lowest = np.where(known, found.mean - ERRORS * found.error, -np.inf)
    if highest.min() < LEAST:
        step = int(highest.argmin())
        return (
            f"the logs show about {found.mean[step]:.0%} of what the policy does up to step "
            f"{step + 1} (at most {highest[step]:.0%}); the rest was never tried"
        )
    if lowest.max() > 1 / LEAST:
        step = int(lowest.argmax())
        return (
            f"who acted in the logs is not understood: the weights of episodes have a mean of "
            f"{found.mean[step]:.2g} at step {step + 1}, and should have one of 1"
        )
    return ""
