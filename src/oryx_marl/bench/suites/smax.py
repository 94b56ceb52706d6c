"""SMAX with 5 to 30 units a side."""

from oryx_marl.bench.suite import Suite
from oryx_marl.bench.suites import _scaling
from oryx_marl.recipes import smax

SUITE = Suite(
    "smax",
    tuple(f"{name}/replay" for name in smax.FAMILIES),
    {name: _scaling.VARIANTS[name] for name in ("Oryx", "MAICQ", "BC")},
    updates=50_000,
    seeds=3,
    log_every=1_250,
    is_scaling=True,
)
