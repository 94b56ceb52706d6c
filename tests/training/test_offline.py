"""The trainer: repeatable, resumable, and never silently wrong."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oryx_marl.algorithms import oryx
from oryx_marl.algorithms._making import make_algorithm
from oryx_marl.algorithms.base import Algorithm
from oryx_marl.data import catalog
from oryx_marl.data.sampler import DeviceData, put_on_device, sample_windows
from oryx_marl.errors import OryxError
from oryx_marl.networks.sable import NetworkConfig
from oryx_marl.runs import checkpoint
from oryx_marl.runs.documents import DivergedSeeds, Evaluation, MetricRow
from oryx_marl.runs.folder import Run
from oryx_marl.training import loop
from oryx_marl.training.loop import DivergedError, TrainSettings, TrainState
from oryx_marl.training.offline import DatasetSource

CONFIG = oryx.Config(network=NetworkConfig(width=8), batch_size=4, sequence_length=5)


@pytest.fixture(scope="module")
def data() -> DeviceData:
    return put_on_device(catalog.open("tmaze/planner-expert"))


@pytest.fixture(scope="module")
def learner() -> Algorithm:
    return make_algorithm("oryx", CONFIG, catalog.open("tmaze/planner-expert").spec)


def settings(updates: int, **changes: int) -> TrainSettings:
    return TrainSettings(
        **{
            "updates": updates,
            "seeds": 2,
            "log_every": 5,
            "evaluate_every": 10,
            "checkpoint_every": 10,
            **changes,
        }
    )


def begin(path: Path) -> Run:
    run = Run(path)
    path.mkdir(parents=True, exist_ok=True)
    return run


def same(a: object, b: object) -> bool:
    return all(
        np.array_equal(x, y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    )


def of_seed(state: TrainState, index: int) -> object:
    return jax.tree.map(lambda x: x[index], state.learners)


@pytest.mark.slow
def test_seeds_repeat_and_differ(data: DeviceData, learner: Algorithm, tmp_path: Path) -> None:
    first = loop.train(learner, DatasetSource(data), settings(10), begin(tmp_path / "a"))
    again = loop.train(learner, DatasetSource(data), settings(10), begin(tmp_path / "b"))
    alone = loop.train(
        learner, DatasetSource(data), settings(10, seeds=1, first_seed=1), begin(tmp_path / "c")
    )
    assert same(first, again)
    assert not same(of_seed(first, 0), of_seed(first, 1))
    # A seed does not depend on the company it trains in.
    for x, y in zip(
        jax.tree.leaves(of_seed(alone, 0)), jax.tree.leaves(of_seed(first, 1)), strict=True
    ):
        np.testing.assert_allclose(x, y, atol=1e-5)


@pytest.mark.slow
def test_vectorised_seeds_learn_the_same(data: DeviceData, learner: Algorithm) -> None:
    """What accelerators do (vmap over seeds) gives what this machine does, seed by seed."""
    state = loop.init_state(learner, [0, 1])
    keys = jax.vmap(jax.random.key)(jnp.arange(2))
    windows = jax.vmap(lambda key: sample_windows(data, key, 4, 5))(keys)
    together, _ = jax.jit(jax.vmap(learner.update))(state.learners, windows, keys)
    for index in range(2):
        one = [jax.tree.map(lambda x: x[index], each) for each in (state.learners, windows)]  # noqa: B023
        alone, _ = jax.jit(learner.update)(*one, keys[index])
        for x, y in zip(
            jax.tree.leaves(jax.tree.map(lambda x: x[index], together)),  # noqa: B023
            jax.tree.leaves(alone),
            strict=True,
        ):
            np.testing.assert_allclose(x, y, atol=1e-5)


def test_resumed_run_equals_an_unbroken_one(
    data: DeviceData, learner: Algorithm, tmp_path: Path
) -> None:
    def evaluate(weights: object, update: int) -> dict[str, np.ndarray]:
        return {"return": np.full((2, 3), update / 100), "near": np.full((2, 3), 0.5)}

    whole = loop.train(learner, DatasetSource(data), settings(30), begin(tmp_path / "a"), evaluate)
    run = begin(tmp_path / "b")
    loop.train(learner, DatasetSource(data), settings(20), run, evaluate)
    run.append(MetricRow(25, 1.0, {}))
    with (run.folder / "metrics.jsonl").open("a") as file:
        file.write('{"update": 26, "cut o')
    resumed = loop.train(learner, DatasetSource(data), settings(30), run, evaluate, resume=True)
    assert same(whole, resumed)
    lines = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    assert [line["update"] for line in lines] == [5, 10, 15, 20, 25, 30]
    rows = list(run.rows(Evaluation))
    assert [row.update for row in rows] == [10, 20, 30]
    assert all(row.metrics["near"].tolist() == [[0.5] * 3] * 2 for row in rows)
    assert checkpoint.updates(run.checkpoints) == [20, 30]


def test_best_weights_are_kept_per_seed(
    data: DeviceData, learner: Algorithm, tmp_path: Path
) -> None:
    table = {10: [0.9, 0.1], 20: [0.2, 0.8]}
    kept = {}

    def evaluate(weights: object, update: int) -> dict[str, np.ndarray]:
        kept[update] = jax.tree.map(np.asarray, weights)
        return {"return": np.array([[value] * 4 for value in table[update]])}

    state = loop.train(learner, DatasetSource(data), settings(20), begin(tmp_path), evaluate)
    np.testing.assert_allclose(state.best_return, [0.9, 0.8])
    for index, update in enumerate((10, 20)):
        expected = jax.tree.map(lambda x: x[index], kept[update])  # noqa: B023
        assert same(jax.tree.map(lambda x: x[index], state.best), expected)  # noqa: B023


def test_a_loss_that_is_not_finite_stops_with_the_last_good_checkpoint(
    data: DeviceData, learner: Algorithm, tmp_path: Path
) -> None:
    run = begin(tmp_path)
    good = loop.train(learner, DatasetSource(data), settings(10), run)
    poisoned = data._replace(rewards=jnp.full_like(data.rewards, jnp.nan))
    with pytest.raises(DivergedError, match=r"not finite between updates 10 and 15.*checkpoints"):
        loop.train(learner, DatasetSource(poisoned), settings(20), run, resume=True)
    assert same(checkpoint.restore(run.checkpoints, good).tree, good)


@dataclass(frozen=True, eq=False)
class Poisoned(DatasetSource):
    """One seed's weights are no numbers after the call that begins at update 15."""

    def advance(self, *arguments: Any) -> tuple:
        learners, source_state, metrics = super().advance(*arguments)
        if arguments[-1] == 15:
            learners = jax.tree.map(
                lambda x: x.at[1].set(jnp.nan) if jnp.issubdtype(x.dtype, jnp.floating) else x,
                learners,
            )
            metrics["loss"] = metrics["loss"].at[1].set(jnp.nan)
        return learners, source_state, metrics


