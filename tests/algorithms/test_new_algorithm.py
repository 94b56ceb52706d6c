"""A new algorithm is one file: the one that the documents show, in a folder of its own."""

import re
from pathlib import Path

import pytest

from oryx_marl import experiment, registry
from oryx_marl.algorithms import bc
from oryx_marl.cli import main as cli
from oryx_marl.data import catalog
from oryx_marl.data.subsample import whole_episodes
from oryx_marl.errors import OryxError
from oryx_marl.experiment import EvaluationSettings, Experiment
from oryx_marl.runs.documents import MetricRow
from oryx_marl.runs.folder import Run
from oryx_marl.training.loop import TrainSettings
from oryx_marl.types import ActionSpace, Spec

PAGE = Path(__file__).parents[2] / "docs" / "extend" / "algorithm.md"


def test_the_documented_algorithm_trains(tmp_path: Path, own_plugins: None) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "smooth.py").write_text(code)
    registry.add_file(tmp_path / "smooth.py")
    assert "smooth" in registry.names("algorithms")
    parsed = cli.read(["train", "smooth", "tmaze/planner-expert", "--smoothing", "0.2"])
    assert parsed.config.smoothing == 0.2
    module = registry.load("algorithms", "smooth")
    with pytest.raises(OryxError, match="continuous"):
        module.make(module.Config(), Spec("", ("a",), (1,), ActionSpace("box", 1, (-1.0,), (1.0,))))
    config = module.Config(batch_size=8, learning_rate=3e-3)
    settings = TrainSettings(
        updates=40, seeds=2, log_every=20, evaluate_every=40, checkpoint_every=40
    )
    work = Experiment(
        "smooth",
        config,
        whole_episodes(catalog.open("tmaze/planner-expert"), 500, 0),
        tmp_path / "run",
        settings,
        EvaluationSettings(episodes=4, replays=0),
    )
    experiment.run(work)
    lines = list(Run(work.out).rows(MetricRow))
    assert max(lines[-1].metrics["loss"]) < min(lines[0].metrics["loss"])


def test_the_page_is_short() -> None:
    assert len(PAGE.read_text().splitlines()) < 70


def test_a_loss_that_would_not_be_used_is_refused() -> None:
    """As plug-ins had it before states were carried."""
    with pytest.raises(OryxError, match=r"Old has a recurrent state.*`outputs_loss`"):

        class Old(bc.BC):
            def loss(self, network, target, window, key):
                raise NotImplementedError
