"""What every algorithm must do, for every algorithm there is."""

import dataclasses
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oryx_marl import registry
from oryx_marl.algorithms import base
from oryx_marl.algorithms._making import make_algorithm
from oryx_marl.algorithms.sable import Decision
from oryx_marl.data import catalog
from oryx_marl.data.sampler import put_on_device, sample_windows
from oryx_marl.data.subsample import whole_episodes
from oryx_marl.envs.tmaze import TMaze
from oryx_marl.errors import OryxError
from oryx_marl.ops.distributions import take_action
from oryx_marl.policy import artifact
from oryx_marl.policy.artifact import PolicyArtifact
from oryx_marl.runs import checkpoint
from oryx_marl.training import online
from oryx_marl.types import ActionSpace, Spec

ENV = TMaze()
SMALL = {
    "width": 16,
    "linear_width": 16,
    "recurrent_width": 16,
    "num_blocks": 1,
    "num_layers": 1,
    "batch_size": 8,
    "num_envs": 8,
    "sequence_length": 8,
    "rollout_length": 24,
    "minibatches": 2,
    "learning_rate": 3e-3,
}
NAMES = registry.names("algorithms")
CONTINUOUS = ("bc", "oryx", "sable")
"""Those that learn box actions too."""
HALVES = (slice(0, 5), slice(5, None))
"""Of a window of 12 steps."""
KEYS = jax.vmap(jax.random.key)(jnp.arange(2))


def shrink(config: Any) -> Any:
    """The config with small sizes, wherever it has them."""
    changes = {}
    for entry in dataclasses.fields(config):
        value = getattr(config, entry.name)
        if dataclasses.is_dataclass(value):
            changes[entry.name] = shrink(value)
        elif entry.name in SMALL:
            changes[entry.name] = SMALL[entry.name]
    return replace(config, **changes)


@cache
def make(name: str) -> Any:
    module = registry.load("algorithms", name)
    return make_algorithm(name, shrink(module.Config()), ENV.spec)


@cache
def data() -> Any:
    return put_on_device(whole_episodes(catalog.open("tmaze/planner-mixed"), 400, 0), True)


@cache
def experience(name: str) -> Any:
    """A batch to learn from, as the trainer would hand it over."""
    algorithm = make(name)
    if not algorithm.config.online:
        size = algorithm.batch_size, algorithm.sequence_length
        return sample_windows(data(), jax.random.key(0), *size)
    learners = learned(name)[0]
    actors = online.EnvSource(ENV).init(algorithm, learners, KEYS)
    policy = algorithm.policy(jax.tree.map(lambda x: x[0], algorithm.weights(learners)))
    play = partial(online.collect, ENV, policy, length=algorithm.sequence_length)
    first = jax.tree.map(lambda x: x[0], actors)
    return jax.jit(play)(actors=first, key=jax.random.key(0))[1]


@cache
def learned(name: str) -> tuple[Any, ...]:
    """Fresh learners of both seeds."""
    return (jax.jit(jax.vmap(make(name).init))(KEYS),)


@cache
def learn(name: str) -> Any:
    """Thirty updates of both seeds on one batch, compiled."""
    algorithm = make(name)

    @jax.jit
    def compiled(learners: Any, keys: jax.Array, batch: Any) -> tuple[Any, dict[str, jax.Array]]:
        def one_seed(learner: Any, key: jax.Array) -> tuple[Any, dict[str, jax.Array]]:
            def step(state: Any, number: jax.Array) -> tuple[Any, dict[str, jax.Array]]:
                return algorithm.update(state, batch, jax.random.fold_in(key, number))

            return jax.lax.scan(step, learner, jnp.arange(30))

        return jax.vmap(one_seed)(learners, keys)

    return compiled


@cache
def run(name: str) -> tuple[Any, dict[str, np.ndarray]]:
    """Both seeds after their updates, and the metrics [S, 30] on the way."""
    learners, metrics = learn(name)(learned(name)[0], KEYS, experience(name))
    return learners, {key: np.asarray(value) for key, value in metrics.items()}


def seed(tree: Any, number: int) -> Any:
    return jax.tree.map(lambda x: x[number], tree)


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


def test_loss_decreases_and_everything_is_finite(name: str) -> None:
    _, metrics = run(name)
    for key, values in metrics.items():
        assert np.isfinite(values).all(), key
        assert values.shape == (2, 30)
    assert (metrics["loss"][:, -1] < metrics["loss"][:, 0]).all()
    assert (metrics["gradient_norm"] > 0).all()