def test_other_seeds_go_on_when_one_diverges(
    data: DeviceData, learner: Algorithm, tmp_path: Path
) -> None:
    """The lost one stays as at the checkpoint before, also after the run was stopped."""
    sound = loop.train(learner, DatasetSource(data), settings(30), begin(tmp_path / "sound"))
    early = loop.train(learner, DatasetSource(data), settings(10), begin(tmp_path / "early"))
    run = begin(tmp_path / "broken")
    on = replace(settings(25), continue_on_divergence=True)
    told: list[int] = []
    loop.train(
        learner,
        Poisoned(data),
        on,
        run,
        on_progress=lambda update, metrics: told.append(len(metrics["loss"])),
    )
    assert told == [2, 2, 2, 1, 1]
    state = loop.train(learner, Poisoned(data), replace(on, updates=30), run, resume=True)
    for seed, expected in enumerate((sound, early)):
        assert same(of_seed(state, seed), of_seed(expected, seed))
    assert run.read(DivergedSeeds).updates == {1: 10}
    losses = [row.metrics["loss"] for row in run.rows(MetricRow)]
    assert [each[1] is None for each in losses] == [False] * 3 + [True] * 3
    assert all(each[0] is not None for each in losses)
    with pytest.raises(DivergedError, match="continue_on_divergence, the other seeds train on"):
        loop.train(learner, Poisoned(data), settings(30), begin(tmp_path / "stopped"))


def test_too_little_data_is_refused(data: DeviceData, tmp_path: Path) -> None:
    spec = catalog.open("tmaze/planner-expert").spec
    long = oryx.make(oryx.Config(sequence_length=200_000), spec)
    with pytest.raises(OryxError, match="logged steps"):
        loop.train(long, DatasetSource(data), settings(5), begin(tmp_path))


def test_settings_are_checked() -> None:
    with pytest.raises(OryxError, match="multiple of log_every"):
        TrainSettings(log_every=7)
    with pytest.raises(OryxError, match="at least 1"):
        TrainSettings(updates=0)


def test_golden_losses(data: DeviceData, learner: Algorithm, tmp_path: Path) -> None:
    """Twenty updates of a small learner give these numbers, on every machine."""
    run = begin(tmp_path)
    loop.train(learner, DatasetSource(data), settings(20, seeds=1), run)
    last = list(run.rows(MetricRow))[-1].metrics
    golden = {
        "policy_loss": 1.0745007,
        "critic_loss": 0.1085955,
        "effective_sample_size": 0.9943649,
    }
    for name, expected in golden.items():
        assert last[name][0] == pytest.approx(expected, rel=1e-3), (name, last[name])
