"""Advantages against numbers worked out by hand."""

import jax
import jax.numpy as jnp
import numpy as np

from oryx_marl.ops.returns import generalised_advantages, linear_recurrence, td_masks

DISCOUNT, TRACE = 0.5, 0.5
gae = jax.jit(generalised_advantages)


def column(*values: float) -> jax.Array:
    """One environment, one agent, [1, T, 1]."""
    return jnp.array(values, jnp.float32)[None, :, None]


def advantages(
    rewards: jax.Array, values: jax.Array, terminal: jax.Array, reset: jax.Array
) -> np.ndarray:
    agent_mask = jnp.ones_like(terminal)
    rows, bootstrap_mask = td_masks(agent_mask, terminal, reset)
    found = gae(rewards, values, rows, bootstrap_mask, DISCOUNT, TRACE)
    return np.asarray(found)[0, :, 0]


def test_linear_recurrence() -> None:
    """y2 = 3; y1 = 2 + 0.5·3 = 3.5; y0 = 1 + 2·3.5 = 8."""
    found = linear_recurrence(column(1, 2, 3), column(2, 0.5, 9))
    np.testing.assert_allclose(found[0, :, 0], [8, 3.5, 3])


def test_nothing_ends() -> None:
    """V = 1, 2, 4 and r = 1, 0: δ1 = 0 + 2 - 2 = 0; δ0 = 1 + 1 - 1 = 1; A0 = 1 + 0.25·0."""
    off = jnp.zeros((1, 3, 1), bool)
    np.testing.assert_allclose(
        advantages(column(1, 0), column(1, 2, 4), off, off[:, :, 0]), [1.0, 0.0]
    )


def test_terminal_truncation_and_reset() -> None:
    """Steps: goes on, terminal | goes on, truncated | goes on (and then the roll-out ends).

    V = 1, 2 | 3, 5 | 7 and 11 after it; r = 1, 4 | 0, 6 | 1.
    terminal   A1 = 4 - 2 = 2: the value 3 of the new episode is not used
               A0 = 1 + 0.5·2 - 1 + 0.25·2 = 1.5
    truncated  A3 = 0: the next value is not known, whatever the reward was
               A2 = 0 + 0.5·5 - 3 + 0.25·0 = -0.5
    goes on    A4 = 1 + 0.5·11 - 7 = -0.5
    """
    terminal = jnp.array([0, 1, 0, 0, 0, 0], bool)[None, :, None]
    reset = jnp.array([1, 0, 1, 0, 1, 0], bool)[None]
    found = advantages(column(1, 4, 0, 6, 1), column(1, 2, 3, 5, 7, 11), terminal, reset)
    np.testing.assert_allclose(found, [1.5, 2.0, -0.5, 0.0, -0.5])


def test_the_rollout_ends_with_an_episode() -> None:
    """The step after the last begins an episode: its value 9 must not be used."""
    terminal = jnp.array([0, 1, 0], bool)[None, :, None]
    reset = jnp.array([0, 0, 1], bool)[None]
    found = advantages(column(0, 1), column(0, 0, 9), terminal, reset)
    np.testing.assert_allclose(found, [0.25, 1.0])


def test_an_absent_agent_cuts() -> None:
    """Agent gone at step 1 without an end: nothing is known of step 0, and step 1 is no row."""
    agent_mask = jnp.array([1, 0, 1], bool)[None, :, None]
    off = jnp.zeros((1, 3, 1), bool)
    rows, bootstrap_mask = td_masks(agent_mask, off, off[:, :, 0])
    assert not rows.any()
    found = generalised_advantages(
        column(1, 1), column(1, 2, 3), rows, bootstrap_mask, DISCOUNT, TRACE
    )
    np.testing.assert_array_equal(found[0, :, 0], [0, 0])


def test_equals_a_plain_loop() -> None:
    rng = np.random.default_rng(0)
    shape = (3, 50, 2)
    rewards, values = rng.normal(size=shape), rng.normal(size=(3, 51, 2))
    reset = rng.random((3, 51)) < 0.2
    terminal = np.zeros((3, 51, 2), bool)
    terminal[:, :-1] = reset[:, 1:, None] & (rng.random((3, 50, 1)) < 0.5)
    expected = np.zeros(shape)
    for b, n in np.ndindex(3, 2):
        bootstrap_observation = 0.0
        for t in reversed(range(50)):
            if terminal[b, t, n]:
                bootstrap_observation = rewards[b, t, n] - values[b, t, n]
            elif reset[b, t + 1]:
                bootstrap_observation = 0.0
            else:
                error = rewards[b, t, n] + 0.9 * values[b, t + 1, n] - values[b, t, n]
                bootstrap_observation = error + 0.9 * 0.8 * bootstrap_observation
            expected[b, t, n] = bootstrap_observation
    rows, bootstrap_mask = td_masks(
        jnp.ones((3, 51, 2), bool), jnp.asarray(terminal), jnp.asarray(reset)
    )
    found = gae(
        jnp.asarray(rewards, jnp.float32),
        jnp.asarray(values, jnp.float32),
        rows,
        bootstrap_mask,
        0.9,
        0.8,
    )
    np.testing.assert_allclose(found, expected, atol=1e-5)
