"""MADT: what its transformer sees, the return it asks for, and acting with a bounded memory."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oryx_marl.algorithms import madt
from oryx_marl.errors import OryxError
from oryx_marl.networks.gpt import GPT, GPTConfig, Trajectory
from oryx_marl.ops.distributions import masked_log_softmax
from oryx_marl.types import ActionSpace, Observation, Spec, Window

SPEC = Spec("", ("a", "b"), (3, 3), ActionSpace("discrete", 4), episode_limit=9)
T, CONTEXT = 6, 6
SMALL = madt.Config(network=GPTConfig(width=8), sequence_length=CONTEXT, standardise=False)


@jax.jit
def forward(network: GPT, trajectory: Trajectory) -> jax.Array:
    return network(trajectory)


def make(**network: Any) -> tuple[madt.MADT, Any]:
    """The learner, and weights at random, so that every path carries something."""
    algorithm = madt.make(replace(SMALL, network=replace(SMALL.network, **network)), SPEC)
    weights = algorithm.init(jax.random.key(0)).network
    leaves, structure = jax.tree.flatten(weights)
    keys = jax.random.split(jax.random.key(1), len(leaves))
    drawn = [jax.random.normal(k, x.shape) / 2 for k, x in zip(keys, leaves, strict=True)]
    return algorithm, jax.tree.unflatten(structure, drawn)


def make_window(length: int = T, resets: tuple[int, ...] = (0,)) -> Window:
    """One window; the first agent is rewarded with 1 in every step, the second with ½."""
    rng = np.random.default_rng(2)
    reset = np.isin(np.arange(length), resets)
    observation = Observation(
        features=jnp.asarray(rng.normal(size=(1, length, 2, 3)), jnp.float32),
        action_mask=jnp.ones((1, length, 2, 4), bool),
        agent_mask=jnp.ones((1, length, 2), bool),
        reset=jnp.asarray(reset)[None],
        step_count=jnp.arange(length)[None],
    )
    rewards = jnp.broadcast_to(jnp.array([1.0, 0.5]), (1, length, 2))
    return Window(
        observation,
        jnp.asarray(rng.integers(0, 4, (1, length, 2)), jnp.int32),
        rewards,
        jnp.zeros((1, length, 2), bool),
        returns_to_go=jnp.asarray(rng.normal(size=(1, length, 2)), jnp.float32),
    )


def make_trajectory(window: Window, at: slice = slice(None)) -> Trajectory:
    o = window.observation
    found = (o.features, o.agent_mask, o.reset, o.step_count, window.returns_to_go, window.actions)
    return Trajectory(*(x[0, at] for x in found))


def log_probs(algorithm: madt.MADT, weights: madt.Weights, window: Window) -> jax.Array:
    return jax.jit(lambda *given: algorithm.distribution(*given)[0].log_probs)(weights, window)


@pytest.mark.parametrize("tokens", ["observation", "return_observation_action"])
def test_nothing_of_the_future_is_seen(tokens: str) -> None:
    """The action of a step shows from the next step on, everything else at once."""
    _, network = make(tokens=tokens)
    trajectory, at = make_trajectory(make_window()), 3
    before = forward(network, trajectory)
    changes = {
        "features": trajectory.features.at[at:].add(1),
        "returns_to_go": trajectory.returns_to_go.at[at:].add(1),
        "step_count": trajectory.step_count.at[at:].add(1),
        "actions": (trajectory.actions.at[at:].add(1)) % 4,
    }
    for name, value in changes.items():
        after = forward(network, trajectory._replace(**{name: value}))
        changed = np.abs(np.asarray(after - before)).max(axis=(1, 2)) > 1e-6
        first = at + 1 if name == "actions" else at
        used = tokens != "observation" or name in ("features", "step_count")
        assert not changed[:first].any(), name
        assert changed[first:].all() == used, name


def test_episodes_of_one_window_do_not_see_each_other() -> None:
    _, network = make()
    both = make_trajectory(make_window(resets=(0, 3)))
    alone = jax.tree.map(lambda x: x[3:], both)
    np.testing.assert_allclose(forward(network, both)[3:], forward(network, alone), atol=1e-5)


def test_steps_where_an_agent_was_absent_are_not_seen_by_it_later() -> None:
    """But by the other agent, who is shown everyone's features."""
    _, network = make()
    trajectory = make_trajectory(make_window())
    absent = trajectory._replace(agent_mask=trajectory.agent_mask.at[2, 0].set(False))
    changed = absent._replace(returns_to_go=absent.returns_to_go.at[2, 0].add(1))
    np.testing.assert_allclose(
        forward(network, changed)[3:], forward(network, absent)[3:], atol=1e-6
    )
    agent_mask = trajectory._replace(returns_to_go=trajectory.returns_to_go.at[2, 0].add(1))
    assert (
        np.abs(forward(network, agent_mask)[3:, 0] - forward(network, trajectory)[3:, 0]).max()
        > 1e-4
    )


