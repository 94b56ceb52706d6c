"""A trained policy called from plain Python, with no environment anywhere."""

from pathlib import Path

import numpy as np
import pytest

import oryx_marl
from oryx_marl import experiment
from oryx_marl.algorithms import bc
from oryx_marl.data.dataset import Dataset
from oryx_marl.errors import OryxError
from oryx_marl.train.loop import TrainSettings
from oryx_marl.types import ActionSpace, Spec

SPEC = Spec("", ("truck", "crane"), (4, 3), ActionSpace("discrete", 3))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A policy that has learned to do what the first three features show."""
    rng = np.random.default_rng(0)
    rows = 200
    actions = rng.integers(0, 3, (rows, 2)).astype(np.int32)
    features = np.zeros((rows, 2, 4), np.float32)
    features[..., :3] = np.eye(3)[actions]
    ends = np.zeros((rows, 2), bool)
    ends[9::10] = True
    starts = np.arange(0, rows, 10)
    logs = Dataset(
        SPEC, features, actions, np.zeros((rows, 2), np.float32), ends, ~ends & ends, starts
    )
    folder = tmp_path_factory.mktemp("player") / "run"
    settings = TrainSettings(
        updates=120, seeds=2, log_every=60, evaluate_every=120, checkpoint_every=120
    )
    config = bc.Config(sequence_length=5, batch_size=16, learning_rate=5e-3)
    experiment.run(experiment.Experiment("bc", config, logs, folder, settings))
    return folder


def test_acts_on_new_observations(run: Path) -> None:
    player = oryx_marl.load(run, greedy=True)
    assert player.act([[0, 1, 0, 0], [0, 0, 1]]).tolist() == [1, 2]
    assert player.act({"truck": [1, 0, 0, 0], "crane": [0, 1, 0]}) == {"truck": 0, "crane": 1}
    other = oryx_marl.load(run, greedy=True, seed=1)
    assert other.act([[0, 1, 0, 0], [0, 0, 1]]).tolist() == [1, 2]


def test_absent_agents_and_illegal_actions(run: Path) -> None:
    player = oryx_marl.load(run)
    assert set(player.act({"crane": [0, 1, 0]})) == {"crane"}
    for _ in range(20):
        chosen = player.act([[1, 0, 0, 0], [0, 1, 0]], legal=[[0, 1, 1], [1, 0, 1]])
        assert chosen[0] != 0
        assert chosen[1] != 1


def test_reset_forgets(run: Path) -> None:
    """The same episode again is the same, with the same random numbers."""
    player = oryx_marl.load(run)
    seen = [np.random.default_rng(i).normal(size=(2, 4)) for i in range(5)]
    first = [player.act(each).tolist() for each in seen]
    player.reset()
    assert [player.act(each).tolist() for each in seen] == first


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"observation": [[0, 0, 0, 0]]}, "one entry for each of 2 agents, got 1"),
        ({"observation": {"ship": [0]}}, "no agent \\['ship'\\], only \\['truck', 'crane'\\]"),
        ({"observation": [[0, 0], [0, 0, 0]]}, "observation of truck must have 4 numbers"),
        ({"observation": [[0, 0, 0, np.nan], [0, 0, 0]]}, "truck has numbers that are not finite"),
        (
            {"observation": [[0] * 4, [0] * 3], "legal": [[1, 1], [1, 1]]},
            "legal of truck must have 3",
        ),
        ({"observation": [[0] * 4, [0] * 3], "legal": [[0] * 3, [1] * 3]}, "allows no action"),
    ],
)
def test_bad_input_is_named(run: Path, arguments: dict, message: str) -> None:
    with pytest.raises(OryxError, match=message):
        oryx_marl.load(run).act(**arguments)


def test_unknown_seed_and_run(run: Path, tmp_path: Path) -> None:
    with pytest.raises(OryxError, match=r"no seed 7; it has \[0, 1\]"):
        oryx_marl.load(run, seed=7)
    with pytest.raises(OryxError, match="there is no run"):
        oryx_marl.load(tmp_path / "nowhere")
