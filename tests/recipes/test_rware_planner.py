"""The hand-written team of RWARE: its ways, its pairs, and what is recorded of it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oryx_marl import recipes
from oryx_marl.envs import base
from oryx_marl.envs._rware_scenarios import SIZES
from oryx_marl.errors import OryxError
from oryx_marl.recipes import _rware_planner as planner
from oryx_marl.types import Observation

UP, DOWN, WEST, EAST = range(4)
TINY = SIZES["tiny"]


def cell(x: int, y: int) -> int:
    return (y + 1) * 12 + x + 1


@pytest.mark.parametrize(
    ("start", "direction", "end", "empty", "loaded"),
    [
        ((4, 3), UP, (4, 3), 0, 0),
        ((4, 3), UP, (4, 1), 2, 2),
        ((4, 3), DOWN, (4, 1), 4, 4),  # two turns first
        ((4, 3), UP, (5, 3), 2, 2),
        # Under two shelves; or round the block by its nearer end: 3 up, 3 left, 3 down, 2 turns.
        ((3, 3), WEST, (0, 3), 3, 11 + 1),
        ((3, 3), WEST, (2, 3), 1, 1),  # into its place at the end of the way
        ((3, 3), WEST, (1, 3), 2, 4 + 3 + 3 + 3 + 1),  # only from the other side
    ],
)
def test_ways(start, direction, end, empty, loaded):
    ways = planner.measure_ways(TINY)
    for is_loaded, expected in ((0, empty), (1, loaded)):
        assert ways[is_loaded, cell(*start), direction, cell(*end)] == expected


def test_the_cheapest_pairs_come_first():
    cost = jnp.array([[5, 1, 9], [2, 1, 3], [planner.FAR] * 3, [4, 4, 4]])
    np.testing.assert_array_equal(planner.match(cost, jnp.int32(9)), [1, 0, -1, 2])
    np.testing.assert_array_equal(planner.match(cost, jnp.int32(1)), [1, -1, -1, -1])


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    recipes.make("rware-tiny-4ag-easy/planner", root, rows=2 * 500)
    return recipes.open("rware-tiny-4ag-easy/planner", root)


def test_the_team_delivers(log):
    assert log.num_episodes == 2
    assert (log.episode_lengths == 500).all()
    # Mean over four agents: at random it is less than 0.1.
    assert log.episode_returns.mean() > 9
    assert log.episode_returns.min() > 6


def test_what_is_recorded_is_the_warehouse_and_not_the_plan(log):
    env = base.make_named("rware-tiny-4ag-easy")
    assert log.spec == env.spec
    assert log.observations.shape == (1_000, 4, 71)
    assert log.observations.dtype == np.int8
    assert log.final_observations.shape == (2, 4, 71)
    assert log.state.shape == (1_000, 28)
    np.testing.assert_array_equal(log.observations[:, 0, :2], log.state[:, :2])
    ends = np.arange(1_000) % 500 == 499
    assert (log.truncations == ends[:, None]).all()
    assert not log.terminals.any()


def test_noise_replaces_plans_but_puts_nothing_down():
    features = jnp.full((500, 4, 72), 4, jnp.int8)  # everybody is to toggle
    rest = jnp.ones((500, 4, 5), bool), jnp.ones((500, 4), bool), jnp.zeros(500, bool)
    seen = Observation(features, *rest, jnp.zeros(500, jnp.int32))
    _, actions, _ = planner.make_policy(4, 1.0).step((), seen, jax.random.key(1))
    np.testing.assert_allclose(np.bincount(actions.ravel()) / 2_000, 0.25, atol=0.04)
    _, actions, _ = planner.make_policy(4, 0.1).step((), seen, jax.random.key(1))
    np.testing.assert_allclose((np.asarray(actions) == 4).mean(), 0.9, atol=0.02)


@pytest.mark.parametrize("variant", ["expert", "snapshots"])
def test_what_needs_a_training_says_so(variant, tmp_path):
    name = f"rware-tiny-2ag-easy/{variant}"
    assert not recipes.is_made_quickly(name, tmp_path)
    with pytest.raises(OryxError, match="make rware-tiny-2ag-easy/replay first"):
        recipes.make(name, tmp_path)
    assert recipes.usual_rows("rware-tiny-2ag-easy/replay") == 500_000
