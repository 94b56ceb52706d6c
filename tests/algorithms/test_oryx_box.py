"""Oryx on actions in a box: its values, its policy, and a task with a known answer."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oryx_marl.algorithms import bc, oryx
from oryx_marl.algorithms.base import Algorithm
from oryx_marl.data.dataset import Dataset
from oryx_marl.data.sampler import put_on_device, sample_windows
from oryx_marl.errors import OryxError
from oryx_marl.networks.sable import NetworkConfig
from oryx_marl.ops.distributions import SquashedNormal
from oryx_marl.training import offline
from oryx_marl.training.loop import init_state, make_keys
from oryx_marl.types import ActionSpace, Observation, Spec, Window

BOX = ActionSpace("box", 2, (-1.0, 0.0), (1.0, 4.0))
SPEC = Spec("", ("a", "b", "c"), (3, 3, 3), BOX)
CONFIG = oryx.Config(network=NetworkConfig(width=16), batch_size=2, sequence_length=4)
IDS = jnp.arange(3)


def steps(seed: int = 0, **changes: Any) -> Window:
    """[2, 4, 3] steps of one running episode with random features, actions and rewards."""
    rng = np.random.default_rng(seed)
    shape = (2, 4, 3)
    observation = Observation(
        features=jnp.asarray(rng.normal(size=(*shape, 3)), jnp.float32),
        action_mask=jnp.ones((*shape, 2), bool),
        agent_mask=jnp.ones(shape, bool),
        reset=jnp.zeros(shape[:2], bool),
        step_count=jnp.zeros(shape[:2], jnp.int32),
    )
    found = Window(
        observation=observation,
        actions=jnp.asarray(rng.uniform((-1, 0), (1, 4), (*shape, 2)), jnp.float32),
        rewards=jnp.asarray(rng.normal(size=shape), jnp.float32),
        terminal=jnp.zeros(shape, bool),
    )
    inside = {name: value for name, value in changes.items() if name in Observation._fields}
    outside = {name: value for name, value in changes.items() if name not in inside}
    return found._replace(observation=observation._replace(**inside), **outside)


def make(**changes: Any) -> tuple[oryx.Oryx, oryx.Network]:
    """A learner, and weights that are not near zero anywhere."""
    algorithm = oryx.make(replace(CONFIG, standardise=False, **changes), SPEC)
    network = algorithm.make_network(jax.random.key(1))
    leaves, shape = jax.tree.flatten(network)
    keys = jax.random.split(jax.random.key(2), len(leaves))
    shaken = [x + 0.1 * jax.random.normal(k, x.shape) for x, k in zip(leaves, keys, strict=True)]
    return algorithm, jax.tree.unflatten(shape, shaken)


@jax.jit
def q_of(network: oryx.Network, window: Window, actions: jax.Array) -> jax.Array:
    """Q of `actions`, of agents that were told the logged ones before them."""
    _, outputs = network(window.observation, window.actions, IDS)
    return network.q_head.values(outputs, jnp.zeros((1, *actions.shape)))[0].at(actions)


def test_q_sees_the_own_action_and_none_of_later_agents() -> None:
    _, network = make()
    window = steps()
    logged = q_of(network, window, window.actions)
    other = window.actions.at[0, 1, 1].set(jnp.array([0.9, 0.1]))
    own = q_of(network, window, other)
    assert (own != logged)[0, 1, 1]
    assert (own == logged).sum() == own.size - 1
    told = q_of(network, window._replace(actions=other), other)
    np.testing.assert_allclose(told[0, 1, 0], logged[0, 1, 0], rtol=1e-6)
    assert abs(told[0, 1, 2] - logged[0, 1, 2]) > 1e-5, "the third is told what the second did"


def test_values_by_hand() -> None:
    """One hidden layer: features and the scaled action, GELU, RMS norm, a product."""
    _, network = make(num_critics=2)
    head, window = network.q_head, steps()
    _, features = jax.jit(lambda seen, acted: network.trunk(seen, acted, IDS))(
        window.observation, window.actions
    )
    scaled = np.asarray(window.actions) * (1, 0.5) - (0, 1)
    hidden = features @ head.on_features.weight + head.on_features.bias
    hidden = jax.nn.gelu(hidden + scaled @ head.on_action.weight)
    hidden = hidden / jnp.sqrt((hidden**2).mean(axis=-1, keepdims=True) + 1e-6) * head.norm.scale
    expected = hidden @ head.out.weight + head.out.bias
    noise = jax.random.normal(jax.random.key(3), (5, *window.actions.shape))
    values = head.values(head(features), noise)
    for critic, each in enumerate(values):
        np.testing.assert_allclose(each.at(window.actions), expected[..., critic], atol=1e-5)
    policy = SquashedNormal(
        window.actions * 0, window.actions * 0 - 1, jnp.array(BOX.low), jnp.array(BOX.high)
    )
    drawn = [values[1].at(policy.sample(each)) for each in noise]
    np.testing.assert_allclose(values[1].expected(policy), np.mean(drawn, axis=0), atol=1e-5)


def test_absent_agents_and_resets_do_not_count() -> None:
    algorithm, network = make(initial_state="zeros", policy_temperature=1.0)
    mask = jnp.ones((2, 4, 3), bool).at[:, :, 2].set(False)
    window = steps(agent_mask=mask)
    compute = jax.jit(lambda window: algorithm.loss(network, network, window, jax.random.key(0)))
    loss, metrics = compute(window)
    away = window._replace(
        actions=window.actions.at[:, :, 2].set(0.5), rewards=window.rewards.at[:, :, 2].set(9.0)
    )
    same, _ = compute(away)
    np.testing.assert_allclose(same, loss, rtol=1e-5)
    assert metrics["valid_label_share"] == pytest.approx(2 / 3)


def test_acting_is_the_pass_of_training() -> None:
    """Log-probabilities of an episode that was acted, step by step, and in one pass."""
    algorithm, network = make()
    policy = algorithm.policy(network)
    window = steps()
    carry, acted, means, act = policy.init(2), [], [], jax.jit(policy.act)
    for t in range(4):
        here = jax.tree.map(lambda x, t=t: x[:, t], window.observation)
        noise = policy.draw_noise(jax.random.key(t), 2)
        carry, actions, info = act(carry, here, noise)
        acted.append(actions)
        means.append(info.mean)
    played = window._replace(actions=jnp.stack(acted, axis=1))
    found, _ = jax.jit(algorithm.distribution)(network, played, policy.init(2))
    np.testing.assert_allclose(found.mean, jnp.stack(means, axis=1), atol=1e-5)


def test_expectile_values_by_hand() -> None:
    """V is the last output of the head, the same for all critics; advantages are Q - V, and the
    gradient of V comes from its own loss alone."""
    algorithm, network = make(
        num_critics=2, baseline="expectile", initial_state="zeros", policy_temperature=1.0
    )
    mask = jnp.ones((2, 4, 3), bool).at[:, 2:, 1].set(False)
    window = steps(agent_mask=mask)

    @jax.jit
    def compute(network: oryx.Network) -> Any:
        outputs, q = network(window.observation, window.actions, IDS)
        noise = jnp.zeros((1, *window.actions.shape))
        critics = network.q_head.values(q, noise)
        taken = [each.at(window.actions) for each in critics]
        loss, metrics = algorithm.loss(network, network, window, jax.random.key(0))
        return outputs, q, taken, [each.state_value for each in critics], loss, metrics

    outputs, q, taken, values, loss, metrics = compute(network)
    value = np.asarray(q[..., -1])
    for each in values:
        np.testing.assert_array_equal(each, value)
    errors = np.minimum(*taken) - value
    squares = np.where(errors < 0, 0.3, 0.7) * errors**2
    np.testing.assert_allclose(metrics["value_loss"], squares[mask].mean(), rtol=1e-4)
    parts = metrics["critic_loss"] + metrics["value_loss"] + metrics["policy_loss"]
    np.testing.assert_allclose(loss, parts, rtol=1e-5)
    policy = network.policy_head.distribution(outputs, window.observation.action_mask)
    advantage = (np.asarray(taken[0]) + np.asarray(taken[1])) / 2 - value
    weights = np.where(mask, np.exp(advantage), 0)
    weights *= mask.sum(axis=0) / np.maximum(weights.sum(axis=0), 1e-9)
    told = -(weights * np.asarray(policy.log_prob(window.actions)))[np.asarray(mask)].mean()
    np.testing.assert_allclose(metrics["policy_loss"], told, rtol=1e-4)


def test_an_expectile_is_between_0_and_1() -> None:
    with pytest.raises(OryxError, match="expectile must be between 0 and 1, got 1"):
        replace(CONFIG, expectile=1.0)


def test_q_learning_needs_discrete_actions() -> None:
    with pytest.raises(OryxError, match="continuous"):
        oryx.make(replace(CONFIG, objective="q_learning"), SPEC)


def test_samples_are_counted_from_one() -> None:
    with pytest.raises(OryxError, match="num_action_samples must be at least 1"):
        replace(CONFIG, num_action_samples=0)


@pytest.mark.parametrize("initial_state", ["carried", "burn_in"])
def test_updates_are_finite_and_learn(initial_state: Any) -> None:
    algorithm = oryx.make(
        replace(CONFIG, initial_state=initial_state, burn_in_length=2, learning_rate=3e-3), SPEC
    )
    window = steps()
    if initial_state == "burn_in":
        window = jax.tree.map(lambda x: jnp.concatenate([x[:, :2], x], axis=1), window)
    update, state = jax.jit(algorithm.update), algorithm.init(jax.random.key(0))
    losses = []
    for number in range(20):
        state, metrics = update(state, window, jax.random.key(number))
        assert all(np.isfinite(value) for value in metrics.values())
        losses.append(float(metrics["policy_loss"]))
    assert losses[-1] < losses[0]


OPPOSITE = Spec("", ("left", "right"), (1, 1), ActionSpace("box", 1, (-1.0,), (1.0,)))


def opposites(episodes: int = 2_000) -> Dataset:
    """Two steps each: +0.7 and -0.7, or the reverse (two conventions, mixed), and in a third of the
    episodes anything at all; the reward is 1 less the distance from opposite values, but only of
    values far from 0."""
    rng = np.random.default_rng(0)
    sign = rng.choice([-1.0, 1.0], (episodes, 2, 1))
    actions = np.concatenate([0.7 * sign, -0.7 * sign], axis=-1)
    actions += rng.normal(0, 0.05, actions.shape)
    anything = rng.random(episodes) < 1 / 3
    actions[anything] = rng.uniform(-1, 1, (anything.sum(), 2, 2))
    rows = 2 * episodes
    flat = np.clip(actions, -1, 1).reshape(rows, 2).astype(np.float32)
    ends = np.tile([[False, False], [True, True]], (episodes, 1))
    return Dataset(
        spec=OPPOSITE,
        observations=np.ones((rows, 2, 1), np.float32),
        actions=flat[..., None],
        rewards=np.repeat(reward(flat)[:, None], 2, axis=1).astype(np.float32),
        terminals=ends,
        truncations=np.zeros((rows, 2), bool),
        episode_starts=np.arange(0, rows, 2),
    )


def reward(actions: np.ndarray) -> np.ndarray:
    """1 if they are opposite and far from 0."""
    return 1 - np.abs(actions.sum(axis=-1)) - (np.abs(actions) < 0.4).mean(axis=-1)


def learn_and_act(algorithm: Algorithm, updates: int) -> np.ndarray:
    """Sampled actions [512, 2] of the first step."""
    data = put_on_device(opposites(), value_discount=algorithm.value_discount)
    state = init_state(algorithm, [0])
    learners, _ = offline.run_updates(
        algorithm, updates, state.learners, make_keys([0]), data, jnp.asarray(0)
    )
    weights = jax.tree.map(lambda x: x[0], algorithm.weights(learners))
    policy = algorithm.policy(weights)
    first = jax.tree.map(
        lambda x: x[:, 0], sample_windows(data, jax.random.key(0), 512, 2).observation
    )
    first = first._replace(reset=jnp.ones(512, bool))
    noise = policy.draw_noise(jax.random.key(1), 512)
    _, actions, _ = policy.act(policy.init(512), first, noise)
    return np.asarray(actions[..., 0])


@pytest.mark.slow
def test_opposite_values_of_two_conventions() -> None:
    """The second agent answers the first with the opposite value; independent agents, who only know
    that both signs are common, differ in half of the games.

    Games count in which the first agent's value is far from 0. Its Normal has one peak, so a third
    of its draws lie between the two conventions, where the logs are random.
    """
    shared = {"sequence_length": 2, "standardise": False, "learning_rate": 2e-3}
    together = learn_and_act(oryx.make(replace(CONFIG, batch_size=64, **shared), OPPOSITE), 2_000)
    alone = learn_and_act(bc.make(bc.Config(**shared), OPPOSITE), 2_000)
    differs = [
        np.mean((actions.prod(axis=1) < 0)[np.abs(actions[:, 0]) > 0.4])
        for actions in (together, alone)
    ]
    assert differs[0] > 0.85
    assert 0.4 < differs[1] < 0.6
    assert reward(together).mean() > reward(alone).mean() + 0.3
