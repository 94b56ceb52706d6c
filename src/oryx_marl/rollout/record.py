"""Whole episodes of a policy, as the arrays of a dataset."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Int

from oryx_marl.algorithms.base import Acting
from oryx_marl.envs.base import Env, HostEnv, is_host
from oryx_marl.errors import OryxError
from oryx_marl.rollout import host
from oryx_marl.rollout.collect import Actors, Steps, begin, collect

MOST_ENVS, MOST_ROUNDS = 1024, 16
"""Environments side by side, and episodes of each in one go."""
PIECE = 32
"""Steps that are fetched at a time: an episode with 50 agents may be 26 MB."""
MOST_TRIES, LEAST_SHARE = 20_000, 0.01
"""Episodes after which a policy is given up that reaches the least return in fewer than this."""


def record_episodes(
    algorithm: Acting,
    env: Env | HostEnv,
    weights: Any,
    rows: int,
    key: jax.Array,
    least_return: float | None = None,
    temperature: float = 1.0,
) -> tuple[dict[str, np.ndarray], float]:
    """Episodes at a temperature, cut after the first with which `rows` steps are reached.

    Every environment plays equally many, or as many as were numbered in advance, so that long ones
    are as likely as they are. Those of less than `least_return` are discarded; their share of all
    that were played up to there comes second.
    """
    limit = env.spec.episode_limit
    if is_host(env):
        num_envs = env.num_envs if limit is None else min(env.num_envs, -(-rows // limit))
    elif limit is None:
        raise OryxError(f"environment '{env.spec.environment}' has no episode limit to roll out to")
    else:
        num_envs = min(MOST_ENVS, -(-rows // limit))  # enough if all last to the limit
    parts: list[dict[str, np.ndarray]] = []
    lengths = np.zeros(0, np.int64)
    good = np.zeros(0, bool)
    while (found := (lengths * good).sum()) < rows:
        rounds = int((rows - found) / max(found, 1) * len(lengths) / num_envs) + 1
        call_key = jax.random.fold_in(key, len(parts))
        play: Any = _play_on_host if is_host(env) else _play
        played, new_lengths = play(
            algorithm, env, weights, temperature, call_key, num_envs, min(rounds, MOST_ROUNDS)
        )
        is_good = _reach(played["rewards"], new_lengths, least_return)
        parts.append(_choose(played, new_lengths, is_good))
        lengths, good = np.append(lengths, new_lengths), np.append(good, is_good)
        if len(good) >= MOST_TRIES and good.mean() < LEAST_SHARE:
            raise OryxError(
                f"only {good.sum():,} of {len(good):,} episodes have a return of {least_return} or "
                "more: this policy has not learned the task"
            )
    num_played = int(np.searchsorted(np.cumsum(lengths * good), rows)) + 1
    kept = lengths[:num_played][good[:num_played]]
    arrays = {
        name: np.concatenate([part[name] for part in parts])[: kept.sum()] for name in parts[0]
    }
    arrays["final_observations"] = arrays["final_observations"][: len(kept)]
    arrays["episode_starts"] = np.append(0, np.cumsum(kept)[:-1])
    if env.spec.action.kind == "box":
        del arrays["action_mask"]  # every action of a box is legal
    return arrays, 1 - len(kept) / num_played


def _reach(
    rewards: np.ndarray, lengths: Int[np.ndarray, " B"], least_return: float | None
) -> Bool[np.ndarray, " B"]:
    """Which episodes return at least so much."""
    if least_return is None:
        return np.ones(len(lengths), bool)
    starts = np.append(0, np.cumsum(lengths)[:-1])
    return np.add.reduceat(rewards.mean(axis=1, dtype=np.float64), starts) >= least_return


def _choose(
    arrays: dict[str, np.ndarray], lengths: Int[np.ndarray, " B"], good: Bool[np.ndarray, " B"]
) -> dict[str, np.ndarray]:
    """The good episodes."""
    rows = np.repeat(good, lengths)
    return {
        name: array[good if name == "final_observations" else rows]
        for name, array in arrays.items()
    }


def _play(
    algorithm: Acting,
    env: Env,
    weights: Any,
    temperature: float,
    key: jax.Array,
    num_envs: int,
    rounds: int,
) -> tuple[dict[str, np.ndarray], Int[np.ndarray, " E"]]:
    """`rounds` episodes in each environment: their steps one after another, and how many each has.

    They are played in short pieces until the last has ended; only what belongs to them is kept.
    """
    reset_key, play_key = jax.random.split(key)
    actors = _begin(algorithm, env, weights, reset_key, num_envs)
    limit = env.spec.episode_limit or 0
    first = np.arange(num_envs) * rounds
    num_ended = np.zeros(num_envs, np.int64)
    pieces: list[dict[str, np.ndarray]] = []
    episodes: list[np.ndarray] = []
    endings: list[np.ndarray] = []
    while (num_ended < rounds).any():
        piece_key = jax.random.fold_in(play_key, len(pieces)) if pieces else play_key
        length = min(limit, PIECE)
        actors, found = _go_on(algorithm, env, weights, temperature, actors, piece_key, length)
        steps = jax.device_get(found)
        ended = (steps.terminals | steps.truncations).all(axis=2)
        number = num_ended[:, None] + np.cumsum(ended, axis=1) - ended
        live = number < rounds
        arrays = {name: array[live] for name, array in steps._asdict().items() if array is not None}
        arrays["final_observations"] = steps.final_observations[live & ended]
        pieces.append(arrays)
        episodes.append((first[:, None] + number)[live])
        endings.append((first[:, None] + number)[live & ended])
        num_ended += ended.sum(axis=1)
    return _sort(pieces, np.concatenate(episodes), np.concatenate(endings))


def _play_on_host(
    algorithm: Acting,
    env: HostEnv,
    weights: Any,
    temperature: float,
    key: jax.Array,
    num_envs: int,
    rounds: int,
) -> tuple[dict[str, np.ndarray], Int[np.ndarray, " E"]]:
    """The same outside JAX: so many episodes of all environments together, by their numbers."""
    policy = host.compile_policy(algorithm, weights, temperature)
    pieces: list[dict[str, np.ndarray]] = []
    episodes: list[np.ndarray] = []
    endings: list[np.ndarray] = []
    for step in host.walk(env, policy, key, num_envs * rounds):
        live, seen = step.episodes != host.IDLE, step.before.observation
        found = {
            "observations": seen.features,
            "actions": step.actions,
            "rewards": step.after.rewards,
            "terminals": step.after.terminal,
            "truncations": step.after.truncated,
            "action_mask": seen.action_mask,
            "agent_mask": seen.agent_mask,
            "state": step.before.state,
        }
        arrays = {name: np.asarray(x)[live] for name, x in found.items() if x is not None}
        arrays["final_observations"] = np.asarray(step.after.observation.features)[step.ended]
        pieces.append(arrays)
        episodes.append(step.episodes[live])
        endings.append(step.episodes[step.ended])
    return _sort(pieces, np.concatenate(episodes), np.concatenate(endings))


def _sort(
    pieces: list[dict[str, np.ndarray]],
    of_rows: Int[np.ndarray, " R"],
    of_ends: Int[np.ndarray, " E"],
) -> tuple[dict[str, np.ndarray], Int[np.ndarray, " E"]]:
    """Steps one episode after another, and their lengths, from the episode of each step and end."""
    arrays = {}
    for name in pieces[0]:
        order = of_ends if name == "final_observations" else of_rows
        joined = np.concatenate([piece[name] for piece in pieces])
        arrays[name] = joined[np.argsort(order, kind="stable")]
    return arrays, np.bincount(of_rows)


@partial(jax.jit, static_argnames=("algorithm", "env", "num_envs"))
def _begin(algorithm: Acting, env: Env, weights: Any, key: jax.Array, num_envs: int) -> Actors:
    return begin(env, algorithm.policy(weights), key, num_envs)


@partial(jax.jit, static_argnames=("algorithm", "env", "length"))
def _go_on(
    algorithm: Acting,
    env: Env,
    weights: Any,
    temperature: float | jax.Array,
    actors: Actors,
    key: jax.Array,
    length: int,
) -> tuple[Actors, Steps]:
    """Where everyone is after `length` steps, and these [B, T, ...]."""
    policy = algorithm.policy(weights).at_temperature(temperature)
    after, _, steps = collect(env, policy, actors, key, length)
    return after, jax.tree.map(lambda x: jnp.moveaxis(x, 0, 1), steps)
