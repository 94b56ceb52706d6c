"""The paper's T-Maze experiment from the beginning: Sable learns online, its data, Oryx on them.

Oryx with the paper's settings on `tmaze/replay` is a cell of suite `tmaze`.
"""

from oryx_marl.bench.suite import Suite, Variant
from oryx_marl.bench.suites import tmaze
from oryx_marl.recipes.tmaze import make_replay_config

PAPER = "Oryx, the paper's settings"
SUITE = Suite(
    "tmaze_paper",
    ("tmaze", *tmaze.SUITE.datasets),
    {
        "Sable": Variant("sable", make_replay_config(), steps=20_000_000, seeds=4, earlier_runs=4),
        "Oryx": tmaze.VARIANTS["Oryx"],
        PAPER: tmaze.VARIANTS[PAPER],
    },
    order=(
        ("Sable", "tmaze"),
        ("Oryx", "tmaze/replay"),
        ("Oryx", "tmaze/expert"),
        (PAPER, "tmaze/expert"),
    ),
    tune_on="tmaze/replay",
    described=("tmaze/snapshots", "tmaze/replay-small"),
)
