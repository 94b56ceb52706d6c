"""Sable learns to coordinate from its own experience alone."""

from pathlib import Path

import pytest

from oryx_marl import experiment
from oryx_marl.algorithms import sable
from oryx_marl.envs.tmaze import TMaze
from oryx_marl.networks.sable import NetworkConfig
from oryx_marl.training.online import OnlineSettings


@pytest.mark.slow
def test_sable_solves_a_short_maze(tmp_path: Path) -> None:
    """Colours that agree solve nothing: agents that choose by themselves stay at one half."""
    config = sable.Config(
        network=NetworkConfig(width=32),
        num_envs=128,
        rollout_length=16,
        learning_rate=1e-3,
        epochs=2,
    )
    env = TMaze(length=1, time_limit=8)
    settings = OnlineSettings(steps=300_000, evaluate_every=0, checkpoint_every=1000)
    work = experiment.Experiment(
        "sable",
        config,
        env,
        tmp_path / "run",
        settings.in_updates(config.num_envs * config.rollout_length),
        experiment.EvaluationSettings(replays=0),
    )
    assert experiment.run(work).summary.scores["last", "sampled"].mean > 0.95
