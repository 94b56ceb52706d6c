"""Several ways of acting in one pass."""

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import toy_envs

from oryx_marl.algorithms.base import Algorithm, Policy
from oryx_marl.envs.tmaze import TMaze
from oryx_marl.eval.evaluator import Evaluator
from oryx_marl.policy import artifact
from oryx_marl.recipes import _assets
from oryx_marl.types import Observation


@dataclass(frozen=True)
class Still(Algorithm):
    """Stays where it is, but for the noise; counts how often it is compiled."""

    config, batch_parts, needs_returns_to_go = None, None, False
    batch_size = sequence_length = 1
    traced: list[str] = field(default_factory=list, compare=False, hash=False)

    def policy(self, weights: jax.Array) -> Policy:
        def act(carry: Any, observation: Observation, noise: jax.Array) -> Any:
            self.traced.append("act")
            return carry, jnp.clip(weights + noise, -1, 1)[..., None], None

        return Policy(lambda batch: (), act, lambda key, batch: jax.random.normal(key, (batch, 2)))


def test_all_temperatures_are_one_program_whatever_they_are() -> None:
    algorithm = Still()
    evaluator = Evaluator(algorithm, toy_envs.make(), [0, 1])
    evaluator.evaluate_each(jnp.zeros(2), 0, 3, (1.0,))
    once = len(algorithm.traced)
    evaluator.evaluate_each(jnp.zeros(2), 0, 3, (0.25,))
    assert len(algorithm.traced) == once
    evaluator.evaluate_each(jnp.zeros(2), 0, 3, (1.0, 0.0, 0.5, 0.75))
    assert len(algorithm.traced) == 2 * once  # another number of them, whichever they are
    evaluator.evaluate_each(jnp.zeros(2), 0, 3, (0.1, 0.2, 0.3, 0.4))
    assert len(algorithm.traced) == 2 * once


def test_each_way_scores_as_it_does_alone() -> None:
    """A policy of the package in the middle of its training, as two seeds."""
    kept = artifact.load(*_assets.locate(["tmaze/middle.npz"]))
    weights = jax.tree.map(lambda x: jnp.stack([x[0], x[0]]), kept.weights)
    evaluator = Evaluator(kept.algorithm, TMaze(), [0, 1])
    temperatures = (1.0, 0.0, 0.75)
    together = evaluator.evaluate_each(weights, 5, 32, temperatures)
    alone = [evaluator.evaluate(weights, 5, 32, each) for each in temperatures]
    for one, other in zip(together, alone, strict=True):
        assert one["return"].shape == one["length"].shape == (2, 32)
        for name, values in one.items():
            np.testing.assert_array_equal(values, other[name])
    default = evaluator.evaluate(weights, 5, 32)
    np.testing.assert_array_equal(default["length"], together[0]["length"])
    lengths = [each["length"] for each in together]
    assert not np.array_equal(lengths[0], lengths[1])
    assert not np.array_equal(lengths[1], lengths[2])


def test_all_ways_play_the_same_episodes() -> None:
    """Who never moves scores what the start gives: at temperature 0 the same in every pass, beside
    whatever else is played."""
    evaluator = Evaluator(Still(), toy_envs.make(), [0, 1])
    first, noisy, again = evaluator.evaluate_each(jnp.zeros(2), 0, 20, (0.0, 1.0, 0.0))
    np.testing.assert_equal(first, again)
    assert len(np.unique(first["return"])) > 20  # starts differ
    # A little noise changes little, as the starts are the same.
    (near,) = evaluator.evaluate_each(jnp.zeros(2), 0, 20, (0.001,))
    np.testing.assert_allclose(near["return"], first["return"], atol=0.05)
    assert np.abs(noisy["return"] - first["return"]).max() > 0.1
