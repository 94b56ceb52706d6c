"""A policy along logged episodes: how likely it finds what was done, and what it would have done.

The policy's recurrent state is that of the logged history, as acting would have met it, from the
first step of an episode to its last. Joint actions are drawn at every step and go nowhere: the
next step follows from the logged ones.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Shaped

from oryx_marl.algorithms.base import Algorithm
from oryx_marl.ope.sequences import Packed
from oryx_marl.ops.distributions import Distribution
from oryx_marl.types import Observation, Window

LANES = 128
"""Sequences side by side."""
LEAST_LOG = -50.0
"""Of a step's probability: a greedy policy gives others none at all."""
Report = Callable[[int, int], None]
"""`report(done, of)`."""


class Walked(NamedTuple):
    """What is known of a policy at every step of all sequences, on the host."""

    log_policy: Float[np.ndarray, "S L N"]
    """log π of the logged actions, given those of the agents before; 0 where there is no choice."""
    log_behaviour: Float[np.ndarray, "S L N"]
    """The same of the clone that has not seen the episode."""
    samples: Shaped[np.ndarray, "S L K N *A"]
    """Joint actions of the policy."""
    sampled_log_behaviour: Float[np.ndarray, "S L K N"]
    """log μ of those, by the same clone."""
    choice: Bool[np.ndarray, "S L N"]
    """Agents that were there and had a choice."""


class Policies(NamedTuple):
    """The policy that is evaluated, and the clone of what was logged; both with their settings."""

    policy: Algorithm
    clone: Algorithm
    temperature: float
    num_samples: int


def walk(
    policies: Policies,
    weights: Any,
    clones: Any,
    packed: Packed,
    key: Array,
    report: Report = lambda done, of: None,
) -> Walked:
    """Goes through all sequences, each with the clone of its fold; `clones` are [folds, ...]."""
    parts: list[tuple[np.ndarray, Any]] = []
    batches = _batches(packed.fold)
    for number, chosen in enumerate(batches):
        clone = jax.tree.map(lambda x: x[packed.fold[chosen[0]]], clones)  # noqa: B023
        window = jax.tree.map(lambda x: x[chosen], packed.sequences.window)  # noqa: B023
        found = _walk(policies, weights, clone, window, jax.random.fold_in(key, number))
        parts.append((chosen, jax.device_get(found)))
        report(number + 1, len(batches))
    order = np.concatenate([chosen for chosen, _ in parts])
    _, first = np.unique(order, return_index=True)  # the last batch of a fold repeats some
    joined = jax.tree.map(lambda *x: np.concatenate(x)[first], *[found for _, found in parts])
    return Walked(*joined)


def _batches(folds: np.ndarray) -> list[np.ndarray]:
    """Numbers of sequences of one fold each, in batches of equal size."""
    size = min(LANES, int(np.bincount(folds)[np.unique(folds)].max()))
    found = []
    for fold in np.unique(folds):
        numbers = np.flatnonzero(folds == fold)
        for first in range(0, len(numbers), size):
            found.append(np.resize(numbers[first : first + size], size))
    return found


@partial(jax.jit, static_argnames="policies")
def _walk(policies: Policies, weights: Any, clone: Any, window: Window, key: Array) -> tuple:
    """Of a batch [B, L, ...]; in the order of `Walked`."""
    policy = policies.policy.policy(weights).at_temperature(policies.temperature)
    batch, length = window.observation.reset.shape
    carries = policy.init(batch), policies.clone.policy(clone).init(batch)

    def one_step(carries: tuple[Any, Any], inputs: tuple[Window, Array]) -> tuple[Any, Any]:
        step, key = inputs
        now = jax.tree.map(lambda x: x[:, None], step)

        def draw(key: Array) -> tuple[Array, Array]:
            _, actions, _ = policy.step(carries[0], _plain(step.observation), key)
            told = now._replace(actions=actions[:, None])
            likely, _ = policies.clone.distribution(clone, told, carries[1])
            return actions, likely.log_prob(told.actions)[:, 0]

        samples, sampled_log = jax.lax.map(draw, jax.random.split(key, policies.num_samples))
        own, carry = policies.policy.distribution(weights, now, carries[0])
        behaviour, clone_carry = policies.clone.distribution(clone, now, carries[1])
        counts = step.choice & step.observation.agent_mask
        logs = [
            jnp.where(counts, jnp.maximum(each.log_prob(now.actions)[:, 0], LEAST_LOG), 0.0)
            for each in (_at_temperature(own, policies.temperature), behaviour)
        ]
        sampled_log = jnp.where(counts, jnp.maximum(sampled_log, LEAST_LOG), 0.0)
        return (carry, clone_carry), (*logs, samples, sampled_log, counts)

    by_step = jax.tree.map(lambda x: jnp.moveaxis(x, 1, 0), window)
    keys = jax.random.split(key, length)
    _, found = jax.lax.scan(one_step, carries, (by_step, keys))
    policy_log, behaviour_log, samples, sampled, counts = found
    first = partial(jnp.moveaxis, source=0, destination=1)
    inner = partial(jnp.moveaxis, source=(0, 1, 2), destination=(1, 2, 0))  # [L, K, B] to [B, L, K]
    return first(policy_log), first(behaviour_log), inner(samples), inner(sampled), first(counts)


def _plain(observation: Observation) -> Observation:
    """Rewards so far are part of the carry that `Algorithm.distribution` gives."""
    return observation._replace(last_rewards=None)


def _at_temperature(distribution: Distribution, temperature: float) -> Distribution:
    if temperature == 1:
        return distribution
    tempered: Any = distribution
    return tempered.at_temperature(temperature)
