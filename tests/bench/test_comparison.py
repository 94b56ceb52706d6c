"""Paired tests: who is compared with whom, on which episodes, and in which words."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from toy_envs import MeetEnv

from oryx_marl.algorithms import bc, oryx
from oryx_marl.algorithms.base import Algorithm
from oryx_marl.bench import suite as suites
from oryx_marl.bench.comparison import OTHER_EPISODES, make_comparison
from oryx_marl.errors import OryxError
from oryx_marl.eval.evaluator import Evaluator
from oryx_marl.networks.recurrent import RecurrentConfig
from oryx_marl.networks.sable import NetworkConfig
from oryx_marl.outcomes.scores import STREAMS

DATA = "con-5x5x3a/snapshots"


class PaidByTheBoard(MeetEnv):
    """Pays what was drawn at the start whatever is done, so that a return names its board."""

    def step(self, state: Any, actions: jax.Array, key: jax.Array) -> tuple[Any, Any]:
        after, step = super().step(state, actions, key)
        return after, step._replace(rewards=state.targets)


def returns(algorithm: Algorithm, seeds: list[int], greedy: bool = False) -> np.ndarray:
    keys = jax.vmap(jax.random.key)(jnp.arange(len(seeds)))
    weights = algorithm.weights(jax.vmap(algorithm.init)(keys))
    evaluator = Evaluator(algorithm, PaidByTheBoard(3), seeds)
    return evaluator.evaluate(weights, STREAMS["last"], 6, greedy)["return"]


@pytest.mark.slow
def test_algorithms_with_the_same_seed_play_the_same_boards() -> None:
    """Whatever their networks, weights and ways of acting are: so their scores make pairs."""
    spec = PaidByTheBoard(3).spec
    cloning = bc.make(bc.Config(network=RecurrentConfig(4, 4)), spec)
    autoregressive = oryx.make(oryx.Config(network=NetworkConfig(width=4)), spec)
    sampled = returns(cloning, [0, 1])
    np.testing.assert_array_equal(returns(autoregressive, [0, 1], greedy=True), sampled)
    assert len(np.unique(sampled)) == sampled.size  # every episode of every seed is another
    np.testing.assert_array_equal(returns(autoregressive, [1])[0], sampled[1])


def record(sampled: list[float], greedy: list[float], **more: Any) -> dict[str, Any]:
    scores = {"last": {"sampled": {"per_seed": sampled}, "greedy": {"per_seed": greedy}}}
    seeds = list(range(len(sampled)))
    return {"scores": scores, "seeds": seeds, "evaluation": {"episodes": 320}, **more}


RECORDS = {
    ("Oryx", DATA): record([0.5, 0.7, 0.9], [0.0, 0.0, 0.0]),
    ("I-ICQ", DATA): record([0.4, 0.59, 0.81], [9.0, 9.0, 9.0]),
    ("IQL-CQL", DATA): record([9.0, 9.0, 9.0], [0.3, 0.7, 0.8]),
    ("MAICQ", DATA): record([9.0, 9.0, 9.0], [9.0, 9.0, 9.0], diverged="seed 0"),
}
CONNECTOR = suites.load("connector")


def test_the_best_against_all_others_each_by_its_own_way_of_acting() -> None:
    """Seeds differ by 0.5 and pairs by 0.1 ± 0.01: t(0.975, 2) / sqrt(3) of it is 0.0248."""
    found = make_comparison(CONNECTOR, RECORDS)
    assert [row.labels[1:] for row in found.rows] == [
        ["Oryx", "I-ICQ", "+0.100 [+0.075, +0.125]", "3", "significant"],
        ["Oryx", "IQL-CQL", "+0.100 [-0.148, +0.348]", "3", "not significant"],
    ]
    welch = [row.cells[0].mean for row in found.rows if row.cells[0] is not None]
    pairs = [([0.5, 0.7, 0.9], other) for other in ([0.4, 0.59, 0.81], [0.3, 0.7, 0.8])]
    assert welch == pytest.approx([stats.ttest_ind(*p, equal_var=False).pvalue for p in pairs])


def test_algorithms_may_be_named() -> None:
    found = make_comparison(CONNECTOR, RECORDS, ("IQL-CQL", "Oryx"))
    assert [row.labels[1:4] for row in found.rows] == [
        ["IQL-CQL", "Oryx", "-0.100 [-0.348, +0.148]"]
    ]
    with pytest.raises(OryxError, match="suite 'connector' has no QMIX; it has the algorithms"):
        make_comparison(CONNECTOR, RECORDS, ("Oryx", "QMIX"))


@pytest.mark.parametrize(
    "other", [{"seeds": [5, 6, 7]}, {"evaluation": {"episodes": 160}}], ids=["seeds", "episodes"]
)
def test_other_episodes_make_no_pairs(other: dict[str, Any]) -> None:
    records = RECORDS | {("I-ICQ", DATA): {**RECORDS["I-ICQ", DATA], **other}}
    (row,) = make_comparison(CONNECTOR, records, ("Oryx", "I-ICQ")).rows
    assert row.labels[3:] == ["+0.100", "", OTHER_EPISODES]
    assert row.cells[0] is not None


def test_two_seeds_are_not_tested_unless_asked_for() -> None:
    records = {
        ("Oryx", DATA): record([0.5, 0.7], [0.0, 0.0]),
        ("BC", DATA): record([0.1, 0.2], [0.0, 0.0]),
    }
    assert make_comparison(CONNECTOR, records).rows == []
    assert len(make_comparison(CONNECTOR, records, ("Oryx", "BC")).rows) == 1
    alone = {("Oryx", DATA): RECORDS["Oryx", DATA]}
    assert make_comparison(replace(CONNECTOR, seeds=3), alone).rows == []