def test_seeds_differ_and_repeat(name: str) -> None:
    """Different seeds, different weights; a seed gives the same weights whoever runs beside it."""
    learners, _ = run(name)
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(make(name).weights(learners))]
    assert any(not np.array_equal(leaf[0], leaf[1]) for leaf in leaves)
    swapped = jax.tree.map(lambda x: x[::-1], learned(name)[0])
    others, _ = learn(name)(swapped, KEYS[::-1], experience(name))
    for one, other in zip(jax.tree.leaves(learners), jax.tree.leaves(others), strict=True):
        np.testing.assert_array_equal(one[0], other[1])


@pytest.mark.slow
def test_vectorised_seeds_equal_single_runs(name: str) -> None:
    """To rounding, after one update: products of stacked weights are summed in another order."""
    algorithm, batch = make(name), experience(name)
    keys = jax.vmap(jax.random.fold_in, in_axes=(0, None))(KEYS, 0)
    both, _ = jax.jit(jax.vmap(algorithm.update, in_axes=(0, None, 0)))(
        learned(name)[0], batch, keys
    )
    alone, _ = jax.jit(algorithm.update)(algorithm.init(KEYS[1]), batch, keys[1])
    for one, other in zip(
        jax.tree.leaves(algorithm.weights(seed(both, 1))),
        jax.tree.leaves(algorithm.weights(alone)),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_acting_equals_the_pass_of_training_and_is_legal(name: str) -> None:
    """The policy acts along logged observations; training must say the same of what it did."""
    algorithm = make(name)
    weights = seed(algorithm.weights(run(name)[0]), 0)
    window = sample_windows(data(), jax.random.key(5), 6, 12)
    policy = algorithm.policy(weights)

    @jax.jit
    def act() -> tuple[jax.Array, jax.Array]:
        def step(carry: Any, inputs: tuple[Any, jax.Array]) -> tuple[Any, Any]:
            observation, key = inputs
            carry, actions, info = policy.step(carry, observation, key)
            taken = info.log_probs if isinstance(info, Decision) else info.log_prob(actions)
            return carry, (actions, taken)

        by_time = jax.tree.map(lambda x: jnp.moveaxis(x, 1, 0), window.observation)
        by_time = by_time._replace(reset=by_time.reset.at[0].set(True))
        keys = jax.random.split(jax.random.key(6), 12)
        _, (actions, taken) = jax.lax.scan(step, policy.init(6), (by_time, keys))
        return jnp.moveaxis(actions, 0, 1), jnp.moveaxis(taken, 0, 1)

    actions, taken = act()
    assert take_action(window.observation.action_mask, actions).all()
    observation = window.observation._replace(reset=window.observation.reset.at[:, 0].set(True))
    acted = window._replace(observation=observation, actions=actions)
    trained = jax.jit(lambda: algorithm.distribution(weights, acted)[0].log_prob(actions))
    np.testing.assert_allclose(taken, trained(), atol=1e-4)


@pytest.mark.slow
def test_the_recurrent_state_is_carried_from_window_to_window(name: str) -> None:
    """Two passes, the second from the state after the first, say what one pass says."""
    algorithm = make(name)
    weights = seed(algorithm.weights(run(name)[0]), 0)
    window = sample_windows(data(), jax.random.key(5), 6, 12)
    window = window._replace(
        observation=window.observation._replace(reset=window.observation.reset.at[:, 0].set(True))
    )

    @jax.jit
    def both(carry: Any) -> tuple[jax.Array, jax.Array]:
        whole, _ = algorithm.distribution(weights, window)
        steps = window._replace(feature_statistics=None)  # which have no axis of steps
        halves = [
            jax.tree.map(lambda x, at=at: x[:, at], steps)._replace(
                feature_statistics=window.feature_statistics
            )
            for at in HALVES
        ]
        first, carry = algorithm.distribution(weights, halves[0], carry)
        second, _ = algorithm.distribution(weights, halves[1], carry)
        found = first.log_prob(halves[0].actions), second.log_prob(halves[1].actions)
        return whole.log_prob(window.actions), jnp.concatenate(found, axis=1)

    np.testing.assert_allclose(*both(algorithm.policy(weights).init(6)), atol=1e-4)


def test_temperature_0_takes_the_likeliest_legal_action(name: str) -> None:
    """Whatever the noise; that of the distribution which training gives for the same actions."""
    algorithm = make(name)
    weights = seed(algorithm.weights(run(name)[0]), 0)
    window = sample_windows(data(), jax.random.key(7), 5, 1)
    window = window._replace(
        observation=window.observation._replace(reset=jnp.ones_like(window.observation.reset))
    )
    observation = jax.tree.map(lambda x: x[:, 0], window.observation)
    policy = algorithm.policy(weights).at_temperature(0.0)
    act = jax.jit(policy.step)
    _, first, _ = act(policy.init(5), observation, jax.random.key(0))
    _, again, _ = act(policy.init(5), observation, jax.random.key(1))
    np.testing.assert_array_equal(first, again)
    assert take_action(observation.action_mask, first).all()
    acted = window._replace(actions=first[:, None])
    likeliest = jax.jit(lambda: algorithm.distribution(weights, acted)[0].mode())()
    np.testing.assert_array_equal(first, likeliest[:, 0])


def test_draws_at_a_temperature_are_from_the_softmax_of_logits_over_it(name: str) -> None:
    """How often each agent takes each action, given the actions of the agents before it."""
    algorithm, batch = make(name), 4_000
    weights = seed(algorithm.weights(run(name)[0]), 0)
    window = sample_windows(data(), jax.random.key(7), 1, 1)
    window = jax.tree.map(lambda x: jnp.broadcast_to(x[:1], (batch, *x.shape[1:])), window)
    seen = window.observation
    seen = seen._replace(
        reset=jnp.ones_like(seen.reset),
        action_mask=jnp.ones_like(seen.action_mask).at[..., 0].set(False),
    )

    @jax.jit
    def draw(temperature: jax.Array) -> tuple[jax.Array, jax.Array]:
        policy = algorithm.policy(weights).at_temperature(temperature)
        observation = jax.tree.map(lambda x: x[:, 0], seen)
        _, actions, _ = policy.step(policy.init(batch), observation, jax.random.key(3))
        acted = window._replace(observation=seen, actions=actions[:, None])
        return actions, algorithm.distribution(weights, acted)[0].log_probs[:, 0]

    def count_spreads(temperature: float, taken: np.ndarray, log_probs: np.ndarray) -> float:
        """Largest gap between counts and expected counts, in standard deviations."""
        expected = np.asarray(jax.nn.softmax(log_probs / temperature), np.float64)
        spread = np.sqrt((expected * (1 - expected)).sum(axis=0))
        return float((np.abs((taken - expected).sum(axis=0)) / np.maximum(spread, 1)).max())

    for temperature in (0.5, 0.1):
        actions, log_probs = draw(jnp.asarray(temperature))
        taken = np.asarray(jax.nn.one_hot(actions, ENV.spec.action.size))
        assert (taken[..., 0] == 0).all()  # under a false mask
        assert count_spreads(temperature, taken, log_probs) < 4.5
    assert count_spreads(1.0, taken, log_probs) > 9  # were it not scaled at all


def test_saved_and_loaded_weights_are_equal(name: str, tmp_path: Path) -> None:
    learners, _ = run(name)
    checkpoint.save(tmp_path, checkpoint.Checkpoint(3, learners, {}))
    like = jax.eval_shape(lambda: jax.vmap(make(name).init)(KEYS))
    found = checkpoint.restore(tmp_path, like)
    jax.tree.map(np.testing.assert_array_equal, found.tree, jax.device_get(learners))
    weights = make(name).weights(learners)
    policy = PolicyArtifact(name, make(name), make(name).spec, weights, (0, 1), {})
    artifact.save(tmp_path / "kept.npz", policy)
    kept = artifact.load(tmp_path / "kept.npz")
    assert kept.algorithm == make(name)
    assert kept.sha256 == policy.sha256
    jax.tree.map(np.testing.assert_array_equal, kept.weights, jax.device_get(weights))


def test_continuous_actions_are_learned_or_refused_with_one_line(name: str) -> None:
    module = registry.load("algorithms", name)
    spec = Spec("", ("a",), (1,), ActionSpace("box", 1, (-1.0,), (1.0,)), state_size=2)
    if name in CONTINUOUS:
        module.make(module.Config(), spec)
        return
    with pytest.raises(OryxError, match="continuous"):
        module.make(module.Config(), spec)


@pytest.mark.parametrize("name", NAMES)
def test_every_algorithm_says_how_it_acts(name: str) -> None:
    """Those that learn values take the highest, those that learn a policy sample it."""
    config = registry.load("algorithms", name).Config()
    assert isinstance(config, base.Config)
    assert config.acts_greedily is (name == "iql_cql")


def test_oryx_without_icq_acts_on_values() -> None:
    assert registry.load("algorithms", "oryx").Config(objective="q_learning").acts_greedily


def test_an_absent_global_state_is_refused() -> None:
    """Algorithms that need none learn without one; the others say what to do."""
    refused = []
    for name in NAMES:
        module = registry.load("algorithms", name)
        try:
            module.make(module.Config(), replace(ENV.spec, state_size=0))
        except OryxError as error:
            refused.append((name, str(error)))
    assert [name for name, _ in refused] == ["maicq"]
    assert "global state, but this data has none" in refused[0][1]


def test_settings_survive_the_way_through_json(name: str) -> None:
    from oryx_marl import config as configs

    config = registry.load("algorithms", name).Config()
    assert configs.from_dict(type(config), configs.to_dict(config)) == config
    hash(make(name))
