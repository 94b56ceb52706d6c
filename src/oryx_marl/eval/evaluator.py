"""Scores of all seeds' weights in an environment."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from oryx_marl.algorithms.base import Algorithm
from oryx_marl.envs.base import Env
from oryx_marl.eval.rollout import Trace, rollout
from oryx_marl.train.seeds import over_seeds


class Evaluator:
    """Rolls out weights stacked over seeds; compiled once for each number of episodes and mode."""

    def __init__(self, algorithm: Algorithm, env: Env, seeds: list[int]) -> None:
        self._algorithm = algorithm
        self._env = env
        # Training folds the update's number into the seed's key, and that number is never -1.
        self._keys = jax.vmap(lambda seed: jax.random.fold_in(jax.random.key(seed), 2**32 - 1))(
            jnp.array(seeds)
        )
        self._returns = jax.jit(self._play, static_argnums=(2, 3))

    def returns(
        self, weights: Any, stream: int, episodes: int, greedy: bool = False
    ) -> Float[np.ndarray, "S episodes"]:
        """Returns of whole episodes; another `stream` number means fresh episodes."""
        return np.asarray(self._returns(weights, jnp.asarray(stream), episodes, greedy))

    def trace(self, weights: Any, stream: int, episodes: int) -> Trace:
        """Sampled episodes of the first seed, step by step."""
        first = jax.tree.map(lambda x: x[0], weights)
        key = jax.random.fold_in(self._keys[0], stream)
        policy = self._algorithm.policy(first)
        return jax.jit(lambda: rollout(self._env, policy, key, episodes)[1])()

    def _play(self, weights: Any, stream: jax.Array, episodes: int, greedy: bool) -> jax.Array:
        def one_seed(weights: Any, key: jax.Array) -> jax.Array:
            policy = self._algorithm.policy(weights, greedy=greedy)
            key = jax.random.fold_in(key, stream)
            return rollout(self._env, policy, key, episodes)[0].returns

        return over_seeds(one_seed)(weights, self._keys)
