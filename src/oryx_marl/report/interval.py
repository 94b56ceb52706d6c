"""Mean and 95% interval over seeds at every point of a curve."""

import numpy as np
from jaxtyping import Float

from oryx_marl.eval.metrics import mean_interval


def over_seeds(
    values: Float[np.ndarray, "S points"], is_rate: bool = False
) -> tuple[Float[np.ndarray, "points"], Float[np.ndarray, "points"], Float[np.ndarray, "points"]]:
    """Mean, low and high at each point, over the seeds that have a value there.

    One seed alone has no interval: low and high are NaN. So is all of a point without values. The
    interval of a rate is cut to [0, 1], as in `eval.metrics.summarise`.
    """
    columns = [column[np.isfinite(column)] for column in values.T]
    missing = (np.nan, np.nan, np.nan)
    points = [mean_interval(column) if column.size else missing for column in columns]
    mean, low, high = np.array(points, np.float64).T
    return (mean, np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)) if is_rate else (mean, low, high)
