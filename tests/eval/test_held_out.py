"""Held-out episodes: how well their actions are predicted."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oryx_marl import experiment
from oryx_marl.algorithms import bc, oryx
from oryx_marl.algorithms.base import Algorithm, Policy
from oryx_marl.data.dataset import Dataset
from oryx_marl.data.sampler import put_on_device, take_windows
from oryx_marl.data.split import split
from oryx_marl.errors import OryxError
from oryx_marl.eval import held_out
from oryx_marl.ops.distributions import Categorical
from oryx_marl.report import page
from oryx_marl.runs.held_out import HeldOut
from oryx_marl.training.loop import TrainSettings
from oryx_marl.types import ActionSpace, Spec

AGENTS, ACTIONS, LENGTH = 2, 3, 7
SPEC = Spec("", ("left", "right"), (ACTIONS, ACTIONS), ActionSpace("discrete", ACTIONS))


def make_logs(episodes: int = 40, seed: int = 0) -> Dataset:
    """Both agents do what they are shown, with every third action illegal and the second agent
    absent in the first step of each episode."""
    rng = np.random.default_rng(seed)
    rows = episodes * LENGTH
    actions = rng.integers(0, 2, (rows, AGENTS)).astype(np.int32)
    agent_mask = np.ones((rows, AGENTS), bool)
    agent_mask[::LENGTH, 1] = False
    ends = np.zeros((rows, AGENTS), bool)
    ends[LENGTH - 1 :: LENGTH] = True
    action_mask = np.ones((rows, AGENTS, ACTIONS), bool)
    action_mask[..., 2] = False
    return Dataset(
        SPEC,
        np.eye(ACTIONS, dtype=np.float32)[actions],
        actions,
        np.ones((rows, AGENTS), np.float32),
        ends,
        np.zeros_like(ends),
        np.arange(0, rows, LENGTH),
        action_mask=action_mask,
        agent_mask=agent_mask,
        name="logs",
    )


class Fixed(bc.BC):
    """Knows nothing but odds: 0.7 for the first action, 0.3 for the second."""

    def distribution(self, weights, window, carry=None):
        odds = jnp.log(jnp.array([0.7, 0.3, 1e-9]))
        logits = jnp.broadcast_to(odds, (*window.actions.shape, ACTIONS)) + weights
        everything = jnp.ones(logits.shape, bool)
        return Categorical(logits, everything & window.observation.action_mask, logits), carry

    def policy(self, weights):
        return Policy(jnp.zeros, None, None)


def make_fixed() -> Fixed:
    config = bc.Config(sequence_length=5, batch_size=4)
    return Fixed(config, SPEC)


def test_score_counts_every_logged_action_once() -> None:
    """Of a policy with known odds: 0.7 for the first action, 0.3 for the second."""
    logs = make_logs(40)
    parts = split(logs, 0.3, LENGTH)
    assert parts.validation is not None
    found = held_out.score(make_fixed(), jnp.zeros(2), parts)
    counted = parts.validation.actions[parts.validation.agent_mask]
    share = (counted == 0).mean()
    expected = share * np.log(0.7) + (1 - share) * np.log(0.3)
    assert 0.3 < share < 0.7
    np.testing.assert_allclose(found["log_likelihood"]["per_seed"], [expected] * 2, rtol=1e-5)
    np.testing.assert_allclose(found["action_accuracy"]["per_seed"], [share] * 2, rtol=1e-6)


@pytest.mark.parametrize("module", [bc, pytest.param(oryx, marks=pytest.mark.slow)])
def test_episodes_are_scored_whole_however_short_the_windows_are(module: ModuleType) -> None:
    """Lanes of other lengths than the windows' give what each episode gives by itself."""
    parts = split(make_logs(40), 0.3, LENGTH)
    hold = parts.validation
    assert hold is not None
    make: Callable[[int], Algorithm] = lambda length: module.make(  # noqa: E731
        module.Config(sequence_length=length, batch_size=3), SPEC
    )
    weights = jax.jit(lambda: make(3).weights(make(3).init(jax.random.key(0))))()
    weights = jax.tree.map(lambda x: 4 * x, weights)  # fresh policies hardly look at anything
    stacked = jax.tree.map(lambda x: x[None], weights)
    found = held_out.score(make(3), stacked, parts)["log_likelihood"]["per_seed"]
    data = put_on_device(hold)
    window = take_windows(data, jnp.asarray(hold.episode_starts), LENGTH)
    policy, _ = make(LENGTH).distribution(weights, window)
    expected = policy.log_prob(window.actions)[np.asarray(window.observation.agent_mask)].mean()
    np.testing.assert_allclose(found, [expected], rtol=1e-4)
    late = jax.tree.map(lambda x: x[:, 3:], window._replace(feature_statistics=None))
    shorter, _ = make(3).distribution(weights, late)
    alone = shorter.log_prob(window.actions[:, 3:])
    assert np.abs(alone - policy.log_prob(window.actions)[:, 3:]).max() > 1e-3


