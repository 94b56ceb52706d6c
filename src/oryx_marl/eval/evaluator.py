"""Scores of all seeds' weights in an environment."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Shaped

from oryx_marl.algorithms.base import Algorithm
from oryx_marl.envs.base import Env, HostEnv, is_host, require_jax
from oryx_marl.errors import OryxError
from oryx_marl.parallel.devices import fetch
from oryx_marl.parallel.seeds import over_seeds
from oryx_marl.rollout import episodes as rollout
from oryx_marl.rollout import host
from oryx_marl.rollout.episodes import Episodes, Trajectories

Scores = dict[str, Shaped[np.ndarray, "S episodes"]]
"""Of every episode of every seed: 'return', 'length' and what the environment reports, by name."""


class Evaluator:
    """Rolls out weights stacked over seeds, each seed with random streams of its own.

    Seeds play side by side in a JAX environment, and one after another in a HostEnv.
    """

    def __init__(self, algorithm: Algorithm, env: Env | HostEnv, seeds: list[int]) -> None:
        self.algorithm = algorithm
        self.env = env
        # Training folds the update's number into the seed's key, and that number is never -1.
        self._keys = jax.vmap(lambda seed: jax.random.fold_in(jax.random.key(seed), 2**32 - 1))(
            jnp.array(seeds)
        )

    def evaluate(self, weights: Any, stream: int, episodes: int, greedy: bool = False) -> Scores:
        """Scores of whole episodes; another `stream` number means fresh episodes."""
        if episodes < 1:
            raise OryxError(f"scores need at least 1 episode, not {episodes}")
        if is_host(self.env):
            return self._evaluate_on_host(weights, stream, episodes, greedy)
        env = require_jax(self.env, "compiled evaluation")
        found = _play(
            self.algorithm, env, episodes, greedy, weights, self._keys, jnp.asarray(stream)
        )
        return by_name(fetch(found))

    def _evaluate_on_host(self, weights: Any, stream: int, episodes: int, greedy: bool) -> Scores:
        assert is_host(self.env)
        weights, found = fetch(weights), []
        for index, seed_key in enumerate(self._keys):
            own = jax.tree.map(lambda x, i=index: jnp.asarray(x[i]), weights)
            policy = host.compile_policy(self.algorithm, own, greedy)
            key = jax.random.fold_in(seed_key, stream)
            found.append(by_name(host.play(self.env, policy, key, episodes)))
        # An environment outside JAX may report a metric in some episodes and not in others.
        names = dict.fromkeys(name for scores in found for name in scores)
        unknown = np.full(episodes, np.nan, np.float32)
        return {name: np.stack([scores.get(name, unknown) for scores in found]) for name in names}

    def record_trajectories(self, weights: Any, stream: int, episodes: int) -> Trajectories:
        """Sampled episodes of the first seed, step by step."""
        env = require_jax(self.env, "a replay")
        first = jax.tree.map(lambda x: jnp.asarray(x[0]), fetch(weights))
        key = jax.random.fold_in(self._keys[0], stream)
        policy = self.algorithm.policy(first)
        return jax.jit(lambda: rollout.record_trajectories(env, policy, key, episodes))()


def by_name(episodes: Any) -> dict[str, np.ndarray]:
    """Episodes as named scores."""
    return {"return": episodes.returns, "length": episodes.lengths, **episodes.metrics}


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
