"""Connector from 3 to 50 agents: does coordination hold as the team grows?

The data are roll-outs of pretrained policies, so that they are the same for all who compare.
Records of version 0.1.0 are of ten checkpoints of each training, later ones of five.
"""

from oryx_marl.bench.suite import Suite
from oryx_marl.bench.suites import _scaling
from oryx_marl.recipes import connector

FIRST = ("con-5x5x3a", "con-10x10x10a", "con-15x15x23a", "con-25x25x50a")
"""Those that show the curve, before the sizes between them."""
LATER = tuple(name for name in connector.FAMILIES if name not in FIRST)
SMALL = FIRST[:3]
"""Where the baselines of the paper's appendix are run."""


def make(name: str, data: str) -> Suite:
    """The suite on one kind of data of every scenario."""
    return Suite(
        name,
        tuple(f"{scenario}/{data}" for scenario in connector.FAMILIES),
        _scaling.VARIANTS,
        updates=50_000,
        seeds=3,
        log_every=1_250,
        order=tuple(
            (variant, f"{scenario}/{data}")
            for variants, scenarios in (
                (("Oryx", "MAICQ"), FIRST),
                (("I-ICQ",), FIRST),
                (("Oryx", "MAICQ", "I-ICQ"), LATER),
                (("BC",), connector.FAMILIES),
                (("IQL-CQL", "MADT"), SMALL),
                (("Oryx, the paper's settings",), FIRST),
            )
            for scenario in scenarios
            for variant in variants
        ),
        tune_on=f"con-10x10x10a/{data}",
        is_scaling=True,
    )


SUITE = make("connector", "snapshots")
QUICK = _scaling.quick(SUITE, "con-5x5x3a/expert")
