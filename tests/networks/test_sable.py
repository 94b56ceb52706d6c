"""Acting step by step and the training pass are the same function of the same history."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oryx_marl.errors import OryxError
from oryx_marl.networks.sable import NetworkConfig, Sable
from oryx_marl.types import ActionSpace, Observation, Spec

SPEC = Spec("", ("a", "b", "c"), (5, 5, 5), ActionSpace("discrete", 4))
CONFIGS = {
    "default": NetworkConfig(width=16),
    "deep": NetworkConfig(width=16, num_heads=4, num_blocks=2, decay_scale=0.5),
    "remembers the last action": NetworkConfig(width=16, remember_last_action=True),
    "not autoregressive": NetworkConfig(width=16, autoregressive=False, remember_last_action=True),
    "as published": NetworkConfig(
        width=16, num_heads=2, gate_stream="key", feed_forward=False, agent_id="onehot"
    ),
    "embedding": NetworkConfig(width=16, agent_id="embedding"),
    "anonymous": NetworkConfig(width=16, agent_id="none"),
}


def history(seed: int, T: int = 12, absences: bool = False) -> tuple[Observation, jax.Array]:
    """A random history with two episode resets in it."""
    rng = np.random.default_rng(seed)
    N, O, A = SPEC.num_agents, SPEC.observation_size, SPEC.action.size  # noqa: E741
    reset = np.zeros(T, bool)
    reset[[0, 4, 9]] = True
    agent_mask = rng.random((T, N)) > 0.3 if absences else np.ones((T, N), bool)
    observation = Observation(
        features=jnp.asarray(rng.normal(size=(T, N, O)), jnp.float32),
        action_mask=jnp.ones((T, N, A), bool),
        agent_mask=jnp.asarray(agent_mask),
        reset=jnp.asarray(reset),
        step_count=jnp.zeros(T, jnp.int32),
    )
    return observation, jnp.asarray(rng.integers(0, A, (T, N)), jnp.int32)


def act_along(
    network: Sable, observation: Observation, actions: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Actions [T, N] and features [T, N, D] of acting, where each agent takes the logged action.

    `choose` sees features, mask and noise only, so the logged action travels as the mask.
    """
    forced = observation._replace(action_mask=jax.nn.one_hot(actions, SPEC.action.size, dtype=bool))

    def choose(features, action_mask, noise):
        return action_mask.argmax().astype(jnp.int32), features

    def step(memory, observation):
        memory, taken, features, _ = network.act(memory, observation, choose, jnp.zeros((3, 4)))
        return memory, (taken, features)

    return jax.lax.scan(step, network.init_state(), forced)[1]


def compare(network: Sable, absences: bool, tolerance: float) -> None:
    observation, actions = history(3, absences=absences)
    _, trained = jax.jit(lambda network, *rest: network(*rest))(
        network, observation, actions, jnp.arange(3)
    )
    taken, acted = jax.jit(act_along)(network, observation, actions)
    here = np.asarray(observation.agent_mask)
    np.testing.assert_array_equal(taken, actions)
    np.testing.assert_allclose(acted[here], trained[here], rtol=0, atol=tolerance)


@pytest.mark.parametrize("name", CONFIGS)
def test_acting_equals_training(name: str) -> None:
    """In float32 at initialisation; in float64 with weights far from it and absent agents."""
    network = Sable(jax.random.key(1), SPEC, CONFIGS[name])
    compare(network, absences=False, tolerance=1e-5)
    with jax.enable_x64(True):
        large = jax.tree.map(lambda x: 3 * x.astype(jnp.float64), network)
        compare(large, absences=True, tolerance=1e-10)


def test_memory_ends_with_the_episode() -> None:
    network = Sable(jax.random.key(0), SPEC, NetworkConfig(width=16))
    observation, actions = history(0)
    other, _ = history(1)
    # Another past before the reset at step 4 changes nothing from there on.
    mixed = observation._replace(features=observation.features.at[:4].set(other.features[:4]))
    _, first = network(observation, actions, jnp.arange(3))
    _, second = network(mixed, actions, jnp.arange(3))
    assert not np.allclose(first[3], second[3])
    np.testing.assert_array_equal(first[4:], second[4:])