def test_forced_steps_are_counted_apart() -> None:
    """Half of the steps allow the logged action alone, which every policy predicts."""
    logs = make_logs(40)
    assert logs.action_mask is not None
    forced = np.arange(logs.num_rows) % 2 == 0
    action_mask = logs.action_mask.copy()
    action_mask[forced] = np.eye(ACTIONS, dtype=bool)[logs.actions[forced]]
    parts = split(replace(logs, action_mask=action_mask), 0.3, LENGTH)
    hold = parts.validation
    assert hold is not None
    assert hold.action_mask is not None
    assert hold.agent_mask is not None
    is_forced = hold.agent_mask & (hold.action_mask.sum(axis=-1) == 1)
    is_free = hold.agent_mask & ~is_forced
    found = held_out.score(make_fixed(), jnp.zeros(2), parts)
    assert (found["decisions"], found["forced"]) == (is_free.sum(), is_forced.sum())
    share = (hold.actions[is_free] == 0).mean()
    expected = share * np.log(0.7) + (1 - share) * np.log(0.3)
    np.testing.assert_allclose(found["log_likelihood"]["per_seed"], [expected] * 2, rtol=1e-5)
    np.testing.assert_allclose(found["action_accuracy"]["per_seed"], [share] * 2, rtol=1e-6)
    assert found["baseline"]["action_accuracy"] < 0.75  # with forced steps it would be above
    document = HeldOut.from_json(found)
    words = f"scored on {is_free.sum()} decisions (agent-steps with a choice) of "
    assert document.counted == f"{words}{hold.num_episodes} held-out episodes"
    assert HeldOut.from_json(document.to_json()) == document
    everywhere = np.eye(ACTIONS, dtype=bool)[logs.actions]
    never = held_out.score(
        make_fixed(), jnp.zeros(2), split(replace(logs, action_mask=everywhere), 0.3, LENGTH)
    )
    assert never["decisions"] == 0
    assert never["action_accuracy"]["mean"] == never["baseline"]["action_accuracy"] == 1.0
    assert never["log_likelihood"]["mean"] == never["baseline"]["log_likelihood"] == 0.0


def test_the_baseline_knows_frequencies_among_the_available() -> None:
    logs = make_logs(40)
    parts = split(logs, 0.3, LENGTH)
    assert parts.validation is not None
    found = held_out.marginal_baseline(parts.train, parts.validation)
    learned = np.stack(
        [
            np.bincount(logs_of[here], minlength=3) + 1.0
            for logs_of, here in zip(parts.train.actions.T, parts.train.agent_mask.T, strict=True)
        ]
    )
    odds = learned[:, :2] / learned[:, :2].sum(axis=1, keepdims=True)
    wanted = [
        np.log(odds[agent, parts.validation.actions[row, agent]])
        for row, agent in np.argwhere(parts.validation.agent_mask)
    ]
    np.testing.assert_allclose(found["log_likelihood"], np.mean(wanted), rtol=1e-6)


def test_data_shorter_than_a_window_leave_no_run_behind(tmp_path: Path) -> None:
    config = bc.Config(sequence_length=100, batch_size=4)
    work = experiment.Experiment("bc", config, make_logs(3), tmp_path / "run")
    with pytest.raises(
        OryxError, match=r"has 21 logged steps, but a window needs 100.*sequence_length"
    ):
        experiment.run(work)
    assert not (tmp_path / "run").exists()


def test_training_without_an_environment_reports_it(tmp_path: Path) -> None:
    """Imitation of agents that do what they are shown: better than frequencies, and kept."""
    config = bc.Config(sequence_length=5, batch_size=16, learning_rate=3e-3)
    settings = TrainSettings(
        updates=60, seeds=2, log_every=20, evaluate_every=60, checkpoint_every=60
    )
    work = experiment.Experiment("bc", config, make_logs(), tmp_path / "run", settings)
    found = experiment.run(work).held_out.to_json()
    assert found["episodes"] == 4
    assert found["action_accuracy"]["mean"] > 0.95 > found["baseline"]["action_accuracy"]
    assert found["log_likelihood"]["mean"] > found["baseline"]["log_likelihood"]
    assert (tmp_path / "run" / "held_out.json").exists()
    shown = page.write(tmp_path / "run").read_text()
    assert re.search(r'metric">action accuracy</span> <span class="value">(1|0.9)', shown)
    assert "<h2>Held-out episodes</h2>" in shown
    assert f"scored on {found['decisions']} decisions (agent-steps with a choice)" in shown
    assert "<h2>Learning curve</h2>" not in shown
    assert "<h2>Losses</h2>" in shown
    other = replace(work, config=replace(config, batch_size=8, learning_rate=1e-3))
    differing = "batch_size 16, not 8, learning_rate 0.003, not 0.001"
    with pytest.raises(OryxError, match=differing):
        experiment.run(other, resume=True)
    assert (
        jax.tree.leaves(found["action_accuracy"]["per_seed"])
        == found["action_accuracy"]["per_seed"]
    )
