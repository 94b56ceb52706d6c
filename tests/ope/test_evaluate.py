"""Policies evaluated by logs alone: against exact values, and what verdict they get."""

import time
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from tabular_game import LENGTH, STATES, Tabular, as_dataset, as_policy

import oryx_marl as oryx
from oryx_marl.data.dataset import Dataset
from oryx_marl.errors import OryxError
from oryx_marl.ope import evaluate
from oryx_marl.ope.document import Trust
from oryx_marl.ope.run import FOLDER
from oryx_marl.ope.settings import OpeSettings
from oryx_marl.types import ActionSpace, Spec

NOBODY = np.zeros(0, np.int64)


def judge(policy: Tabular, subject: evaluate.Subject) -> Trust:
    found = as_policy(policy)
    seed = evaluate.evaluate_seed(found, 0, subject, "sampled")
    return evaluate.conclude(found, subject, "sampled", [seed], time.monotonic())


@pytest.mark.slow
def test_fitted_q_evaluation_against_dynamic_programming() -> None:
    """A bad policy and a good one, from logs of random play: 0.85 and 2.52, the logs 1.375."""
    settings = OpeSettings(clone_updates=100, critic_updates=250, critics=3, folds=2)
    subject = evaluate.prepare(as_dataset(Tabular.uniform(), 2_000), NOBODY, settings)
    for share, kind in ((0.25, "worse"), (0.9, "better")):
        policy = Tabular.coordinated(share)
        trust = judge(policy, subject)
        assert trust.value.value == pytest.approx(policy.value(), abs=0.2)
        assert trust.estimates["wdr"].value == pytest.approx(policy.value(), abs=0.2)
        assert trust.verdict.kind == kind


@cache
def one_action_logs() -> evaluate.Subject:
    """In every state of these logs one joint action was taken, always."""
    settings = OpeSettings(clone_updates=120, critic_updates=60, critics=5, folds=2, samples=2)
    logs = as_dataset(always(0, 0), 120, seed=1)
    return evaluate.prepare(logs, np.arange(0, 120, 4), settings)


def always(first: int, second: int) -> Tabular:
    odds = np.full((LENGTH, STATES, 2, 2), 1e-9)
    odds[:, :, first, second] = 1
    return Tabular(odds)


@pytest.mark.slow
def test_who_leaves_logs_with_one_action_cannot_be_judged() -> None:
    trust = judge(always(1, 0), one_action_logs())
    assert trust.verdict.text == "cannot tell: too little support"
    assert trust.support.per_agent[0] > 0.9
    assert trust.support.per_agent[1] < 0.1
    assert trust.support.unusual[0].actions == [1, 0]
    assert trust.support.unusual[0].logged == [0, 0]
    assert trust.held_out == 30


@pytest.mark.slow
def test_who_does_what_was_done_is_as_the_logs() -> None:
    trust = judge(always(0, 0), one_action_logs())
    assert trust.verdict.kind == "same"
    assert trust.support.share == 0
    assert trust.seeds[0].effective_sample_size > 25


def game_logs(length: int = 12, episodes: int = 300) -> Dataset:
    """Two agents act at random and are rewarded where their actions differ; no environment."""
    generator, rows = np.random.default_rng(0), length * episodes
    actions = generator.integers(0, 3, (rows, 2)).astype(np.int32)
    gains = (actions[:, :1] != actions[:, 1:]).astype(np.float32)
    ends = np.zeros((rows, 2), bool)
    ends[length - 1 :: length] = True
    return Dataset(
        Spec("", ("a", "b"), (1, 1), ActionSpace("discrete", 3)),
        np.ones((rows, 2, 1), np.float32),
        actions,
        np.repeat(gains, 2, axis=1),
        np.zeros_like(ends),
        ends,
        np.arange(0, rows, length),
        name="game",
    )


@pytest.mark.slow
def test_a_game_solved_from_random_logs_is_better_than_the_logs(tmp_path: Path) -> None:
    """Which agreement with held-out actions called worthless."""
    logs = game_logs()
    small = {"batch_size": 32, "sequence_length": 12, "log_every": 100, "checkpoint_every": 1_500}
    run = oryx.train(
        "oryx",
        logs,
        out=tmp_path / "run",
        updates=1_500,
        seeds=1,
        learning_rate=1e-3,
        progress=False,
        **small,
    )
    assert run.trust is None  # so short a training is not evaluated unless someone asks for it
    page = (run.folder / "report.html").read_text()
    found = oryx.trust(run, logs, progress=False)
    assert found.verdict.text.startswith("better than the logs")
    assert found.held_out == 30
    assert (run.folder / "trust.html").is_file()
    assert (run.folder / "report.html").read_text() != page  # it shows the estimate now
    before = (run.folder / Trust.file).read_bytes()
    assert oryx.trust(run, logs, progress=False).key == found.key
    assert (run.folder / Trust.file).read_bytes() == before  # nothing was done again
    (run.folder / Trust.file).unlink()
    again = oryx.trust(run, logs, progress=False)  # from what is kept by seed
    assert again.estimates == found.estimates
    assert len(list((run.folder / FOLDER).iterdir())) == 1


def test_few_episodes_are_refused() -> None:
    with pytest.raises(OryxError, match="needs at least 4"):
        evaluate.prepare(as_dataset(Tabular.uniform(), 3), NOBODY, OpeSettings())
    with pytest.raises(OryxError, match="folds must be at least 2"):
        OpeSettings(folds=1)


def test_held_out_episodes_come_first_where_there_is_no_room() -> None:
    lengths, is_held = np.full(100, 10), np.arange(100) < 10
    chosen = evaluate._choose(lengths, is_held, 300, 0)
    assert len(chosen) == 30
    assert is_held[chosen].sum() == 10
    assert len(evaluate._choose(lengths, is_held, 1_000, 0)) == 100
    assert len(evaluate._choose(lengths, np.ones(100, bool), 300, 0)) == 30
