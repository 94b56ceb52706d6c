"""Learners in units of their data: standardised features, the size of the network, and what is
refused."""

from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oryx_marl import experiment, registry
from oryx_marl.algorithms import bc, iicq, madt, oryx
from oryx_marl.algorithms._making import make_algorithm
from oryx_marl.algorithms._size import choose_size, fill_size
from oryx_marl.algorithms._standardise import FARTHEST, Standardised
from oryx_marl.data import catalog
from oryx_marl.data.dataset import Dataset
from oryx_marl.data.sampler import put_on_device, sample_windows
from oryx_marl.data.subsample import whole_episodes
from oryx_marl.errors import OryxError
from oryx_marl.networks.recurrent import RecurrentConfig
from oryx_marl.networks.sable import NetworkConfig
from oryx_marl.policy import artifact
from oryx_marl.policy.artifact import PolicyArtifact
from oryx_marl.types import ActionSpace, Spec

GRU = RecurrentConfig(8, 8)


def logs() -> Dataset:
    """Features far from 0, with spreads far from 1."""
    dataset = whole_episodes(catalog.open("tmaze/planner-mixed"), 300, 0)
    size = dataset.spec.observation_size
    scale, shift = np.linspace(0.01, 100, size), np.linspace(-50, 50, size)
    seen = (dataset.observations * scale + shift).astype(np.float32)
    return replace(dataset, observations=seen)


def make_bc(spec: Spec, **changes: Any) -> Any:
    config = bc.Config(network=GRU, batch_size=4, sequence_length=6, **changes)
    return make_algorithm("bc", config, spec)


def test_features_are_seen_in_units_of_the_data() -> None:
    """Learned from and acted on as if they had been standardised before."""
    dataset = logs()
    data = put_on_device(dataset)
    window = sample_windows(data, jax.random.key(1), 4, 6)
    outer, inner = make_bc(dataset.spec), make_bc(dataset.spec, standardise=False)
    assert isinstance(outer, Standardised)
    state = jax.jit(outer.init)(jax.random.key(0))
    state, metrics = jax.jit(outer.update)(state, window, jax.random.key(2))

    logged = dataset.observations.astype(np.float64)
    mean, std = logged.mean((0, 1)), logged.std((0, 1))
    std = np.where(std < 1e-6 * np.maximum(np.abs(mean), 1), 1, std)
    seen = window.observation
    features = np.clip((np.asarray(seen.features) - mean) / std, -FARTHEST, FARTHEST)
    features = jnp.asarray(features, jnp.float32)
    by_hand = window._replace(observation=seen._replace(features=features))
    same = jax.jit(inner.init)(jax.random.key(0))
    same, expected = jax.jit(inner.update)(same, by_hand, jax.random.key(2))
    np.testing.assert_allclose(metrics["loss"], expected["loss"], rtol=1e-4)

    weights = outer.weights(state)
    found, _ = outer.distribution(weights, window)
    plain, _ = inner.distribution(inner.weights(same), by_hand)
    np.testing.assert_allclose(found.log_probs, plain.log_probs, rtol=1e-3, atol=1e-4)
    policy, of_inner = outer.policy(weights), inner.policy(inner.weights(same))
    now = jax.tree.map(lambda x: x[:, 0], seen)
    now_by_hand = jax.tree.map(lambda x: x[:, 0], by_hand.observation)
    key = jax.random.key(3)
    _, acted, info = policy.step(policy.init(4), now, key)
    _, expected_action, expected_info = of_inner.step(of_inner.init(4), now_by_hand, key)
    np.testing.assert_allclose(info.log_probs, expected_info.log_probs, rtol=1e-3, atol=1e-4)
    np.testing.assert_array_equal(acted, expected_action)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in ("bc", "iicq") else pytest.mark.slow)
        for name in registry.names("algorithms")
        if name != "sable"
    ],
)
def test_a_policy_keeps_its_statistics(name: str, tmp_path: Path) -> None:
    """They are in the file, and what is loaded says the same."""
    module, dataset = registry.load("algorithms", name), logs()
    config = module.Config(batch_size=4, sequence_length=6)
    algorithm = make_algorithm(name, config, dataset.spec)
    data = put_on_device(dataset, True)
    window = sample_windows(data, jax.random.key(1), 4, 6)

    @jax.jit
    def train(key: jax.Array) -> Any:
        state, _ = algorithm.update(algorithm.init(key), window, key)
        return algorithm.weights(state)

    weights = train(jax.random.key(0))
    np.testing.assert_allclose(weights.features.mean, data.feature_statistics.mean)
    stacked = jax.tree.map(lambda x: np.asarray(x)[None], weights)
    kept = PolicyArtifact(name, algorithm, dataset.spec, stacked, (0,), {})
    artifact.save(tmp_path / "policy.npz", kept)
    loaded = artifact.load(tmp_path / "policy.npz")
    before, _ = algorithm.distribution(weights, window)
    found = jax.tree.map(jnp.asarray, loaded.weights_of(0))
    after, _ = loaded.algorithm.distribution(found, window)
    np.testing.assert_allclose(before.log_probs, after.log_probs, rtol=1e-5, atol=1e-6)


