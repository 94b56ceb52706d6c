"""Where a demo goes: no earlier one, finished or not, is in its way or lost."""

from dataclasses import replace
from pathlib import Path

import pytest

from oryx_marl import experiment
from oryx_marl.algorithms import oryx
from oryx_marl.algorithms._making import make_algorithm
from oryx_marl.cli.demo import choose_folder
from oryx_marl.data import catalog
from oryx_marl.experiment import Experiment
from oryx_marl.runs.documents import Score, Summary
from oryx_marl.runs.folder import Run
from oryx_marl.training.loop import TrainSettings


@pytest.fixture
def begun(tmp_path: Path) -> Experiment:
    """A demo that was interrupted."""
    data, settings = catalog.open("tmaze/planner-expert"), TrainSettings(updates=2_000)
    work = Experiment("oryx", oryx.Config(), data, tmp_path / "demo", settings)
    begin(work)
    return work


def begin(work: Experiment) -> None:
    algorithm = make_algorithm(work.algorithm, work.config, work.learn_from.spec)
    Run(work.out).begin(experiment.describe(work, algorithm), resume=False)


def test_the_same_demo_goes_on(begun: Experiment, capsys: pytest.CaptureFixture[str]) -> None:
    assert choose_folder(begun).out == begun.out
    assert capsys.readouterr().out == ""


def test_another_demo_is_not_blocked(begun: Experiment, capsys: pytest.CaptureFixture[str]) -> None:
    before = (begun.out / "config.json").read_bytes()
    other = replace(begun, train=replace(begun.train, updates=4_000, seeds=2))
    found = choose_folder(other)
    assert found == replace(other, out=begun.out.with_name("demo-2"))
    told = capsys.readouterr().out.replace("\n", " ")
    assert "unfinished run with seeds [0, 1, 2], not [0, 1], updates 2,000, not 4,000" in told
    assert f"this one is in {found.out}" in told
    begin(found)
    assert (begun.out / "config.json").read_bytes() == before
    assert choose_folder(other).out == found.out  # its own beginning
    Run(found.out).write(Summary("return", 1, {("last", "sampled"): Score(0.0, 0.0, 0.0, ())}))
    assert choose_folder(other).out.name == "demo-3"


def test_a_damaged_one_is_kept(begun: Experiment, capsys: pytest.CaptureFixture[str]) -> None:
    (begun.out / "config.json").write_text("{")
    assert choose_folder(begun).out.name == "demo-2"
    assert "cannot be continued" in capsys.readouterr().out