@pytest.mark.parametrize("centralised", [True, False])
def test_centralised_is_seeing_what_others_see(centralised: bool) -> None:
    _, network = make(centralised=centralised)
    trajectory = make_trajectory(make_window())
    other = trajectory._replace(features=trajectory.features.at[:, 1].add(1))
    change = np.abs(forward(network, other)[:, 0] - forward(network, trajectory)[:, 0]).max()
    assert (change > 1e-4) == centralised


def test_acting_is_the_pass_of_training_with_the_asked_return() -> None:
    """Within the context; the return to go is what was asked for less the rewards since."""
    algorithm, network = make()
    window = make_window()
    steps = jnp.arange(T, dtype=jnp.float32)[None, :, None]
    asked = window._replace(returns_to_go=7 - steps * jnp.array([1.0, 0.5]))
    expected = masked_log_softmax(
        forward(network, make_trajectory(asked)), window.observation.action_mask[0]
    )
    found = log_probs(algorithm, madt.Weights(network, jnp.asarray(7.0)), window)
    np.testing.assert_allclose(found[0], expected, atol=1e-5)


def test_acting_beyond_the_context_sees_the_last_steps_alone() -> None:
    algorithm, network = make()
    window = make_window(length=CONTEXT + 3)
    steps = jnp.arange(CONTEXT + 3, dtype=jnp.float32)[None, :, None]
    asked = window._replace(returns_to_go=7 - steps * jnp.array([1.0, 0.5]))
    last = make_trajectory(asked, slice(3, None))
    expected = masked_log_softmax(forward(network, last)[-1], window.observation.action_mask[0, -1])
    found = log_probs(algorithm, madt.Weights(network, jnp.asarray(7.0)), window)
    np.testing.assert_allclose(found[0, -1], expected, atol=1e-5)


def test_the_highest_return_met_at_a_start_is_asked_for() -> None:
    """The mean over agents; higher numbers in the middle of an episode do not count."""
    algorithm, _ = make()
    state = algorithm.init(jax.random.key(0))
    assert algorithm.weights(state).asked == -jnp.inf
    window = make_window(resets=(2,))
    returns = jnp.zeros((1, T, 2)).at[0, 2].set(jnp.array([1.0, 4.0])).at[0, 3].set(9.0)
    update = jax.jit(algorithm.update)
    for given, expected in ((returns, 2.5), (returns - 1, 2.5), (returns + 1, 3.5)):
        state, _ = update(state, window._replace(returns_to_go=given), jax.random.key(1))
        assert float(algorithm.weights(state).asked) == expected


def test_a_new_episode_asks_anew() -> None:
    algorithm, network = make()
    policy = algorithm.policy(madt.Weights(network, jnp.asarray(7.0)))
    carry, step = policy.init(1), jax.jit(policy.step)
    remaining = []
    for reset in (True, False, False, True, False):
        observation = Observation(
            jnp.ones((1, 2, 3)),
            jnp.ones((1, 2, 4), bool),
            jnp.ones((1, 2), bool),
            jnp.array([reset]),
            jnp.zeros(1, jnp.int32),
            last_rewards=jnp.array([[1.0, 0.5]]),
        )
        carry, _, _ = step(carry, observation, jax.random.key(0))
        remaining.append(carry.remaining[0].tolist())
    assert remaining == [[7, 7], [6, 6.5], [5, 6], [7, 7], [6, 6.5]]


def test_matrices_decay_and_nothing_else_does() -> None:
    """With gradients of zero only weight decay moves weights."""
    algorithm, network = make()
    zeros = jax.tree.map(jnp.zeros_like, network)
    updates, _ = algorithm.optimiser.update(zeros, algorithm.optimiser.init(network), network)
    moved = {
        jax.tree_util.keystr(path): bool((np.asarray(x) != 0).any())
        for path, x in jax.tree_util.tree_leaves_with_path(updates)
    }
    assert {name for name, is_moved in moved.items() if is_moved} == {
        name for name in moved if name.endswith(".weight")
    }


def test_windows_without_returns_are_refused_where_they_are_needed() -> None:
    algorithm, network = make()
    window = make_window()._replace(returns_to_go=None)
    with pytest.raises(OryxError, match="returns to go"):
        algorithm.loss(network, jnp.zeros(()), window, jax.random.key(0))
    algorithm, network = make(tokens="observation")
    assert np.isfinite(algorithm.loss(network, jnp.zeros(()), window, jax.random.key(0))[0])
