"""One temperature for every dataset against six fixed ones, on small tasks."""

from dataclasses import replace

from oryx_marl.algorithms import oryx
from oryx_marl.bench.settings import RUNS_BEHIND_DEFAULTS
from oryx_marl.bench.suite import EVERY_WAY, Suite, Variant

ORYX = oryx.Config()
FIXED = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
"""In units of the logged returns."""
VARIANTS = {
    "Oryx": Variant("oryx", ORYX, earlier_runs=RUNS_BEHIND_DEFAULTS),
    **{
        f"Oryx, {value:g}": Variant("oryx", replace(ORYX, policy_temperature=value), fixed=True)
        for value in FIXED
    },
}
SUITE = Suite(
    "temperature",
    (
        "tmaze/planner-mixed",
        "tmaze/planner-expert",
        "tmaze/replay-small",
        "anticoordination-60/random-first",
    ),
    VARIANTS,
    updates=20_000,
    log_every=1_000,
    act=EVERY_WAY,
    tune_on="tmaze/planner-mixed",
)
