"""Online Sable on actions in a box: its loss by hand, ratios, and a task with a known answer."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import toy_envs
import toy_parallel

from oryx_marl import experiment
from oryx_marl.algorithms import sable
from oryx_marl.algorithms.sable import Batch, Decision
from oryx_marl.envs.adapters.from_pettingzoo import ParallelEnvs
from oryx_marl.envs.base import Env, HostEnv
from oryx_marl.networks.heads import EXPLORING_LOG_STD, LOG_STD_RANGE, family
from oryx_marl.networks.sable import NetworkConfig
from oryx_marl.rollout.collect import begin, collect
from oryx_marl.training.online import OnlineSettings
from oryx_marl.types import ActionSpace, Observation, Window

BOX = ActionSpace("box", 1, (0.0,), (4.0,))
CONFIG = sable.Config(
    network=NetworkConfig(width=8, num_heads=2), num_envs=4, rollout_length=6, minibatches=2
)


def say(mean: float, log_std: float, value: float) -> Any:
    """A network that gives every step the same Normal and value."""
    least, most = LOG_STD_RANGE
    share = (log_std - least) / (most - least)

    def forward(observation: Observation, actions: Any, ids: Any, state: Any) -> Any:
        outputs = jnp.array([mean, np.log(share / (1 - share))])
        shape = actions.shape[:-1]
        return jnp.broadcast_to(outputs, (*shape, 2)), jnp.full(shape, value)

    return forward


def one_step(action: float, old_log_prob: float) -> Batch:
    """Two environments with an advantage of 1 and 3, one step of one agent each."""
    shape = (2, 1, 1)
    observation = Observation(
        jnp.zeros((*shape, 1)),
        jnp.ones((*shape, 1), bool),
        jnp.ones(shape, bool),
        jnp.zeros(shape[:2], bool),
        jnp.zeros(shape[:2], jnp.int32),
    )
    window = Window(
        observation, jnp.full((*shape, 1), action), jnp.zeros(shape), jnp.zeros(shape, bool)
    )
    nothing: Any = None
    return Batch(
        window,
        nothing,
        Decision(jnp.full(shape, old_log_prob), jnp.zeros(shape)),
        jnp.array([[[1.0]], [[3.0]]]),
        jnp.ones(shape),
        jnp.ones(shape, bool),
    )


def test_loss_by_hand() -> None:
    """The box is from 0 to 4, so a = 2 + 2 tanh(x). At a = 3: x = atanh(½) = 0.5493, da/dx = 2 (1 -
    ¼) = 1.5. With mean 0.2 and σ = e⁻¹ the density of x is that of a Normal, over 1.5.
    Normalised advantages are -1 and 1; a ratio of 1.5 is clipped to 1.2 for the second alone."""
    deviation = (np.arctanh(0.5) - 0.2) * np.e
    log_prob = -0.5 * deviation**2 + 1 - 0.5 * np.log(2 * np.pi) - np.log(1.5)
    config = replace(CONFIG, entropy_weight=0.1, value_weight=0.5)
    batch = one_step(3.0, log_prob - np.log(1.5))
    distribution = family(BOX).distribution
    network = say(0.2, -1.0, 0.1)
    total, metrics = sable.loss(network, network, batch, jnp.arange(1), config, distribution)
    np.testing.assert_allclose(metrics["policy_loss"], (1.5 - 1.2) / 2, rtol=1e-4)
    np.testing.assert_allclose(metrics["value_loss"], 0.405, rtol=1e-5)
    np.testing.assert_allclose(metrics["min_log_std"], -1, rtol=1e-5)
    np.testing.assert_allclose(metrics["max_logit"], 0.2, rtol=1e-5)
    x = 0.2 + np.exp(-1) * np.random.default_rng(0).normal(size=400_000)
    slope = np.log(2 * (1 - np.tanh(x) ** 2))
    entropy = 0.5 * np.log(2 * np.pi * np.e) - 1 + slope.mean()
    np.testing.assert_allclose(metrics["entropy"], entropy, atol=2e-3)
    expected = 0.15 + 0.5 * 0.405 - 0.1 * metrics["entropy"]
    np.testing.assert_allclose(total, expected, rtol=1e-4)


def test_ratios_at_a_bound_are_of_probability_masses() -> None:
    """Mass beyond x = atanh(0.999) = 3.8002: Φ(-(3.8002 - 3)) = 0.2118 at mean 3, 0.0359 at 2, both
    with σ = 1. As offline: an action that is clipped says no more than that it is beyond."""
    distribution = family(BOX).distribution
    config = replace(CONFIG, entropy_weight=0.0, value_weight=0.0, permute_agents=True)
    for action in (4.0, 3.9995):
        _, metrics = sable.loss(
            say(3.0, 0.0, 0.0),
            say(2.0, 0.0, 0.0),
            one_step(action, 0.0),
            jnp.arange(1),
            config,
            distribution,
        )
        np.testing.assert_allclose(metrics["ratio_drift"], 0.2118 / 0.0359 - 1, rtol=5e-3)


def test_a_learner_begins_wide_and_its_ratios_at_one() -> None:
    """A roll-out across the ends of episodes."""
    env = toy_envs.make()
    algorithm = sable.make(replace(CONFIG, learning_rate=1e-30, rollout_length=12), env.spec)

    @jax.jit
    def learn(key: jax.Array) -> tuple[Any, Any]:
        learner = algorithm.init(key)
        learner = learner._replace(
            network=jax.tree.map(lambda x: x + 0.1 * jnp.sin(100 * x), learner.network)
        )
        policy = algorithm.policy(algorithm.weights(learner))
        actors = begin(env, policy, key, 4)
        _, experience, _ = collect(env, policy, actors, key, 12)
        return experience, algorithm.update(learner, experience, key)[1]

    experience, metrics = learn(jax.random.key(0))
    assert experience.window.observation.reset[:, 1:].any()
    assert metrics["ratio_drift"] < 1e-4
    assert metrics["clipped_share"] == 0
    assert abs(metrics["min_log_std"] - EXPLORING_LOG_STD) < 1.0
    assert np.abs(experience.window.actions).max() > 0.5


@pytest.fixture(params=["in JAX", "outside JAX"])
def meet(request: pytest.FixtureRequest) -> Iterator[Env | HostEnv]:
    if request.param == "in JAX":
        yield toy_envs.make()
        return
    env = ParallelEnvs(toy_parallel.parallel_env, 64)
    yield env
    env.close()


@pytest.mark.slow
def test_sable_learns_to_reach_its_target(meet: Env | HostEnv, tmp_path: Path) -> None:
    """Straight to the target is a return of -0.46; standing still, or moving at random, -6."""
    config = sable.Config(
        network=NetworkConfig(width=32),
        num_envs=64,
        rollout_length=20,
        learning_rate=1e-3,
        epochs=2,
        entropy_weight=0.001,
    )
    settings = OnlineSettings(steps=60_000, evaluate_every=0, checkpoint_every=1000)
    per_update = config.num_envs * config.rollout_length
    work = experiment.Experiment(
        "sable",
        config,
        meet,
        tmp_path / "run",
        settings.in_updates(per_update),
        experiment.EvaluationSettings(replays=0),
        env=ParallelEnvs(toy_parallel.parallel_env, 32),
    )
    scores = experiment.run(work).summary.scores
    assert next(iter(scores)) == ("last", "greedy"), "boxes are scored by mode first"
    assert scores["last", "greedy"].mean > -0.65
    assert scores["last", "greedy"].metrics["near"].mean > 0.97
    assert scores["last", "greedy"].mean > scores["last", "sampled"].mean
