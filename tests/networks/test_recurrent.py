"""The recurrent network: a GRU per agent, the same step by step as over sequences."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oryx_marl.errors import OryxError
from oryx_marl.networks.recurrent import RecurrentConfig, RecurrentNetwork, run_together
from oryx_marl.types import ActionSpace, Observation, Spec

SPEC = Spec("", ("a", "b"), (4, 4), ActionSpace("discrete", 3))
BATCH, STEPS = 2, 7


def network(seed: int = 0) -> RecurrentNetwork:
    return RecurrentNetwork(jax.random.key(seed), SPEC, RecurrentConfig(8, 6), 3)


def observation(**changes: Any) -> Observation:
    shape = (BATCH, STEPS, 2)
    given = {
        "features": jax.random.normal(jax.random.key(1), (*shape, 4)),
        "action_mask": jnp.ones((*shape, 3), bool),
        "agent_mask": jnp.ones(shape, bool),
        "reset": jnp.zeros(shape[:2], bool).at[:, 0].set(True).at[1, 4].set(True),
        "step_count": jnp.zeros(shape[:2], jnp.int32),
    }
    return Observation(**{**given, **changes})


run = eqx.filter_jit(RecurrentNetwork.__call__)
step_once = eqx.filter_jit(RecurrentNetwork.step)


def test_it_is_the_gru_of_equinox() -> None:
    net, seen = network(), observation()
    ids = jnp.broadcast_to(jnp.eye(2), (BATCH, STEPS, 2, 2))
    inputs = jax.nn.relu(net.encoder(jnp.concatenate([ids, seen.features], axis=-1)))
    hidden, found, cell = jnp.zeros(6), run(net, seen), eqx.filter_jit(net.cell)
    for step in range(STEPS):
        hidden = cell(inputs[1, step, 0], jnp.where(seen.reset[1, step], 0, hidden))
        expected = net.out(jax.nn.relu(hidden))
        np.testing.assert_allclose(found[1, step, 0], expected, rtol=1e-4, atol=1e-6)


def test_steps_equal_sequences() -> None:
    net, seen = network(), observation()
    expected, hidden = run(net, seen), net.init_state()
    for step in range(STEPS):
        one = jax.tree.map(lambda x: x[1, step], seen)  # noqa: B023
        hidden, outputs = step_once(net, hidden, one)
        np.testing.assert_allclose(outputs, expected[1, step], rtol=1e-4, atol=1e-6)


def test_agents_see_themselves_alone() -> None:
    seen = observation()
    other = observation(features=seen.features.at[:, :, 1].add(1))
    np.testing.assert_array_equal(run(network(), seen)[:, :, 0], run(network(), other)[:, :, 0])


def test_several_networks_run_as_one() -> None:
    nets, seen = [network(0), network(1)], observation()
    start = jnp.stack(
        [jnp.full((BATCH, *net.init_state().shape), 0.1 * i) for i, net in enumerate(nets)]
    )
    together, after = run_together(nets, seen, start)
    for index, net in enumerate(nets):
        alone, alone_after = net.resume(seen, start[index])
        np.testing.assert_allclose(together[index], alone, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(after[index], alone_after, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(together[0], run(nets[0], seen), rtol=1e-4, atol=1e-6)


def test_halves_of_a_sequence_are_the_sequence() -> None:
    net, seen = network(), observation()
    hidden = jnp.broadcast_to(net.init_state(), (BATCH, *net.init_state().shape))
    found = []
    for half in (slice(0, 3), slice(3, None)):
        outputs, hidden = net.resume(jax.tree.map(lambda x: x[:, half], seen), hidden)  # noqa: B023
        found.append(outputs)
    np.testing.assert_allclose(jnp.concatenate(found, axis=1), run(net, seen), rtol=1e-4, atol=1e-6)


def test_sizes_that_cannot_be() -> None:
    with pytest.raises(OryxError, match="recurrent_width must not be negative, got -1"):
        RecurrentConfig(recurrent_width=-1)
