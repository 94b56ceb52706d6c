"""Online Sable: the loss by hand, acting against training, and the faults of public versions."""

from dataclasses import replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oryx_marl.algorithms import sable
from oryx_marl.algorithms.sable import Batch, Config, Decision, LearnerState, SablePPO
from oryx_marl.envs.tmaze import TMaze
from oryx_marl.errors import OryxError
from oryx_marl.networks.sable import NetworkConfig, RecurrentState
from oryx_marl.ops.distributions import categorical
from oryx_marl.training import online
from oryx_marl.types import Experience, Observation, Window

ENV = TMaze()
CONFIG = Config(
    network=NetworkConfig(width=8, num_heads=2),
    num_envs=6,
    rollout_length=30,
    epochs=3,
    minibatches=3,
    permute_agents=True,
)


def grow(learner: LearnerState) -> LearnerState:
    """Weights large enough that memory and other agents matter to what comes out."""
    keys = iter(jax.random.split(jax.random.key(9), 1000))
    network = jax.tree.map(
        lambda x: x + 0.2 * jax.random.normal(next(keys), x.shape), learner.network
    )
    return learner._replace(network=network)


@partial(jax.jit, static_argnums=0)
def roll(
    algorithm: SablePPO, learner: LearnerState, actors: online.Actors, key: jax.Array
) -> tuple[online.Actors, Experience]:
    policy = algorithm.policy(algorithm.weights(learner))
    return online.collect(ENV, policy, actors, key, algorithm.sequence_length)[:2]


@partial(jax.jit, static_argnums=0)
def update(
    config: Config, learner: LearnerState, experience: Experience
) -> tuple[LearnerState, dict[str, jax.Array]]:
    return jax.jit(sable.make(config, ENV.spec).update)(learner, experience, jax.random.key(4))


@pytest.fixture(scope="module")
def rolled() -> tuple[SablePPO, LearnerState, Experience]:
    """A learner and its second roll-out, which begins amid episodes, with memory."""
    algorithm = sable.make(CONFIG, ENV.spec)
    learner = grow(algorithm.init(jax.random.key(0)))
    stacked = jax.tree.map(lambda x: x[None], learner)
    actors = online.EnvSource(ENV).init(algorithm, stacked, jax.random.key(1)[None])
    actors, _ = roll(algorithm, learner, jax.tree.map(lambda x: x[0], actors), jax.random.key(2))
    _, experience = roll(algorithm, learner, actors, jax.random.key(3))
    return algorithm, learner, experience


def test_acting_equals_training(rolled: tuple[SablePPO, LearnerState, Experience]) -> None:
    """Log-probabilities and values of the recurrent form, across resets and roll-outs."""
    _, learner, experience = rolled
    window = experience.window
    assert window.observation.reset[:, 1:].any()
    assert not window.observation.reset[:, 0].all()
    over_envs = (0, 0, None, 0)
    ids = jnp.arange(2)
    forward = jax.jit(jax.vmap(learner.network, in_axes=over_envs))
    logits, values = forward(window.observation, window.actions, ids, experience.carry)
    taken = categorical(logits, window.observation.action_mask).log_prob(window.actions)
    np.testing.assert_allclose(taken, experience.info.log_probs, atol=1e-4)
    np.testing.assert_allclose(values, experience.info.values, atol=1e-4)
    # and what is remembered matters: without it other numbers come out
    forgotten = jax.tree.map(jnp.zeros_like, experience.carry)
    _, other = forward(window.observation, window.actions, ids, forgotten)
    assert np.abs(np.asarray(other) - np.asarray(values)).max() > 0.01


@pytest.mark.parametrize("permute", [False, True])
def test_memory_stays_with_its_environment(
    rolled: tuple[SablePPO, LearnerState, Experience], permute: bool
) -> None:
    """With a step size of next to nothing all ratios are 1, in every epoch and minibatch.

    Public versions permute the stored memory anew in each epoch, so that from the second on it
    belongs to other environments than the steps; then the ratios differ from 1.
    """
    _, learner, experience = rolled
    config = replace(CONFIG, learning_rate=1e-30, permute_agents=permute)
    _, metrics = update(config, learner, experience)
    assert metrics["ratio_drift"] < 1e-4
    mixed_up = jax.tree.map(lambda x: jnp.roll(x, 1, axis=0), experience.carry)
    if not permute:  # else both sides of the ratio see the same wrong memory
        _, metrics = update(config, learner, experience._replace(carry=mixed_up))
        assert metrics["ratio_drift"] > 1e-3


