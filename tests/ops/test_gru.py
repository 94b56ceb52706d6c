"""The recurrent unit equals its definition, values and gradients."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from oryx_marl.ops.gru import gru, step

T, B, WIDTH = 7, 3, 5


def plain(
    added: jax.Array, reset: jax.Array, start: jax.Array, weight: jax.Array, bias: jax.Array
) -> jax.Array:
    """Step by step, left to automatic differentiation."""
    memory, memories = start, []
    for t in range(T):
        memory = step(added[t], jnp.where(reset[t][:, None], 0, memory), weight, bias)
        memories.append(memory)
    return jnp.stack(memories)


def test_one_step_is_the_cell_of_equinox() -> None:
    cell = eqx.nn.GRUCell(4, WIDTH, key=jax.random.key(0))
    x, memory = jax.random.normal(jax.random.key(1), (4,)), jnp.arange(WIDTH) / 10
    found = step(cell.weight_ih @ x + cell.bias, memory, cell.weight_hh.T, cell.bias_n)
    np.testing.assert_allclose(found, cell(x, memory), atol=1e-6)


def test_values_and_gradients_are_those_of_the_plain_form() -> None:
    keys = jax.random.split(jax.random.key(0), 4)
    added = jax.random.normal(keys[0], (T, B, 3 * WIDTH))
    weight = jax.random.normal(keys[1], (WIDTH, 3 * WIDTH))
    bias, towards = jax.random.normal(keys[2], (WIDTH,)), jax.random.normal(keys[3], (T, B, WIDTH))
    reset = jnp.zeros((T, B), bool).at[0, 2].set(True).at[3, 1].set(True).at[6, 2].set(True)
    start = jax.random.normal(jax.random.key(5), (B, WIDTH))

    def score(form, added, weight, bias):  # a different number for every entry of the output
        return jnp.sum(form(added, reset, start, weight, bias) * towards)

    np.testing.assert_allclose(
        gru(added, reset, start, weight, bias),
        plain(added, reset, start, weight, bias),
        atol=1e-6,
    )
    compare = jax.jit(jax.grad(score, argnums=(1, 2, 3)), static_argnums=0)
    for found, expected in zip(
        compare(gru, added, weight, bias), compare(plain, added, weight, bias), strict=True
    ):
        assert np.abs(expected).max() > 0.1
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
