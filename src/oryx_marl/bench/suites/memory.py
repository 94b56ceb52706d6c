"""Memory beyond the window: what a recurrent state must begin a window with.

Windows have 20 steps, episodes 60 and more. In anti-coordination agents lose each other, in recall
a cue is needed after 60 steps, and the maze is three times as long as usual.
"""

from dataclasses import replace

from oryx_marl.algorithms import oryx
from oryx_marl.bench.settings import RUNS_BEHIND_DEFAULTS, earlier
from oryx_marl.bench.suite import EVERY_WAY, Suite, Variant

ORYX = oryx.Config()
VARIANTS = {
    "Oryx": Variant("oryx", ORYX, earlier_runs=RUNS_BEHIND_DEFAULTS),
    "Oryx, empty states": Variant("oryx", replace(ORYX, initial_state="zeros"), fixed=True),
    "Oryx, burn-in": Variant("oryx", replace(ORYX, initial_state="burn_in"), fixed=True),
    "Oryx, shuffled states": Variant("oryx", replace(ORYX, initial_state="shuffled"), fixed=True),
    "Oryx, settings of 0.1": Variant(
        "oryx", earlier(oryx.Config(advantage="cumulative"), num_heads=1), fixed=True
    ),
}
DATASETS = (
    "anticoordination-60/random-first",
    "anticoordination-500/random-first",
    "recall-60/half",
    "tmaze-18x60/planner-mixed",
)
SUITE = Suite(
    "memory",
    DATASETS,
    VARIANTS,
    updates=20_000,
    log_every=1_000,
    act=EVERY_WAY,
    tune_on="recall-60/half",
)
