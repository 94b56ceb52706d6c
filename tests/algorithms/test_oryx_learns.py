"""Oryx learns the task, from clean logs and from logs with planted faults."""

from dataclasses import replace
from pathlib import Path

import pytest

from oryx_marl import experiment
from oryx_marl.algorithms import oryx
from oryx_marl.bench.suites.tmaze_planner import plant_illegal
from oryx_marl.data import catalog
from oryx_marl.data.dataset import Dataset
from oryx_marl.errors import OryxError
from oryx_marl.training.loop import TrainSettings

CONFIG = oryx.Config(batch_size=32, learning_rate=1e-3)
SETTINGS = TrainSettings(
    updates=1_500, seeds=1, log_every=100, evaluate_every=1_500, checkpoint_every=1_500
)


def success(dataset: Dataset, out: Path, config: oryx.Config = CONFIG, **flags: bool) -> float:
    work = experiment.Experiment("oryx", config, dataset, out, SETTINGS, **flags)
    return experiment.run(work).summary.scores["last", "sampled"].mean


@pytest.mark.slow
def test_clean_and_with_illegal_labels(tmp_path: Path) -> None:
    clean = catalog.open("tmaze/planner-expert")
    faulty = plant_illegal(clean, 0.03)
    with pytest.raises(OryxError, match="illegal action"):
        success(faulty, tmp_path / "refused")
    reached = success(clean, tmp_path / "clean")
    assert reached >= 0.95
    assert success(faulty, tmp_path / "faulty", drop_invalid=True) >= reached - 0.03


@pytest.mark.slow
def test_agents_that_are_told_nothing_choose_alike_half_of_the_time(tmp_path: Path) -> None:
    """In these logs the colours differ and are symmetric: without each other's choice, agents that
    sample pick the same one every second time, and such an episode cannot be solved."""
    blind = replace(CONFIG, network=replace(CONFIG.network, autoregressive=False))
    reached = success(catalog.open("tmaze/planner-expert"), tmp_path, blind)
    assert 0.35 < reached < 0.6
