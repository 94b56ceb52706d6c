"""RWARE: the six warehouses of the paper, 500 steps with rare rewards.

Settings are chosen on the tiny warehouse with four agents. The suite that the paper compares on
has other data and another reward, so its numbers stand beside ours but are not the same thing.
"""

from dataclasses import replace

from oryx_marl import config as configs
from oryx_marl.algorithms import bc, iicq, iql_cql, madt, maicq, mat_icq, oryx
from oryx_marl.bench import settings
from oryx_marl.bench.settings import RUNS_BEHIND_DEFAULTS
from oryx_marl.bench.suite import Suite, Variant, quicken
from oryx_marl.envs import _rware_scenarios as scenarios

DATA = "expert"
ORYX = oryx.Config()
VARIANTS = {
    "Oryx": Variant("oryx", ORYX, earlier_runs=RUNS_BEHIND_DEFAULTS),
    "I-ICQ": Variant("iicq", iicq.Config()),
    "MAICQ": Variant("maicq", maicq.Config(normalise_state=True)),
    "BC": Variant("bc", bc.Config()),
    "IQL-CQL": Variant("iql_cql", iql_cql.Config()),
    "MAT+ICQ": Variant("mat_icq", mat_icq.Config()),
    "MADT": Variant("madt", madt.Config()),
    "Oryx w/o memory": Variant("oryx", replace(ORYX, sequence_length=2), ablation_of="Oryx"),
    "Oryx, the paper's settings": Variant(
        "oryx", configs.from_dict(oryx.Config, settings.paper("rware", DATA)), fixed=True
    ),
}
"""The global state has columns and rows as they are, so MAICQ normalises it."""
FIRST = ("Oryx", "I-ICQ", "MAICQ", "BC")
TINY = tuple(name for name in scenarios.PAPER if "-tiny-" in name)
SMALL = tuple(name for name in scenarios.PAPER if "-small-" in name)
LATER = tuple(name for name in VARIANTS if name not in FIRST)
SUITE = Suite(
    "rware",
    tuple(f"{name}/{DATA}" for name in scenarios.PAPER),
    VARIANTS,
    updates=20_000,
    seeds=3,
    log_every=1_000,
    order=tuple(
        (variant, f"{name}/{DATA}")
        for variants, names in ((FIRST, TINY), (FIRST, SMALL), (LATER, TINY), (LATER, SMALL))
        for variant in variants
        for name in names
    ),
    tune_on=f"rware-tiny-4ag-easy/{DATA}",
    is_scaling=True,
    published={
        f"{name}/{DATA}": {
            "environment": "rware",
            "scenario": name.removeprefix("rware-").removesuffix("-easy"),
            "dataset": "Expert",
        }
        for name in scenarios.PAPER
    },
    note="paper: on other data, and the shaped reward of agent 0 alone; ours are deliveries, the "
    "mean over agents.\nDo not compare their heights",
)
QUICK = replace(
    SUITE,
    name="rware-quick",
    datasets=("rware-tiny-2ag-easy/planner",),
    variants=quicken(VARIANTS, ("Oryx", "MAICQ", "BC")),
    updates=1_000,
    seeds=2,
    episodes=32,
    log_every=100,
    order=(),
    tune_on="rware-tiny-2ag-easy/planner",
    published={},
    note="",
)
"""On the log of a hand-written team, which is made on a CPU."""
