"""Who is compared as teams grow, and with which settings."""

from dataclasses import replace

from oryx_marl import config as configs
from oryx_marl.algorithms import bc, iicq, iql_cql, madt, maicq, oryx
from oryx_marl.bench import settings
from oryx_marl.bench.settings import earlier
from oryx_marl.bench.suite import Suite, Variant, quicken
from oryx_marl.bench.suites import tmaze
from oryx_marl.networks.sable import NetworkConfig

ORYX = earlier(oryx.Config(advantage="own", network=NetworkConfig(width=128, precision="bfloat16")))
"""The paper's size, in half the time of float32. An action is weighed by its own advantage: rewards
are each agent's own (see results/bench/connector/probes.json)."""
PAPER = configs.from_dict(oryx.Config, settings.paper("connector", "replay"))
EARLIER_RUNS = tmaze.EARLIER_RUNS + 5
"""Those behind the defaults, and the probes on Connector."""

VARIANTS = {
    "Oryx": Variant("oryx", ORYX, earlier_runs=EARLIER_RUNS),
    "MAICQ": Variant("maicq", earlier(maicq.Config())),
    "I-ICQ": Variant("iicq", earlier(iicq.Config())),
    "BC": Variant("bc", earlier(bc.Config())),
    "IQL-CQL": Variant("iql_cql", earlier(iql_cql.Config())),
    "MADT": Variant("madt", earlier(madt.Config())),
    "Oryx, the paper's settings": Variant("oryx", PAPER, fixed=True),
}
ON_CPU = replace(ORYX, network=replace(ORYX.network, precision="float32"))


def quick(suite: Suite, dataset: str) -> Suite:
    """Minutes on a CPU."""
    variants = {**suite.variants, "Oryx": replace(suite.variants["Oryx"], config=ON_CPU)}
    return replace(
        suite,
        name=f"{suite.name}-quick",
        datasets=(dataset,),
        tune_on=dataset,
        variants=quicken(variants, ("Oryx", "MAICQ", "BC")),
        updates=1_000,
        seeds=2,
        episodes=160,
        log_every=100,
        order=(),
    )
