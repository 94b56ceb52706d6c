"""A run begins without doing anything twice, and without leaving anything of what is refused."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from oryx_marl import experiment
from oryx_marl.algorithms import bc
from oryx_marl.data import dataset as datasets
from oryx_marl.data import prepared, sampler
from oryx_marl.data.subsample import whole_episodes
from oryx_marl.data.vault import read, write
from oryx_marl.errors import OryxError
from oryx_marl.experiment import EvaluationSettings, Experiment
from oryx_marl.networks.recurrent import RecurrentConfig
from oryx_marl.recipes import open as open_dataset
from oryx_marl.training.loop import TrainSettings

CONFIG = bc.Config(network=RecurrentConfig(8, 8), batch_size=4, sequence_length=4)
TRAIN = TrainSettings(updates=2, seeds=1, log_every=2, evaluate_every=2, checkpoint_every=2)
SCORES = EvaluationSettings(episodes=2, episodes_while_training=2, replays=0)


@pytest.mark.parametrize("hold_out", [0.0, 0.2])
def test_nothing_is_done_twice_at_the_start_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hold_out: float
) -> None:
    """Data are hashed once when they are read and once for their fingerprint, lengths are checked
    once before a folder is made and once where windows are drawn, and there is one algorithm."""
    stored = write(whole_episodes(open_dataset("tmaze/planner-mixed"), 200, 0), tmp_path / "a.vlt")
    counts: Counter[str] = Counter()

    def counted(name: str, function):
        def call(*arguments, **options):
            counts[name] += 1
            return function(*arguments, **options)

        return call

    monkeypatch.setattr(datasets, "hash_arrays", counted("hash", datasets.hash_arrays))
    monkeypatch.setattr(bc, "make", counted("make", bc.make))
    check = counted("check", sampler.check_length)
    monkeypatch.setattr(sampler, "check_length", check)
    monkeypatch.setattr(prepared, "check_length", check)
    settings = replace(SCORES, hold_out=hold_out)
    result = experiment.run(
        Experiment("bc", CONFIG, read(stored), tmp_path / "run", TRAIN, settings)
    )
    assert result.summary is not None
    assert (result.held_out is not None) == (hold_out > 0)
    assert counts == {"hash": 1, "make": 1, "check": 2}


def test_an_unknown_environment_leaves_no_folder(tmp_path: Path) -> None:
    data = whole_episodes(open_dataset("tmaze/planner-mixed"), 200, 0)
    strange = replace(data, spec=replace(data.spec, environment="os"))
    with pytest.raises(OryxError, match="there is no environment 'os'"):
        experiment.run(Experiment("bc", CONFIG, strange, tmp_path / "run", TRAIN, SCORES))
    assert not (tmp_path / "run").exists()
