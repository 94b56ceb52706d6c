"""SMAX with 5 to 30 units a side.

There are pretrained policies of 5, 10 and 20 units; thirty are trained first (`oryx data make
smacv2_30_units/replay`).
"""

from oryx_marl.algorithms import maicq
from oryx_marl.bench.settings import earlier
from oryx_marl.bench.suite import Suite, Variant
from oryx_marl.bench.suites import _scaling
from oryx_marl.recipes import smax

VARIANTS = _scaling.VARIANTS | {
    "MAICQ": Variant("maicq", earlier(maicq.Config(normalise_state=True)))
}
"""As on Connector; but JaxMARL's global state has raw coordinates, with which MAICQ diverges."""
SUITE = Suite(
    "smax",
    tuple(f"{name}/snapshots" for name in smax.FAMILIES),
    {name: VARIANTS[name] for name in ("Oryx", "MAICQ", "BC")},
    updates=50_000,
    seeds=3,
    log_every=1_250,
    tune_on="smacv2_10_units/snapshots",
    is_scaling=True,
)
QUICK = _scaling.quick(SUITE, "smacv2_5_units/expert")