def test_ratios_of_another_order_are_not_one_as_published(
    rolled: tuple[SablePPO, LearnerState, Experience],
) -> None:
    _, learner, experience = rolled
    config = replace(CONFIG, learning_rate=1e-30, exact_ratios=False)
    _, metrics = update(config, learner, experience)
    assert metrics["ratio_drift"] > 1e-3


@pytest.mark.slow
def test_every_parameter_learns(rolled: tuple[SablePPO, LearnerState, Experience]) -> None:
    """No part is dead, the feed-forward included: one update moves every array of weights."""
    algorithm, _, experience = rolled
    learner = algorithm.init(jax.random.key(5))
    after, _ = update(CONFIG, learner, experience)
    before_leaves, _ = jax.tree_util.tree_flatten_with_path(learner.network)
    for (path, before), new in zip(before_leaves, jax.tree.leaves(after.network), strict=True):
        assert np.any(np.asarray(before) != np.asarray(new)), jax.tree_util.keystr(path)
    batch = sable.make_batch(experience, CONFIG)
    ids = jnp.arange(2)
    loss = jax.jit(jax.grad(lambda n: sable.loss(n, learner.network, batch, ids, CONFIG)[0]))
    gradients = loss(after.network)
    for path, gradient in jax.tree_util.tree_flatten_with_path(gradients)[0]:
        assert np.any(np.asarray(gradient) != 0), jax.tree_util.keystr(path)


def one_step_batch(**changes: Any) -> Batch:
    """Two environments, one step, two agents, two actions."""
    observation = Observation(
        features=jnp.zeros((2, 1, 2, 1)),
        action_mask=jnp.ones((2, 1, 2, 2), bool),
        agent_mask=jnp.ones((2, 1, 2), bool),
        reset=jnp.zeros((2, 1), bool),
        step_count=jnp.zeros((2, 1), jnp.int32),
    )
    shape = (2, 1, 2)
    window = Window(
        observation, jnp.zeros(shape, jnp.int32), jnp.zeros(shape), jnp.zeros(shape, bool)
    )
    zeros = jnp.zeros((2, 1, 1, 1, 1))
    batch = Batch(
        window=window,
        recurrent_state=RecurrentState(zeros, zeros, zeros, jnp.zeros(2, jnp.int32)),
        old=Decision(jnp.full(shape, jnp.log(0.5)), jnp.zeros(shape)),
        advantages=jnp.array([[[1.0, 1.0]], [[3.0, 3.0]]]),
        targets=jnp.ones(shape),
        mask=jnp.ones(shape, bool),
    )
    return batch._replace(**changes)


def say(probability: float, value: float) -> Any:
    """A network that gives action 0 this probability and every step this value."""

    def forward(
        observation: Observation,
        actions: jax.Array,
        ids: jax.Array,
        recurrent_state: RecurrentState,
    ) -> tuple[jax.Array, jax.Array]:
        logits = jnp.log(jnp.array([probability, 1 - probability]))
        return jnp.broadcast_to(logits, observation.action_mask.shape), jnp.full(
            actions.shape, value
        )

    return forward


def test_loss_by_hand() -> None:
    """π_old = 0.5 and π = 0.55: ρ = 1.1. Normalised advantages -1 and 1: the policy loss is 0.
    Value 0.1 from 0 towards 1: ½ 0.9² = 0.405. Entropy of 0.55: 0.688."""
    config = replace(CONFIG, permute_agents=False, entropy_weight=0.1, value_weight=0.5)
    total, metrics = sable.loss(
        say(0.55, 0.1), say(0.5, 0.0), one_step_batch(), jnp.arange(2), config
    )
    spread = -(0.55 * np.log(0.55) + 0.45 * np.log(0.45))
    np.testing.assert_allclose(metrics["policy_loss"], 0, atol=1e-6)
    np.testing.assert_allclose(metrics["value_loss"], 0.405, rtol=1e-5)
    np.testing.assert_allclose(metrics["entropy"], spread, rtol=1e-5)
    np.testing.assert_allclose(metrics["ratio_drift"], 0.1, rtol=1e-4)
    np.testing.assert_allclose(total, 0.5 * 0.405 - 0.1 * spread, rtol=1e-5)


