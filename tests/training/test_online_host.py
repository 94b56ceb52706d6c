"""Training in environments outside JAX: roll-outs, recording, and what is resumed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import toy_parallel

from oryx_marl import experiment
from oryx_marl.algorithms import sable
from oryx_marl.data.dataset import Dataset
from oryx_marl.data.record.segments import Recorder
from oryx_marl.envs.adapters.from_pettingzoo import ParallelEnvs
from oryx_marl.errors import OryxError
from oryx_marl.experiment import EvaluationSettings, Experiment, Record
from oryx_marl.networks.sable import NetworkConfig
from oryx_marl.rollout.collect_host import begin, collect
from oryx_marl.runs.documents import MetricRow
from oryx_marl.runs.folder import Run
from oryx_marl.training.loop import TrainSettings

# Of next to no step size, so that every ratio is 1 if acting and learning see the same.
CONFIG = sable.Config(
    network=NetworkConfig(width=8, num_heads=2),
    num_envs=4,
    rollout_length=6,
    minibatches=2,
    learning_rate=1e-30,
)


def make_env(num_envs: int = 4) -> ParallelEnvs:
    return ParallelEnvs(toy_parallel.parallel_env, num_envs)


def work(out: Path, updates: int, seeds: int = 1, **given: Any) -> Experiment:
    train = TrainSettings(updates, seeds, log_every=1, evaluate_every=0, checkpoint_every=1)
    env = given.pop("learn_from", None) or make_env()
    return Experiment("sable", CONFIG, env, out, train, EvaluationSettings(2, 2), **given)


def train(
    folder: Path, updates: int, resume: bool = False, keep: Callable[..., None] = lambda *_: None
) -> Recorder:
    recorder = Recorder(folder / "segments")
    made = work(folder / "run", updates)
    experiment.run(made, resume=resume, record=Record(recorder, keep, num_recorded=3))
    return recorder


def episodes(recorder: Recorder) -> Dataset:
    """All that was recorded in one."""
    parts = list(recorder.parts(make_env().spec, "x", {}))
    arrays = {name: [part.arrays()[name] for part in parts] for name in parts[0].arrays()}
    starts = np.cumsum([0, *(part.num_rows for part in parts)])
    arrays["episode_starts"] = [
        part.episode_starts + start for part, start in zip(parts, starts[:-1], strict=True)
    ]
    joined = {name: np.concatenate(each) for name, each in arrays.items()}
    return Dataset(spec=parts[0].spec, **joined)


def require_whole(data: Dataset) -> None:
    """Every episode has its ten steps, one target per agent, and moves of at most the reach."""
    assert (data.episode_lengths == toy_parallel.LIMIT).all()
    assert data.action_mask is None
    seen = data.observations.reshape(-1, toy_parallel.LIMIT, 2, 2)
    after = np.concatenate([seen[:, 1:], data.final_observations[:, None]], axis=1)
    assert (seen[..., 1] == seen[:, :1, :, 1]).all()
    moves = toy_parallel.REACH * data.actions.reshape(-1, toy_parallel.LIMIT, 2)
    np.testing.assert_allclose(after[..., 0], np.clip(seen[..., 0] + moves, -1, 1), atol=1e-6)
    gaps = np.abs(after[..., 0] - after[..., 1])
    np.testing.assert_allclose(-gaps.reshape(data.rewards.shape), data.rewards, atol=1e-6)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recorded run that was stopped amid its episodes, and resumed."""
    folder = tmp_path_factory.mktemp("stopped")
    recorder = train(folder, 2)
    assert recorder.num_episodes == 3  # after 12 steps: two of the second episodes' ten are done
    train(folder, 6, resume=True)
    return folder


def test_a_resumed_run_begins_new_episodes(stopped: Path) -> None:
    """24 more steps: two whole episodes of each environment, not the rest of the second first."""
    recorder = Recorder(stopped / "segments")
    assert recorder.num_episodes == 3 + 3 * 2
    data = episodes(recorder)
    require_whole(data)
    first = data.observations[data.episode_starts].reshape(9, -1)
    assert len(np.unique(first, axis=0)) == 9, "no two episodes begin alike"


def test_learning_sees_what_acting_saw(stopped: Path) -> None:
    rows = list(Run(stopped / "run").rows(MetricRow))
    assert [row.update for row in rows] == [1, 2, 3, 4, 5, 6]
    for row in rows:
        assert row.metrics["ratio_drift"][0] < 1e-4
        assert row.metrics["clipped_share"] == [0.0]
    assert [row.metrics["episodes"][0] for row in rows] == [0, 4, 0, 4, 0, 4]
    assert rows[0].metrics["return"] == [0.0]
    assert rows[2].metrics["return"] == rows[1].metrics["return"], "until the next one ends"
    assert rows[1].metrics["return"][0] < -0.5


def test_collected_steps_follow_one_another(stopped: Path) -> None:
    """From a roll-out into the next: the same episodes go on, and equal keys give equal steps."""
    policy = Run(stopped / "run").policy()
    algorithm, weights = policy.algorithm, policy.weights_of()
    assert isinstance(algorithm, sable.SablePPO)

    def roll() -> Any:
        env = make_env()
        actors = begin(algorithm, env, weights, jax.random.key(1))
        actors, first, _, _ = collect(algorithm, env, weights, actors, jax.random.key(2))
        _, second, steps, ended = collect(algorithm, env, weights, actors, jax.random.key(3))
        return first, second, steps, ended

    first, second, steps, ended = roll()
    np.testing.assert_array_equal(
        first.bootstrap_observation.features, second.window.observation.features[:, 0]
    )
    counts = np.concatenate(
        [part.window.observation.step_count for part in (first, second)], axis=1
    )
    assert counts.tolist() == [[*range(10), 0, 1]] * 4
    assert second.window.observation.reset[0].tolist() == [False] * 4 + [True, False]
    assert steps.truncations[3].all()
    assert ended.number == 4
    rewards = np.concatenate([part.window.rewards for part in (first, second)], axis=1)
    assert ended.total_return == pytest.approx(rewards[:, :10].mean(axis=2).sum(), rel=1e-5)
    again = roll()
    jax.tree.map(np.testing.assert_array_equal, (first, second), again[:2])


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OryxError, match=r"one seed is trained at a time, not 2.*first_seed"):
        experiment.run(work(tmp_path / "a", 1, seeds=2))
    with pytest.raises(OryxError, match="steps 3 environments together, but num_envs is 4"):
        experiment.run(work(tmp_path / "b", 1, learn_from=make_env(3)))
    env = make_env()
    with pytest.raises(OryxError, match="make another set of them"):
        experiment.run(work(tmp_path / "c", 1, learn_from=env, env=env))
    assert not [*tmp_path.iterdir()], "nothing is left of what was refused"
