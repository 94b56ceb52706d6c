import json
from pathlib import Path
from typing import Any

import pytest

from oryx_marl import config as configs
from oryx_marl import registry, renamed
from oryx_marl.algorithms import bc, oryx
from oryx_marl.bench import published, settings
from oryx_marl.bench import suite as suites
from oryx_marl.errors import OryxError
from oryx_marl.networks.recurrent import RecurrentConfig
from oryx_marl.networks.sable import NetworkConfig

RESULTS = Path(__file__).parent.parent.parent / "results" / "bench"

COMMON = {
    "sequence_length": 20,
    "batch_size": 64,
    "learning_rate": 3e-4,
    "td_lambda": 0.0,
    "act_with_ema": False,
    "advantage": "cumulative",
    "initial_state": "zeros",
    "permute_agents": True,
    "scale_values": False,
    "standardise": False,
}


def expected(
    value: float, policy: float, width: int, heads: int, blocks: int, decay: float
) -> dict[str, Any]:
    network = {
        "width": width,
        "num_heads": heads,
        "num_blocks": blocks,
        "decay_scale": decay,
        "remember_last_action": False,
        "shortest_memory": 32,
        "longest_memory": 512,
    }
    return {
        **COMMON,
        "value_temperature": value,
        "policy_temperature": policy,
        "network": network,
    }


PAPER = {
    ("tmaze", "replay"): expected(1000.0, 0.1, 64, 1, 1, 0.5),
    ("tmaze", "expert"): expected(1000.0, 0.1, 64, 1, 1, 0.5),
    ("connector", "con-25x25x50a"): expected(1000.0, 0.1, 128, 4, 1, 0.5),
    ("smax", "smacv2_30units"): expected(1000.0, 0.1, 128, 4, 1, 0.5),
    ("smac_v1", "Good"): expected(1000.0, 0.9, 64, 1, 1, 0.9),
    ("smac_v1", "Medium"): expected(1000.0, 0.3, 64, 1, 1, 0.9),
    ("smac_v1", "Poor"): expected(1000.0, 0.1, 64, 1, 1, 0.9),
    ("smac_v1", "Medium-Replay"): expected(1000.0, 0.1, 64, 1, 1, 0.9),
    ("smac_v1", "Expert"): expected(1000.0, 0.9, 64, 1, 1, 0.9),
    ("smac_v1", "Mixed"): expected(1000.0, 0.8, 64, 1, 1, 0.9),
    ("rware", "Expert"): expected(10_000.0, 0.1, 64, 1, 1, 0.8),
    ("mamujoco", "Medium-Replay"): expected(100_000.0, 10.0, 64, 1, 3, 0.9),
}


@pytest.mark.parametrize(("environment", "dataset"), PAPER)
def test_the_papers_settings(environment: str, dataset: str) -> None:
    assert settings.paper(environment, dataset) == PAPER[environment, dataset]


@pytest.mark.parametrize(("environment", "dataset"), PAPER)
def test_they_are_a_config_of_oryx(environment: str, dataset: str) -> None:
    values = settings.paper(environment, dataset)
    found = configs.to_dict(configs.from_dict(oryx.Config, values))
    network = found.pop("network")
    assert {**network, **values.pop("network")} == network
    assert {**found, **values} == found


def test_every_published_score_of_oryx_has_settings() -> None:
    for score in published.scores(algorithm="Oryx"):
        settings.paper(score.environment, score.dataset)


def test_one_call_does_not_change_the_next() -> None:
    settings.paper("tmaze", "replay")["network"]["width"] = 1
    assert settings.paper("tmaze", "replay") == PAPER["tmaze", "replay"]


def test_unknown_ones_are_refused() -> None:
    with pytest.raises(OryxError) as error:
        settings.paper("chess", "Good")
    assert str(error.value) == (
        "the paper has no settings for 'chess'; "
        "it has: tmaze, connector, smax, smac_v1, rware, mamujoco"
    )
    with pytest.raises(OryxError, match="'Random' data of smac_v1; it has: Good, Medium, Poor"):
        settings.paper("smac_v1", "Random")


def test_shipped_records_were_made_with_their_suites_settings() -> None:
    """Whatever the defaults are now: else tables would mix settings."""
    found = 0
    for name in registry.names("bench.suites"):
        suite = suites.load(name)
        for path in sorted((RESULTS / suite.name / "cells").glob("*.json")):
            record = json.loads(path.read_text())
            variant = suite.variants[record["variant"]]
            kind = registry.load("algorithms", variant.algorithm).Config
            values = renamed.settings(record["config"], kind.online)
            assert configs.from_stored(kind, values) == variant.config, path.name
            found += 1
    assert found > 40


def test_settings_of_the_first_version() -> None:
    old = settings.earlier(bc.Config())
    assert (old.initial_state, old.standardise) == ("zeros", False)
    assert old.network == RecurrentConfig(64, 64)
    wide = settings.earlier(oryx.Config(network=NetworkConfig(width=128)), num_heads=2)
    assert (wide.network.width, wide.network.num_heads, wide.network.decay_scale) == (128, 2, 0.9)
    assert (wide.permute_agents, wide.policy_temperature, wide.scale_values) == (True, 0.1, False)