def test_loss_by_hand_with_clipping_and_rows() -> None:
    """ρ = 0.8 / 0.5 = 1.6. The first environment (A = -1) pays 1.6, the second (A = 1) is clipped
    at 1.2: (1.6 - 1.2) / 2 = 0.2. With only agent 0 of the first: A = 0 of one row."""
    config = replace(CONFIG, permute_agents=False, entropy_weight=0.0, value_weight=0.0)
    batch = one_step_batch()
    total, metrics = sable.loss(say(0.8, 0.0), say(0.5, 0.0), batch, jnp.arange(2), config)
    np.testing.assert_allclose(total, 0.2, rtol=1e-4)
    np.testing.assert_allclose(metrics["clipped_share"], 1.0)
    alone = batch._replace(mask=jnp.zeros_like(batch.mask).at[0, 0, 0].set(True))
    total, _ = sable.loss(say(0.8, 0.0), say(0.5, 0.0), alone, jnp.arange(2), config)
    np.testing.assert_allclose(total, 0, atol=1e-6)


def test_exact_ratios_compare_with_the_same_order() -> None:
    """The stored log-probability is 0.5, but in this order the acting weights say 0.55 too."""
    config = replace(CONFIG, permute_agents=True, exact_ratios=True)
    _, metrics = sable.loss(say(0.55, 0.0), say(0.55, 0.0), one_step_batch(), jnp.arange(2), config)
    np.testing.assert_allclose(metrics["ratio_drift"], 0, atol=1e-6)


@pytest.mark.parametrize(("ends", "expected"), [(False, [0.0, 1.0]), (True, [1.0 - 0.5, 1.0])])
def test_truncation(ends: bool, expected: list[float]) -> None:
    """Truncated at step 0 with reward 1 and value ½: left out, or counted as an end of the task."""
    config = replace(CONFIG, time_limit_ends=ends, discount=0.5, gae_lambda=0.5)
    shape = (1, 2, 1)
    observation = Observation(
        features=jnp.zeros((1, 2, 1, 1)),
        action_mask=jnp.ones((1, 2, 1, 2), bool),
        agent_mask=jnp.ones(shape, bool),
        reset=jnp.array([[False, True]]),
        step_count=jnp.zeros((1, 2), jnp.int32),
    )
    experience = Experience(
        window=Window(
            observation,
            jnp.zeros(shape, jnp.int32),
            jnp.ones(shape),
            jnp.array([[[False], [True]]]),
        ),
        truncated=jnp.array([[[True], [False]]]),
        info=Decision(jnp.zeros(shape), jnp.array([[[0.5], [0.0]]])),
        carry=(),
        bootstrap_observation=jax.tree.map(lambda x: x[:, 1], observation),
        bootstrap_info=Decision(jnp.zeros((1, 1)), jnp.full((1, 1), 7.0)),
    )
    batch = sable.make_batch(experience, config)
    np.testing.assert_allclose(batch.advantages[0, :, 0], expected)
    np.testing.assert_array_equal(batch.mask[0, :, 0], [ends, True])
    np.testing.assert_allclose(batch.targets[0, 1, 0], 1.0)


def test_minibatches_must_divide() -> None:
    with pytest.raises(OryxError, match="multiple of minibatches"):
        Config(num_envs=10, minibatches=4)


@pytest.mark.parametrize(
    "wrong", [{"epochs": 0}, {"clip": 0.0}, {"discount": 1.5}, {"entropy_weight": -1.0}]
)
def test_senseless_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(OryxError, match=next(iter(wrong))):
        Config(**wrong)


def test_weights_are_arrays_only() -> None:
    learner = sable.make(CONFIG, ENV.spec).init(jax.random.key(0))
    assert all(eqx.is_array(leaf) for leaf in jax.tree.leaves(learner))
