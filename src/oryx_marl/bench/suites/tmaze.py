"""T-Maze: Oryx, the baselines of the paper and its ablations, on recorded and on expert data."""

from dataclasses import replace
from typing import Any

from oryx_marl import config as configs
from oryx_marl.algorithms import bc, iicq, iql_cql, madt, maicq, mat_icq, oryx
from oryx_marl.bench import settings
from oryx_marl.bench.settings import earlier
from oryx_marl.bench.suite import Suite, Variant, quicken
from oryx_marl.networks.gpt import GPTConfig

ORYX = earlier(oryx.Config(advantage="cumulative"), num_heads=1)
PAPER = configs.from_dict(oryx.Config, settings.paper("tmaze", "replay"))


EARLIER_RUNS = 23
"""Behind Oryx's defaults: docs/notes/differences.md#how-defaults-were-chosen."""


def ablate(**changes: Any) -> Variant:
    """Oryx with one thing changed."""
    return Variant("oryx", replace(ORYX, **changes), ablation_of="Oryx")


VARIANTS = {
    "Oryx": Variant("oryx", ORYX, earlier_runs=EARLIER_RUNS),
    "I-ICQ": Variant("iicq", earlier(iicq.Config())),
    "MAICQ": Variant("maicq", earlier(maicq.Config())),
    "Oryx w/o autoregressive actions": ablate(network=replace(ORYX.network, autoregressive=False)),
    "Oryx w/o memory": replace(
        ablate(sequence_length=2),
        acting={"Oryx w/o memory, state not carried": {"memory_when_acting": False}},
    ),
    "Oryx w/o ICQ": ablate(objective="q_learning"),
    "BC": Variant("bc", earlier(bc.Config())),
    "IQL-CQL": Variant("iql_cql", earlier(iql_cql.Config())),
    "MAT+ICQ": Variant("mat_icq", earlier(mat_icq.Config())),
    "MADT": Variant("madt", earlier(madt.Config())),
    "MADT, observations alone": Variant(
        "madt",
        earlier(madt.Config(network=GPTConfig(tokens="observation", centralised=False))),
        ablation_of="MADT",
    ),
    "Oryx, the paper's settings": Variant("oryx", PAPER, fixed=True),
    "Oryx in bfloat16": ablate(network=replace(ORYX.network, precision="bfloat16")),
}
SUITE = Suite(
    "tmaze",
    ("tmaze/replay", "tmaze/expert"),
    VARIANTS,
    tune_on="tmaze/replay",
)

QUICK = Suite(
    "tmaze-quick",
    ("tmaze/expert",),
    quicken(VARIANTS, ("Oryx", "I-ICQ", "MAICQ", "BC")),
    updates=1_000,
    seeds=2,
    episodes=160,
    log_every=100,
    tune_on="tmaze/expert",
)
"""Minutes on two cores. The colours are fixed in these data, so that even those solve it who do not
coordinate; `tmaze_planner` has data where they are not."""
