"""The size that follows from the data against fixed ones, on a rich log: Hanabi."""

from dataclasses import replace

from oryx_marl.algorithms import oryx
from oryx_marl.bench.settings import RUNS_BEHIND_DEFAULTS
from oryx_marl.bench.suite import EVERY_WAY, Suite, Variant

ORYX = oryx.Config()
SIZES = ((64, 1), (128, 1), (256, 2))
"""Widths and numbers of blocks."""
TEMPERATURES = (0.3, 3.0)
VARIANTS = {
    "Oryx": Variant("oryx", ORYX, earlier_runs=RUNS_BEHIND_DEFAULTS),
    **{
        f"Oryx, {width} wide, {blocks} deep, {value:g}": Variant(
            "oryx",
            replace(
                ORYX,
                policy_temperature=value,
                network=replace(ORYX.network, width=width, num_blocks=blocks),
            ),
            fixed=True,
        )
        for width, blocks in SIZES
        for value in TEMPERATURES
    },
}
SUITE = Suite(
    "size",
    ("hanabi/mixed", "hanabi/bot"),
    VARIANTS,
    updates=20_000,
    seeds=3,
    log_every=1_000,
    act=EVERY_WAY,
    tune_on="hanabi/mixed",
)
