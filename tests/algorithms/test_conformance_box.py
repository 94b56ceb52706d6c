"""What every algorithm that learns box actions must do on them, for all of those."""

from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import toy_envs
from test_conformance_algorithms import CONTINUOUS, KEYS, seed, shrink

from oryx_marl import registry
from oryx_marl.algorithms._making import make_algorithm
from oryx_marl.algorithms.sable import Decision
from oryx_marl.data.dataset import Dataset
from oryx_marl.data.sampler import put_on_device, sample_windows
from oryx_marl.training import online

ENV = toy_envs.make()
pytestmark = pytest.mark.slow


@cache
def make(name: str) -> Any:
    return make_algorithm(name, shrink(registry.load("algorithms", name).Config()), ENV.spec)


@cache
def data() -> Any:
    """Agents that go towards their targets; a third of the actions are clipped at a bound."""
    rng = np.random.default_rng(0)
    seen = rng.uniform(-1, 1, (400, 2, 2)).astype(np.float32)
    actions = np.clip(2 * (seen[..., 1:] - seen[..., :1]) + rng.normal(0, 0.1, (400, 2, 1)), -1, 1)
    ends = np.zeros((400, 2), bool)
    ends[9::10] = True
    dataset = Dataset(
        spec=ENV.spec,
        observations=seen,
        actions=actions.astype(np.float32),
        rewards=-np.abs(seen[..., 1] - seen[..., 0]),
        terminals=np.zeros((400, 2), bool),
        truncations=ends,
        episode_starts=np.arange(0, 400, 10),
    )
    return put_on_device(dataset)


@cache
def run(name: str) -> tuple[Any, dict[str, np.ndarray]]:
    """Both seeds after thirty updates on one batch, and the metrics [S, 30] on the way."""
    algorithm = make(name)
    learners = jax.jit(jax.vmap(algorithm.init))(KEYS)
    if algorithm.config.online:
        actors = seed(online.EnvSource(ENV).init(algorithm, learners, KEYS), 0)
        policy = algorithm.policy(algorithm.weights(seed(learners, 0)))
        play = partial(online.collect, ENV, policy, length=algorithm.sequence_length)
        batch = jax.jit(play)(actors=actors, key=jax.random.key(0))[1]
    else:
        size = algorithm.batch_size, algorithm.sequence_length
        batch = sample_windows(data(), jax.random.key(0), *size)

    def one_seed(learner: Any, key: jax.Array) -> Any:
        def step(state: Any, number: jax.Array) -> Any:
            return algorithm.update(state, batch, jax.random.fold_in(key, number))

        return jax.lax.scan(step, learner, jnp.arange(30))

    learners, metrics = jax.jit(jax.vmap(one_seed))(learners, KEYS)
    return learners, {key: np.asarray(value) for key, value in metrics.items()}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_loss_decreases_and_everything_is_finite(name: str) -> None:
    learners, metrics = run(name)
    for key, values in metrics.items():
        assert np.isfinite(values).all(), key
    assert (metrics["loss"][:, -1] < metrics["loss"][:, 0]).all()
    assert (metrics["gradient_norm"] > 0).all()
    assert (metrics["min_log_std"] > -5).all()
    leaves = jax.tree.leaves(make(name).weights(learners))
    assert any(not np.array_equal(leaf[0], leaf[1]) for leaf in leaves)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_acting_equals_the_pass_of_training_inside_the_box(name: str) -> None:
    algorithm = make(name)
    weights = seed(algorithm.weights(run(name)[0]), 0)
    window = sample_windows(data(), jax.random.key(5), 6, 12)
    policy = algorithm.policy(weights)

    @jax.jit
    def act() -> Any:
        def step(carry: Any, inputs: Any) -> Any:
            observation, key = inputs
            carry, actions, info = policy.step(carry, observation, key)
            taken = info.log_probs if isinstance(info, Decision) else info.log_prob(actions)
            return carry, (actions, taken)

        by_time = jax.tree.map(lambda x: jnp.moveaxis(x, 1, 0), window.observation)
        by_time = by_time._replace(reset=by_time.reset.at[0].set(True))
        keys = jax.random.split(jax.random.key(6), 12)
        _, found = jax.lax.scan(step, policy.init(6), (by_time, keys))
        return jax.tree.map(lambda x: jnp.moveaxis(x, 0, 1), found)

    actions, taken = act()
    assert (jnp.abs(actions) <= 1).all()
    observation = window.observation._replace(reset=window.observation.reset.at[:, 0].set(True))
    acted = window._replace(observation=observation, actions=actions)
    trained = jax.jit(lambda: algorithm.distribution(weights, acted)[0].log_prob(actions))
    np.testing.assert_allclose(taken, trained(), atol=1e-4)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_temperature_0_takes_the_mode_whatever_the_noise(name: str) -> None:
    algorithm = make(name)
    weights = seed(algorithm.weights(run(name)[0]), 0)
    window = sample_windows(data(), jax.random.key(7), 5, 1)
    seen = window.observation._replace(reset=jnp.ones_like(window.observation.reset))
    policy = algorithm.policy(weights).at_temperature(0.0)
    act = jax.jit(policy.step)
    first_step = jax.tree.map(lambda x: x[:, 0], seen)
    _, first, _ = act(policy.init(5), first_step, jax.random.key(0))
    _, again, _ = act(policy.init(5), first_step, jax.random.key(1))
    np.testing.assert_array_equal(first, again)
    acted = window._replace(observation=seen, actions=first[:, None])
    mode = jax.jit(lambda: algorithm.distribution(weights, acted)[0].mode())()
    np.testing.assert_allclose(first, mode[:, 0], atol=1e-5)
