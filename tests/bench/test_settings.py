from typing import Any

import pytest

from oryx_marl import config
from oryx_marl.algorithms import oryx
from oryx_marl.bench import published, settings
from oryx_marl.errors import OryxError

COMMON = {
    "sequence_length": 20,
    "batch_size": 64,
    "learning_rate": 3e-4,
    "td_lambda": 0.0,
    "act_with_ema": False,
    "advantage": "cumulative",
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
    found = config.to_dict(config.from_dict(oryx.Config, values))
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
