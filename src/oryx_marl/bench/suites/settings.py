"""What was tried beside Oryx's defaults: the target, the critic, the advantage, ids of agents."""

from dataclasses import replace
from typing import Any

from oryx_marl.algorithms import oryx
from oryx_marl.bench.settings import RUNS_BEHIND_DEFAULTS
from oryx_marl.bench.suite import EVERY_WAY, Suite, Variant

ORYX = oryx.Config()


def vary(**changes: Any) -> Variant:
    """Oryx with one thing changed."""
    return Variant("oryx", replace(ORYX, **changes), ablation_of="Oryx")


VARIANTS = {
    "Oryx": Variant("oryx", ORYX, earlier_runs=RUNS_BEHIND_DEFAULTS),
    "expected target": vary(next_action="expected"),
    "two critics": vary(num_critics=2),
    "cumulative advantage": vary(advantage="cumulative"),
    "ids embedded": vary(network=replace(ORYX.network, agent_id="embedding")),
    "no ids": vary(network=replace(ORYX.network, agent_id="none")),
    "features as logged": vary(standardise=False),
    "rewards as logged": vary(scale_values=False),
    "random order of agents": vary(permute_agents=True),
    "one head": vary(network=replace(ORYX.network, num_heads=1, decay_scale=0.9)),
}
SUITE = Suite(
    "settings",
    ("tmaze/planner-mixed", "con-10x10x10a/snapshots", "smacv2_5_units/snapshots"),
    VARIANTS,
    updates=10_000,
    seeds=3,
    log_every=1_000,
    act=EVERY_WAY,
    tune_on="tmaze/planner-mixed",
)
