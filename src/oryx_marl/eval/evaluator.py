"""Scores of all seeds' weights in an environment."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from oryx_marl.algorithms.base import Algorithm
from oryx_marl.envs.base import Env
from oryx_marl.errors import OryxError
from oryx_marl.parallel.devices import fetch
from oryx_marl.parallel.seeds import over_seeds
from oryx_marl.rollout import episodes as rollout
from oryx_marl.rollout.episodes import Episodes, Trace


class Evaluator:
    """Rolls out weights stacked over seeds, each seed with random streams of its own."""

    def __init__(self, algorithm: Algorithm, env: Env, seeds: list[int]) -> None:
        self.algorithm = algorithm
        self.env = env
        # Training folds the update's number into the seed's key, and that number is never -1.
        self._keys = jax.vmap(lambda seed: jax.random.fold_in(jax.random.key(seed), 2**32 - 1))(
            jnp.array(seeds)
        )

    def returns(
        self, weights: Any, stream: int, episodes: int, greedy: bool = False
    ) -> Float[np.ndarray, "S episodes"]:
        """Returns of whole episodes; another `stream` number means fresh episodes."""
        if episodes < 1:
            raise OryxError(f"scores need at least 1 episode, not {episodes}")
        found = _play(
            self.algorithm, self.env, episodes, greedy, weights, self._keys, jnp.asarray(stream)
        )
        return fetch(found.returns)

    def trace(self, weights: Any, stream: int, episodes: int) -> Trace:
        """Sampled episodes of the first seed, step by step."""
        first = jax.tree.map(lambda x: jnp.asarray(x[0]), fetch(weights))
        key = jax.random.fold_in(self._keys[0], stream)
        policy = self.algorithm.policy(first)
        return jax.jit(lambda: rollout.trace(self.env, policy, key, episodes))()


@partial(jax.jit, static_argnames=("algorithm", "env", "episodes", "greedy"))
def _play(
    algorithm: Algorithm,
    env: Env,
    episodes: int,
    greedy: bool,
    weights: Any,
    keys: jax.Array,
    stream: jax.Array,
) -> Episodes:
    def one_seed(weights: Any, key: jax.Array) -> Episodes:
        policy = algorithm.policy(weights, greedy=greedy)
        return rollout.play(env, policy, jax.random.fold_in(key, stream), episodes)

    return over_seeds(one_seed)(weights, keys)
