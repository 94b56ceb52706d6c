"""Scores of all seeds' weights in an environment."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Shaped

from oryx_marl.algorithms.base import Acting
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

    def __init__(self, algorithm: Acting, env: Env | HostEnv, seeds: list[int]) -> None:
        self.algorithm = algorithm
        self.env = env
        # Training folds the update's number into the seed's key, and that number is never -1.
        self._keys = jax.vmap(lambda seed: jax.random.fold_in(jax.random.key(seed), 2**32 - 1))(
            jnp.array(seeds)
        )

    def evaluate(
        self, weights: Any, stream: int, episodes: int, temperature: float = 1.0
    ) -> Scores:
        """Scores of whole episodes; another `stream` number means fresh episodes."""
        return self.evaluate_each(weights, stream, episodes, (temperature,))[0]

    def evaluate_each(
        self, weights: Any, stream: int, episodes: int, temperatures: Sequence[float]
    ) -> list[Scores]:
        """Scores of acting at each temperature (1: sampled, 0: greedy), in the same episodes.

        Episodes begin alike and chance in the environment is the same at every temperature. In a
        JAX environment all of them are one compiled call, one temperature after another.
        """
        if episodes < 1:
            raise OryxError(f"scores need at least 1 episode, not {episodes}")
        if is_host(self.env):
            return [
                self._evaluate_on_host(weights, stream, episodes, temperature)
                for temperature in temperatures
            ]
        env = require_jax(self.env, "compiled evaluation")
        found = by_name(
            fetch(
                _play(
                    self.algorithm,
                    env,
                    episodes,
                    weights,
                    self._keys,
                    jnp.asarray(stream),
                    jnp.asarray(temperatures, jnp.float32),
                )
            )
        )
        return [
            {name: values[:, place] for name, values in found.items()}
            for place in range(len(temperatures))
        ]

    def _evaluate_on_host(
        self, weights: Any, stream: int, episodes: int, temperature: float
    ) -> Scores:
        assert is_host(self.env)
        weights, found = fetch(weights), []
        for index, seed_key in enumerate(self._keys):
            own = jax.tree.map(lambda x, i=index: jnp.asarray(x[i]), weights)
            policy = host.compile_policy(self.algorithm, own, temperature)
            key = jax.random.fold_in(seed_key, stream)
            found.append(by_name(host.play(self.env, policy, key, episodes)))
        # An environment outside JAX may report a metric in some episodes and not in others.
        names = dict.fromkeys(name for scores in found for name in scores)
        unknown = np.full(episodes, np.nan, np.float32)
        return {name: np.stack([scores.get(name, unknown) for scores in found]) for name in names}

    def record_trajectories(
        self, weights: Any, stream: int, episodes: int, temperature: float = 1.0
    ) -> Trajectories:
        """Episodes of the first seed, step by step."""
        env = require_jax(self.env, "a replay")
        first = jax.tree.map(lambda x: jnp.asarray(x[0]), fetch(weights))
        key = jax.random.fold_in(self._keys[0], stream)
        policy = self.algorithm.policy(first).at_temperature(temperature)
        return jax.jit(lambda: rollout.record_trajectories(env, policy, key, episodes))()

    def walk(
        self, env: HostEnv, weights: Any, stream: int, episodes: int, temperature: float = 1.0
    ) -> Iterator[host.Happened]:
        """Episodes of the first seed step by step, in `env`, which may watch the HostEnv."""
        first = jax.tree.map(lambda x: jnp.asarray(x[0]), fetch(weights))
        policy = host.compile_policy(self.algorithm, first, temperature)
        return host.walk(env, policy, jax.random.fold_in(self._keys[0], stream), episodes)


def by_name(episodes: Any) -> dict[str, np.ndarray]:
    """Episodes as named scores."""
    return {"return": episodes.returns, "length": episodes.lengths, **episodes.metrics}


@partial(jax.jit, static_argnames=("algorithm", "env", "episodes"))
def _play(
    algorithm: Acting,
    env: Env,
    episodes: int,
    weights: Any,
    keys: jax.Array,
    stream: jax.Array,
    temperatures: Float[jax.Array, " K"],
) -> Episodes:
    """Episodes [S, K, B] of every seed and temperature."""

    def one_seed(
        stream: jax.Array, temperatures: jax.Array, weights: Any, key: jax.Array
    ) -> Episodes:
        policy, own = algorithm.policy(weights), jax.random.fold_in(key, stream)
        # In turn, not side by side: memory stays that of one, and the numbers those of each alone.
        return jax.lax.map(
            lambda each: rollout.play(env, policy.at_temperature(each), own, episodes), temperatures
        )

    return over_seeds(one_seed, stream, temperatures)(weights, keys)
