"""Whole episodes of a policy, as the arrays of a dataset."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from oryx_marl.algorithms.base import Algorithm
from oryx_marl.envs.base import Env
from oryx_marl.errors import OryxError
from oryx_marl.train.online import Actors, Steps, collect

EPISODES_PER_CALL = 1024
MOST_TRIES, LEAST_SHARE = 20 * EPISODES_PER_CALL, 0.01
"""Episodes after which a policy is given up that reaches the least return in fewer than this."""


def record_episodes(
    algorithm: Algorithm,
    env: Env,
    weights: Any,
    rows: int,
    key: jax.Array,
    least_return: float | None = None,
) -> tuple[dict[str, np.ndarray], float]:
    """Sampled episodes, cut after the first with which `rows` steps are reached.

    Those of less than `least_return` are discarded; their share of all that were played up to
    there comes second.
    """
    if env.spec.episode_limit is None:
        raise OryxError(f"environment '{env.spec.environment}' has no episode limit to roll out to")
    parts: list[dict[str, np.ndarray]] = []
    lengths = np.zeros(0, np.int64)
    good = np.zeros(0, bool)
    while (lengths * good).sum() < rows:
        call_key = jax.random.fold_in(key, len(parts))
        steps, live = jax.device_get(_play(algorithm, env, weights, call_key))
        returns = (steps.rewards.mean(axis=2, dtype=np.float64) * live).sum(axis=1)
        is_good = np.ones(len(returns), bool) if least_return is None else returns >= least_return
        parts.append(_cut(steps, live, is_good))
        lengths, good = np.append(lengths, live.sum(axis=1)), np.append(good, is_good)
        if len(good) >= MOST_TRIES and good.mean() < LEAST_SHARE:
            raise OryxError(
                f"only {good.sum():,} of {len(good):,} episodes have a return of {least_return} or "
                "more: this policy has not learned the task"
            )
    played = int(np.searchsorted(np.cumsum(lengths * good), rows)) + 1
    kept = lengths[:played][good[:played]]
    arrays = {
        name: np.concatenate([part[name] for part in parts])[: kept.sum()] for name in parts[0]
    }
    arrays["final_observations"] = arrays["final_observations"][: len(kept)]
    arrays["episode_starts"] = np.append(0, np.cumsum(kept)[:-1])
    return arrays, 1 - len(kept) / played


def _cut(steps: Steps, live: Bool[np.ndarray, "B T"], good: Bool[np.ndarray, " B"]) -> dict:
    """The rows of the good episodes, one after another; steps are [B, T, ...]."""
    chosen = live & good[:, None]
    found = {name: array for name, array in steps._asdict().items() if array is not None}
    arrays = {name: array[chosen] for name, array in found.items()}
    last = live.sum(axis=1) - 1
    arrays["final_observations"] = steps.final_observations[np.arange(len(last)), last][good]
    return arrays


@partial(jax.jit, static_argnames=("algorithm", "env"))
def _play(algorithm: Algorithm, env: Env, weights: Any, key: jax.Array) -> tuple[Steps, Array]:
    """One episode in each environment: its steps [B, T, ...] and which of them belong to it."""
    reset_key, play_key = jax.random.split(key)
    policy = algorithm.policy(weights)
    states, first = jax.vmap(env.reset)(jax.random.split(reset_key, EPISODES_PER_CALL))
    nothing = jnp.zeros(())
    actors = Actors(
        states,
        first.seen,
        first.state,
        policy.init(EPISODES_PER_CALL),
        jnp.zeros(EPISODES_PER_CALL),
        nothing,
        nothing,
    )
    assert env.spec.episode_limit is not None
    _, _, steps = collect(env, policy, actors, play_key, env.spec.episode_limit)
    ended = (steps.terminals | steps.truncations).all(axis=2)
    live = jnp.cumsum(ended, axis=0) - ended == 0
    return jax.tree.map(lambda x: jnp.moveaxis(x, 0, 1), (steps, live))
