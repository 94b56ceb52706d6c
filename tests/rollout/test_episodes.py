"""Whole episodes only, every step accounted for."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oryx_marl.algorithms.base import Policy
from oryx_marl.envs.base import Env
from oryx_marl.errors import OryxError
from oryx_marl.rollout import episodes as rollout
from oryx_marl.types import ActionSpace, Observation, Spec, Step


class State(NamedTuple):
    length: jax.Array
    step_count: jax.Array


class Countdown(Env):
    """Episodes of 1 to 6 steps, drawn at reset; reward 1 for agent 0 and 3 for agent 1 a step."""

    spec = Spec("countdown", ("a", "b"), (1, 1), ActionSpace("discrete", 2), episode_limit=6)
    action_names = ("no", "yes")
    return_name = "return"

    def reset(self, key: jax.Array) -> tuple[State, Step]:
        state = State(jax.random.randint(key, (), 1, 7), jnp.int32(0))
        return state, self._step(state, jnp.zeros(2))

    def step(self, state: State, actions: jax.Array, key: jax.Array) -> tuple[State, Step]:
        state = State(state.length, state.step_count + 1)
        return state, self._step(state, jnp.array([1.0, 3.0]))

    def _step(self, state: State, rewards: jax.Array) -> Step:
        ended = jnp.full(2, state.step_count >= state.length)
        observation = Observation(
            jnp.zeros((2, 1)),
            jnp.ones((2, 2), bool),
            jnp.ones(2, bool),
            state.step_count == 0,
            state.step_count,
        )
        metrics = {"steps so far": state.step_count, "is even": state.step_count % 2 == 0}
        return Step(observation, rewards, ended & (state.length % 2 == 0), ended, None, metrics)

    def render_text(self, state: Any) -> str:
        return str(state)

    def render_rgb(self, state: Any) -> np.ndarray:
        return np.zeros((1, 1, 3), np.uint8)


def no_noise(key: jax.Array, batch: int) -> jax.Array:
    return jnp.zeros((batch, 2, 2))


def counting_policy() -> Policy:
    """Its memory counts steps since the reset; agents act on it."""

    def act(carry: jax.Array, observation: Observation, noise: jax.Array):
        carry = jnp.where(observation.reset, 0, carry) + 1
        return carry, jnp.stack([carry % 2, carry % 2], axis=1), None

    return Policy(lambda batch: jnp.full(batch, 99), act, no_noise)


def test_every_environment_gives_one_whole_episode() -> None:
    env = Countdown()
    key = jax.random.key(0)
    episodes = jax.jit(lambda: rollout.play(env, counting_policy(), key, 500))()
    found = rollout.record_trajectories(env, counting_policy(), key, 500)
    lengths = np.asarray(episodes.lengths)
    np.testing.assert_array_equal(lengths, found.states.length[0])
    np.testing.assert_allclose(episodes.returns, 2.0 * lengths)
    # Uniform lengths stay uniform: short episodes are not favoured.
    counts = np.bincount(lengths, minlength=7)[1:]
    assert ((counts - 500 / 6) ** 2 / (500 / 6)).sum() < 20.5  # 5 degrees of freedom, p = 0.001
    np.testing.assert_array_equal(np.asarray(found.live).sum(axis=0), lengths)
    np.testing.assert_array_equal(found.last.step_count, lengths)
    # Memory began with the episode: the first action is 1, then they alternate.
    np.testing.assert_array_equal(found.actions[:3, 0, 0], [1, 0, 1])


def test_no_limit_is_refused() -> None:
    env = Countdown()
    env.spec = Spec("countdown", ("a",), (1,), ActionSpace("discrete", 2), episode_limit=None)
    with pytest.raises(OryxError, match="no episode limit"):
        rollout.play(env, counting_policy(), jax.random.key(0), 1)


def test_policies_are_shown_the_rewards_of_the_step_before() -> None:
    """None in the first step of an episode, 1 and 3 in all others."""

    def act(carry: jax.Array, observation: Observation, noise: jax.Array):
        assert observation.last_rewards is not None
        return carry, observation.last_rewards.astype(jnp.int32), None

    policy = Policy(lambda batch: jnp.zeros(batch), act, no_noise)
    found = rollout.record_trajectories(Countdown(), policy, jax.random.key(0), 3)
    np.testing.assert_array_equal(found.actions[0], np.zeros((3, 2)))
    np.testing.assert_array_equal(found.actions[1], [[1, 3]] * 3)


def test_metrics_are_those_of_the_last_step() -> None:
    """An environment goes on being stepped after its end; what it says then does not count."""
    episodes = rollout.play(Countdown(), counting_policy(), jax.random.key(0), 50)
    lengths = np.asarray(episodes.lengths)
    assert len(set(lengths.tolist())) > 3
    np.testing.assert_array_equal(episodes.metrics["steps so far"], lengths)
    np.testing.assert_array_equal(episodes.metrics["is even"], lengths % 2 == 0)
    assert episodes.metrics["is even"].dtype == jnp.float32


def test_a_metric_cannot_be_called_return() -> None:
    class Boasting(Countdown):
        def _step(self, state: State, rewards: jax.Array) -> Step:
            return super()._step(state, rewards)._replace(metrics={"return": jnp.float32(1)})

    with pytest.raises(OryxError, match="reports a metric 'return'"):
        rollout.play(Boasting(), counting_policy(), jax.random.key(0), 1)
