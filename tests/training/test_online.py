"""Training in environments: what is collected, exact resume, recording."""

from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oryx_marl import experiment
from oryx_marl.algorithms import sable
from oryx_marl.data.record.segments import Recorder
from oryx_marl.envs.tmaze import TMaze
from oryx_marl.errors import OryxError
from oryx_marl.experiment import EvaluationSettings, Experiment, Record
from oryx_marl.runs import checkpoint
from oryx_marl.runs.documents import MetricRow
from oryx_marl.runs.folder import Run
from oryx_marl.training.loop import TrainSettings
from oryx_marl.training.online import OnlineSettings

ENV = TMaze()
CONFIG = sable.Config(
    network=sable.network_config(width=8), num_envs=4, rollout_length=12, minibatches=2
)
EVALUATION = EvaluationSettings(episodes=4, episodes_while_training=4, replays=0)


def settings(updates: int, seeds: int = 1) -> TrainSettings:
    return TrainSettings(updates, seeds, log_every=2, evaluate_every=4, checkpoint_every=2)


def work(out: Path, updates: int, seeds: int = 1) -> Experiment:
    return Experiment("sable", CONFIG, ENV, out, settings(updates, seeds), EVALUATION)


def arrays(out: Path) -> dict[str, np.ndarray]:
    """Everything in the newest checkpoint."""
    return checkpoint.read(out / "checkpoints").tree


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recorded run of ten updates that nothing interrupted."""
    folder = tmp_path_factory.mktemp("whole")
    experiment.run(work(folder / "run", 10), record=Record(Recorder(folder / "segments")))
    return folder


def test_resumed_equals_unbroken_bit_by_bit(whole: Path, tmp_path: Path) -> None:
    """Environments in mid-episode, memory, optimiser, keys, and the recording: all goes on."""
    recorder = Recorder(tmp_path / "segments")
    experiment.run(work(tmp_path / "run", 4), record=Record(recorder))
    recorder.append(5, blank_steps())  # beyond the last checkpoint, as if killed right after
    recorder = Recorder(tmp_path / "segments")
    experiment.run(work(tmp_path / "run", 10), resume=True, record=Record(recorder))

    unbroken, resumed = arrays(whole / "run"), arrays(tmp_path / "run")
    assert unbroken.keys() == resumed.keys()
    for name, array in unbroken.items():
        np.testing.assert_array_equal(array, resumed[name], err_msg=name)
    metrics = [
        [row.metrics for row in Run(folder / "run").rows(MetricRow)] for folder in (whole, tmp_path)
    ]
    assert metrics[0] == metrics[1]
    assert len(metrics[0]) == 5
    parts = [list(Recorder(f / "segments").parts(ENV.spec, "x", {})) for f in (whole, tmp_path)]
    assert len(parts[0]) > 1
    for one, other in zip(*parts, strict=True):
        for name, array in one.arrays().items():
            np.testing.assert_array_equal(array, other.arrays()[name], err_msg=name)


def test_recording_is_what_happened(whole: Path) -> None:
    recorder = Recorder(whole / "segments")
    assert 0 < recorder.num_rows <= 10 * 4 * 12
    logged = [row.metrics for row in Run(whole / "run").rows(MetricRow)]
    assert recorder.num_episodes == sum(2 * row["episodes"][0] for row in logged)
    part = next(iter(recorder.parts(ENV.spec, "x", {})))
    replay(part.observations, part.actions, part.rewards, part.episode_starts)


def test_golden_metrics(whole: Path) -> None:
    """Ten updates of a small learner give these numbers, on every machine."""
    last = list(Run(whole / "run").rows(MetricRow))[-1].metrics
    golden = {"entropy": 1.1168090, "gradient_norm": 0.1089599, "mean_value": -0.0021161}
    for name, expected in golden.items():
        assert last[name][0] == pytest.approx(expected, rel=1e-3), (name, last[name])


def test_other_seeds_learn_otherwise(whole: Path, tmp_path: Path) -> None:
    changed = replace(work(tmp_path / "run", 2), train=replace(settings(2), first_seed=1))
    experiment.run(changed, record=Record(Recorder(tmp_path / "segments")))
    first, other = arrays(whole / "run"), arrays(tmp_path / "run")
    weights = [name for name in first if name.startswith("best")]
    assert any(not np.array_equal(first[name], other[name]) for name in weights)


def blank_steps() -> dict[str, np.ndarray]:
    """Twelve steps of all environments in which nothing ends."""
    agents = (4, 12, 2)
    return {
        "observations": np.zeros((*agents, 11), np.int8),
        "actions": np.zeros(agents, np.int32),
        "rewards": np.zeros(agents, np.float32),
        "terminals": np.zeros(agents, bool),
        "truncations": np.zeros(agents, bool),
        "action_mask": np.zeros((*agents, 7), bool),
        "agent_mask": np.zeros(agents, bool),
        "state": np.zeros((4, 12, 10), np.float32),
        "final_observations": np.zeros((*agents, 11), np.int8),
    }


def replay(
    observations: np.ndarray, actions: np.ndarray, rewards: np.ndarray, starts: np.ndarray
) -> None:
    """The first episodes' actions, from the states their second observations tell, lead to what was
    logged."""
    step = jax.jit(ENV.step)
    ends = np.append(starts[1:], len(actions))
    for begin, end in list(zip(starts, ends, strict=True))[:4]:
        seen = observations[begin + 1]
        first_is_left = seen[0, 1] == 2
        positions = jnp.array([[0, 0], [0, 1]] if first_is_left else [[0, 1], [0, 0]], jnp.int32)
        state, _ = ENV.reset(jax.random.key(0))
        state = state._replace(positions=positions, green_left=jnp.bool_(seen[0, 9] == 1))
        for row in range(begin, end):
            state, found = step(state, jnp.asarray(actions[row], jnp.int32), jax.random.key(0))
            np.testing.assert_array_equal(found.rewards, rewards[row])
            if row + 1 < end:
                np.testing.assert_array_equal(found.observation.features, observations[row + 1])
        assert found.terminal.all()


def test_only_one_seed_is_recorded(tmp_path: Path) -> None:
    with pytest.raises(OryxError, match="one seed"):
        experiment.run(work(tmp_path / "run", 2, seeds=2), record=Record(Recorder(tmp_path / "s")))


def test_online_and_offline_are_not_confused(tmp_path: Path) -> None:
    from oryx_marl.algorithms import oryx

    with pytest.raises(OryxError, match="a dataset, not an environment"):
        experiment.run(Experiment("oryx", oryx.Config(), ENV, tmp_path / "run"))


def test_steps_become_updates() -> None:
    found = OnlineSettings(steps=1001, seeds=2, log_every=5).in_updates(100)
    assert (found.updates, found.seeds, found.log_every) == (11, 2, 5)
    with pytest.raises(OryxError, match="steps must be at least 1"):
        OnlineSettings(steps=0)
    with pytest.raises(OryxError, match="multiple of log_every"):
        OnlineSettings(evaluate_every=7)
