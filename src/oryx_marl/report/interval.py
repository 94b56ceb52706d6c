"""Mean and 95% interval over seeds."""

import numpy as np
from jaxtyping import Float

STUDENT = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
"""The 97.5% quantile of Student's t for 1, 2, ... 30 degrees of freedom."""
NORMAL = 1.96
"""The same for many."""


def over_seeds(
    values: Float[np.ndarray, "S points"],
) -> tuple[Float[np.ndarray, "points"], Float[np.ndarray, "points"], Float[np.ndarray, "points"]]:
    """Mean, low and high at each point: mean ± t · s / √S over the seeds that have a value there.

    One seed alone has no interval: low and high are NaN. So is all of a point without values.
    """
    known = np.isfinite(values)
    count = known.sum(axis=0)
    mean = np.where(known, values, 0.0).sum(axis=0) / np.where(count > 0, count, np.nan)
    squares = np.where(known, values - mean, 0.0) ** 2
    freedom = np.where(count > 1, count - 1, np.nan)
    error = np.sqrt(squares.sum(axis=0) / freedom / np.where(count > 0, count, np.nan))
    student = np.array([0.0, *STUDENT, NORMAL])[np.clip(count - 1, 0, len(STUDENT) + 1)]
    return mean, mean - student * error, mean + student * error
