"""What recurrent learners begin a window with, and that it is what acting begins it with."""

from dataclasses import replace
from functools import cache
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oryx_marl import config as configs
from oryx_marl.algorithms import bc, iicq, iql_cql, maicq, mat_icq, oryx
from oryx_marl.data import catalog
from oryx_marl.data.sampler import DeviceData, put_on_device, take_windows
from oryx_marl.data.subsample import whole_episodes
from oryx_marl.envs.tmaze import TMaze
from oryx_marl.errors import OryxError
from oryx_marl.networks.recurrent import RecurrentConfig
from oryx_marl.networks.sable import NetworkConfig
from oryx_marl.training.loop import _init_learners, make_keys
from oryx_marl.training.offline import run_updates
from oryx_marl.types import Window

SPEC = TMaze().spec
SABLE, GRU = NetworkConfig(width=16, num_heads=2), RecurrentConfig(8, 8)
LEARNERS = {oryx: SABLE, bc: GRU, iicq: GRU, iql_cql: GRU, maicq: GRU}
BATCH, LENGTH = 4, 6


@cache
def data() -> DeviceData:
    return put_on_device(whole_episodes(catalog.open("tmaze/planner-mixed"), 400, 0))


def make(module: ModuleType, **changes: Any) -> Any:
    given = {"batch_size": BATCH, "sequence_length": LENGTH, "standardise": False, **changes}
    return module.make(module.Config(network=LEARNERS.get(module, SABLE), **given), SPEC)


def windows(length: int) -> Window:
    """Steps in the middle of episodes and across their borders."""
    return take_windows(data(), jnp.array([3, 50, 101, 222]), length)


def cut(window: Window, steps: slice) -> Window:
    return jax.tree.map(lambda x: x[:, steps], window._replace(feature_statistics=None))


@pytest.mark.parametrize("module", LEARNERS)
def test_two_windows_with_a_carried_state_are_one_long_window(module: ModuleType) -> None:
    """In the pass of training: states after both are the same, and so are the outputs."""
    algorithm = make(module)
    state = jax.jit(algorithm.init)(jax.random.key(0))
    whole, key = windows(2 * LENGTH), jax.random.key(1)

    @jax.jit
    def after(window: Window, carry: Any) -> Any:
        return algorithm.sequence_loss(state.network, state.target, window, carry, key)[1][1]

    empty = algorithm.empty_carry(state.network, state.target, BATCH)
    halves = after(cut(whole, slice(LENGTH, None)), after(cut(whole, slice(LENGTH)), empty))
    for left, right in zip(*map(jax.tree.leaves, (halves, after(whole, empty))), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-4, atol=1e-5)
    assert any(np.abs(leaf).max() > 1e-3 for leaf in jax.tree.leaves(halves))


def test_oryx_sees_a_window_as_part_of_what_came_before() -> None:
    """Outputs of the second half with the state after the first: those of the whole."""
    algorithm, ids = make(oryx), jnp.arange(SPEC.num_agents)
    network = jax.jit(algorithm.init)(jax.random.key(0)).network
    whole = windows(2 * LENGTH)
    first, second = cut(whole, slice(LENGTH)), cut(whole, slice(LENGTH, None))
    empty = algorithm.empty_carry(network, network, BATCH)

    @jax.jit
    def look(network: Any) -> tuple[Any, Any, Any]:
        _, (_, carry) = algorithm.sequence_loss(network, network, first, empty, jax.random.key(1))
        found = network.resume(second.observation, second.actions, ids, carry.network)[:2]
        expected = network(whole.observation, whole.actions, ids)
        return found, expected, network(second.observation, second.actions, ids)

    found, expected, alone = look(network)
    for left, right, other in zip(found, expected, alone, strict=True):
        np.testing.assert_allclose(left, right[:, LENGTH:], rtol=1e-4, atol=1e-5)
        assert np.abs(left - other).max() > 1e-4


INITIAL_STATES = ("carried", "burn_in", "shuffled", "zeros")


@pytest.mark.parametrize(
    ("module", "initial_state"),
    [
        (bc, "carried"),
        (oryx, "carried"),
        *(
            pytest.param(module, each, marks=pytest.mark.slow)
            for module in (bc, oryx)
            for each in INITIAL_STATES[1:]
        ),
    ],
)
def test_every_beginning_learns_and_repeats(module: ModuleType, initial_state: str) -> None:
    """Five updates at once are two and three more, state for state."""
    algorithm = make(module, initial_state=initial_state, burn_in_length=3)
    extra = 3 if initial_state == "burn_in" else 0
    assert algorithm.sequence_length == LENGTH + extra
    assert algorithm.consecutive_windows == (initial_state == "carried")
    keys = make_keys([0, 1])

    def train(*sizes: int) -> tuple[Any, Any]:
        learners, done, metrics = _init_learners(algorithm, keys), 0, {}
        for size in sizes:
            first = jnp.asarray(done)
            learners, metrics = run_updates(algorithm, size, learners, keys, data(), first)
            done += size
        return learners, metrics

    (once, metrics), (twice, _) = train(5), train(2, 3)
    assert np.isfinite(metrics["loss"]).all()
    for left, right in zip(*map(jax.tree.leaves, (once, twice)), strict=True):
        np.testing.assert_array_equal(left, right)
    has_carry = initial_state in ("carried", "shuffled")
    assert bool(jax.tree.leaves(once.carry)) == has_carry


def test_states_differ_by_beginning() -> None:
    """The same batch is learned from in four ways."""
    found = []
    for initial_state in ("carried", "shuffled", "zeros"):
        algorithm = make(bc, initial_state=initial_state)
        state = jax.jit(algorithm.init)(jax.random.key(0))
        update = jax.jit(algorithm.update)
        state, _ = update(state, windows(LENGTH), jax.random.key(1))
        _, metrics = update(state, windows(LENGTH), jax.random.key(2))
        found.append(float(metrics["loss"]))
    assert len(set(found)) == 3


def test_nothing_is_carried_where_nothing_is_remembered() -> None:
    assert make(oryx, memory=False).initial_state == "zeros"
    transformer = mat_icq.make(mat_icq.Config(standardise=False), SPEC)
    assert transformer.initial_state == "zeros"
    assert not transformer.consecutive_windows


def test_settings_of_older_versions_mean_what_they_did() -> None:
    """Runs and policies of versions without a carried state began their windows empty."""
    stored = configs.to_dict(oryx.Config(network=replace(SABLE, num_heads=1)))
    for name in ("initial_state", "burn_in_length", "standardise", "scale_values"):
        del stored[name]
    del stored["permute_agents"], stored["network"]["shortest_memory"]
    old = configs.from_stored(oryx.Config, stored)
    assert (old.initial_state, old.standardise, old.scale_values) == ("zeros", False, False)
    assert (old.permute_agents, old.network.shortest_memory) == (True, 32)
    assert configs.from_stored(oryx.Config, configs.to_dict(oryx.Config())) == oryx.Config()


def test_a_burn_in_of_nothing_is_refused() -> None:
    with pytest.raises(OryxError, match="burn_in_length must be at least 1, got 0"):
        make(bc, burn_in_length=0)