def test_agents_see_earlier_choices_of_the_step_only() -> None:
    network = Sable(jax.random.key(0), SPEC, NetworkConfig(width=16))
    observation, actions = history(0)
    changed = actions.at[6, 1].set((actions[6, 1] + 1) % 4)
    _, first = network(observation, actions, jnp.arange(3))
    _, second = network(observation, changed, jnp.arange(3))
    np.testing.assert_array_equal(first[:6], second[:6])
    np.testing.assert_array_equal(first[6, :2], second[6, :2])
    assert not np.allclose(first[6, 2], second[6, 2])


def test_without_autoregression_choices_are_not_seen() -> None:
    network = Sable(jax.random.key(0), SPEC, NetworkConfig(width=16, autoregressive=False))
    observation, actions = history(0)
    _, first = network(observation, actions, jnp.arange(3))
    _, second = network(observation, (actions + 1) % 4, jnp.arange(3))
    np.testing.assert_array_equal(first, second)


def test_order_of_agents_is_the_callers() -> None:
    """Without identity and autoregression, permuted agents give permuted features."""
    config = NetworkConfig(width=16, agent_id="none", autoregressive=False)
    network = Sable(jax.random.key(0), SPEC, config)
    observation, actions = history(0)
    order = jnp.array([2, 0, 1])
    permuted = observation._replace(features=observation.features[:, order])
    encoded, _ = network(observation, actions, jnp.arange(3))
    permuted_encoded, _ = network(permuted, actions[:, order], order)
    np.testing.assert_allclose(permuted_encoded, encoded[:, order], atol=1e-6)


def test_one_hot_ids_equal_a_real_one_hot_in_front() -> None:
    """The row lookup is the product with a one-hot vector put in front of the features."""
    encoder = Sable(jax.random.key(0), SPEC, NetworkConfig(width=16)).observation_encoder
    rng = np.random.default_rng(0)
    features = jnp.asarray(rng.normal(size=(2, 3, 5)), jnp.float32)
    ids = jnp.array([2, 0, 1])
    joined = jnp.concatenate([jnp.broadcast_to(jnp.eye(3)[ids], (2, 3, 3)), features], axis=-1)
    normed = joined / jnp.sqrt(jnp.mean(joined**2, axis=-1, keepdims=True) + 1e-6)
    weight = jnp.concatenate([encoder.id_rows, encoder.dense.weight])
    expected = jax.nn.gelu(normed @ weight)
    np.testing.assert_allclose(encoder(features, ids), expected, atol=1e-5)


def test_every_weight_learns() -> None:
    """No dead part: the gradient of every array is non-zero."""
    network = Sable(jax.random.key(0), SPEC, CONFIGS["deep"])
    observation, actions = history(0)

    def loss(network):
        _, decoded = network(observation, actions, jnp.arange(3))
        return jnp.sum(jnp.sin(7 * decoded))

    slopes = eqx.filter_jit(eqx.filter_grad(loss))(network)
    for path, leaf in jax.tree_util.tree_leaves_with_path(slopes):
        assert float(jnp.abs(leaf).max()) > 0, jax.tree_util.keystr(path)


def test_bad_sizes_are_refused() -> None:
    with pytest.raises(OryxError, match="multiple of num_heads"):
        NetworkConfig(width=10, num_heads=4)
    with pytest.raises(OryxError, match="decay_scale"):
        NetworkConfig(decay_scale=0)


def test_bfloat16_rounds_features_in_training_alone() -> None:
    """Close to float32 with the same weights, gradients too; acting is not rounded at all."""
    exact, rounded = (
        Sable(jax.random.key(0), SPEC, NetworkConfig(32, 2, precision=precision))
        for precision in ("float32", "bfloat16")
    )
    observation, actions = history(0)

    @eqx.filter_jit
    @partial(eqx.filter_value_and_grad, has_aux=True)
    def score(network: Sable) -> tuple[jax.Array, jax.Array]:
        _, features = network(observation, actions, jnp.arange(3))
        return jnp.mean(features.astype(jnp.float32) ** 3), features

    (_, wanted), slopes = score(exact)
    (_, found), rough = score(rounded)
    assert found.dtype == jnp.bfloat16
    assert 0 < np.abs(found - wanted).max() < 0.1
    flat = [np.concatenate([x.ravel() for x in jax.tree.leaves(g)]) for g in (slopes, rough)]
    assert {x.dtype for x in jax.tree.leaves(rough)} == {jnp.dtype("float32")}
    assert np.dot(*flat) / np.prod([np.linalg.norm(x) for x in flat]) > 0.995
    for network in (exact, rounded):
        _, acted = act_along(network, observation, actions)
        np.testing.assert_allclose(acted, wanted, atol=1e-4)