def test_windows_without_statistics_are_refused() -> None:
    dataset = logs()
    window = sample_windows(put_on_device(dataset), jax.random.key(1), 4, 6)
    algorithm = make_bc(dataset.spec)
    state = jax.jit(algorithm.init)(jax.random.key(0))
    with pytest.raises(OryxError, match="standardise needs windows with feature_statistics"):
        algorithm.update(state, window._replace(feature_statistics=None), jax.random.key(2))


def spec(features: int, agents: int = 2) -> Spec:
    names = tuple(f"agent {i}" for i in range(agents))
    return Spec("", names, (features,) * agents, ActionSpace("discrete", 3))


@pytest.mark.parametrize(
    ("features", "rows", "expected"),
    [
        (30, 10_000_000, (64, 1)),
        (65, 50_000, (128, 1)),
        (65, 49_999, (64, 1)),
        (658, 250_000, (256, 2)),
        (658, 100_000, (128, 1)),
        (658, 1_000, (64, 1)),
        (658, None, (256, 2)),
    ],
)
def test_size_follows_features_and_steps(
    features: int, rows: int | None, expected: tuple[int, int]
) -> None:
    assert choose_size(spec(features), rows) == expected
    found = fill_size(oryx.Config(), spec(features), rows).network
    assert (found.width, found.num_blocks) == expected
    recurrent = fill_size(bc.Config(), spec(features), rows).network
    assert (recurrent.linear_width, recurrent.recurrent_width) == (expected[0],) * 2


def test_sizes_that_are_given_stay() -> None:
    config = oryx.Config(network=NetworkConfig(width=32, num_blocks=1))
    assert fill_size(config, spec(658), 10**6) == config
    deep = oryx.Config(network=NetworkConfig(num_blocks=3))
    assert fill_size(deep, spec(658), 10**6).network.num_blocks == 3
    assert fill_size(madt.Config(), spec(658), 10**6) == madt.Config()


def test_learners_have_a_size_however_they_are_made() -> None:
    assert oryx.Oryx(oryx.Config(), spec(658)).config.network.width == 256
    assert bc.make(bc.Config(), spec(30)).config.network == RecurrentConfig(64, 64)


def test_a_run_names_the_size_that_was_chosen(tmp_path: Path) -> None:
    work = experiment.Experiment(
        "bc",
        bc.Config(batch_size=4),
        logs(),
        tmp_path / "run",
        experiment.TrainSettings(
            updates=2, seeds=1, log_every=2, evaluate_every=0, checkpoint_every=2
        ),
        experiment.EvaluationSettings(episodes=1, episodes_while_training=1, replays=0),
    )
    run = experiment.run(work).run
    assert run.policy().algorithm.config.network == RecurrentConfig(64, 64)
    assert '"linear_width": 64' in (tmp_path / "run" / "config.json").read_text()


@pytest.mark.parametrize("module", [oryx, iicq])
def test_low_value_temperatures_are_refused(module: ModuleType, tmp_path: Path) -> None:
    """Not by the settings themselves: policies of older runs can be opened."""
    config = module.Config(value_temperature=0.1)
    work = experiment.Experiment(module.__name__.rsplit(".")[-1], config, logs(), tmp_path / "run")
    with pytest.raises(OryxError, match=r"value_temperature must be at least 1000, got 0.1.*infla"):
        experiment.run(work)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("module", [bc, iicq, pytest.param(madt, marks=pytest.mark.slow)])
def test_baselines_can_act_with_averaged_weights(module: ModuleType) -> None:
    """After one update: half way between the first weights and the new ones, with τ of a half."""
    dataset = logs()
    given = {"batch_size": 4, "sequence_length": 6, "standardise": False}
    window = sample_windows(put_on_device(dataset, True), jax.random.key(1), 4, 6)

    def train(**changes: Any) -> tuple[Any, Any]:
        algorithm = module.make(module.Config(**given, **changes), dataset.spec)
        state = jax.jit(algorithm.init)(jax.random.key(0))
        before = algorithm.weights(state)
        after, _ = jax.jit(algorithm.update)(state, window, jax.random.key(2))
        return before, algorithm.weights(after)

    first, newest = train()
    _, averaged = train(act_with_ema=True, tau=0.5)
    leaves = (jax.tree.leaves(getattr(x, "network", x)) for x in (first, newest, averaged))
    for old, new, mean in zip(*leaves, strict=True):
        np.testing.assert_allclose(mean, (old + new) / 2, rtol=1e-5, atol=1e-7)
