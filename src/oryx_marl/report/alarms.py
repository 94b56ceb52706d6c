"""Logged metrics that tell when a result should not be trusted."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from oryx_marl.report import numbers
from oryx_marl.report.run import Metrics, Series

HIGHEST_LOGIT = 100.0
"""Logits stay near 20 when all is well and pass 1,000 when labels are illegal."""
LOWEST_LOG_STD = -4.9
"""The range ends at -5 (networks/heads.py): there the density is a spike that nothing can widen."""
LOWEST_SHARE = 0.05
"""Effective sample size as a share of the rows: below this, hardly any row is learned from."""
HIGHEST_SHARE = 0.95
"""Above this the weights are nearly equal; no fault, but worth saying."""


@dataclass(frozen=True)
class Alarm:
    """What one metric says."""

    rings: bool
    text: str


def read(metrics: Metrics, seeds: Sequence[int]) -> dict[str, Alarm]:
    """The alarms by metric: those that watch over training, and any metric that is not finite."""
    found = {}
    for name, series in metrics.series.items():
        broken = _broken(series, seeds)
        if broken:
            found[name] = Alarm(True, broken)
        elif is_logit(name):
            found[name] = _logit(series.values)
        elif is_log_std(name):
            found[name] = _log_std(series.values)
        elif is_sample_size(name):
            found[name] = _sample_size(series.values)
    return found


def is_logit(name: str) -> bool:
    """Whether a metric is the largest logit."""
    return "max" in name and "logit" in name


def is_log_std(name: str) -> bool:
    """Whether a metric is the smallest logarithm of a standard deviation."""
    return "min" in name and "log_std" in name


def is_sample_size(name: str) -> bool:
    """Whether a metric is an effective sample size of the weights."""
    return "effective_sample_size" in name


def _broken(series: Series, seeds: Sequence[int]) -> str:
    """Where a metric first stops being finite, or nothing."""
    rows, lines = np.nonzero(~np.isfinite(series.values))
    if not rows.size:
        return ""
    first = lines.argmin()
    row, update = int(rows[first]), float(series.updates[lines[first]])
    seed = seeds[row] if row < len(seeds) else f"number {row + 1}"
    return f"Not finite at update {numbers.one(update)}, seed {seed}."


def _logit(values: Float[np.ndarray, "S lines"]) -> Alarm:
    """The largest at any time."""
    worst = float(np.max(values))
    limit = numbers.one(HIGHEST_LOGIT)
    if worst > HIGHEST_LOGIT:
        text = f"Reached {numbers.one(worst)}, above {limit}: look for illegal logged actions."
        return Alarm(True, text)
    return Alarm(False, f"Never above {numbers.one(worst)}; warns above {limit}.")


def _log_std(values: Float[np.ndarray, "S lines"]) -> Alarm:
    """The smallest at the end."""
    last = float(np.min(values[:, -1]))
    now, limit = numbers.one(last), numbers.one(LOWEST_LOG_STD)
    if last < LOWEST_LOG_STD:
        text = f"{now} at the end, below {limit}: a spike; look for constant or copied actions."
        return Alarm(True, text)
    return Alarm(False, f"{now} at the end; warns below {limit}.")


def _sample_size(values: Float[np.ndarray, "S lines"]) -> Alarm:
    """The smallest over seeds at the end."""
    last = float(np.min(values[:, -1]))
    now, limit = f"{numbers.one(last)} of the rows", numbers.one(LOWEST_SHARE)
    if last < LOWEST_SHARE:
        return Alarm(True, f"Only {now} at the end, below {limit}: raise the temperature.")
    equal = " Near 1 all rows count alike: plain cloning." if last > HIGHEST_SHARE else ""
    return Alarm(False, f"{now} at the end; warns below {limit}.{equal}")
