"""T-Maze on the planner's data, where either agent takes either colour: who learns to agree?"""

from oryx_marl.bench.suite import Suite
from oryx_marl.bench.suites import tmaze

SUITE = Suite(
    "tmaze_planner",
    ("tmaze/planner-mixed", "tmaze/planner-expert"),
    tmaze.VARIANTS,
    updates=20_000,
    log_every=500,
)
QUICK = Suite(
    "tmaze_planner-quick",
    ("tmaze/planner-expert",),
    tmaze.QUICK.variants,
    updates=tmaze.QUICK.updates,
    seeds=tmaze.QUICK.seeds,
    episodes=tmaze.QUICK.episodes,
    log_every=tmaze.QUICK.log_every,
)
