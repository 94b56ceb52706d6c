"""The behaviour policy, cloned from the logs: cross-fitted, so that no clone scores an episode that
it has learned from."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int

from oryx_marl.algorithms import oryx
from oryx_marl.algorithms._learner import adam_on_one_vector
from oryx_marl.algorithms._size import fill_size
from oryx_marl.algorithms._standardise import Standardised, WithStatistics
from oryx_marl.algorithms.base import Algorithm
from oryx_marl.data.dataset import Dataset
from oryx_marl.data.scales import feature_statistics
from oryx_marl.networks.sable import NetworkConfig
from oryx_marl.ope.sequences import Packed
from oryx_marl.ope.settings import OpeSettings
from oryx_marl.ope.walk import Report
from oryx_marl.ops.masked import masked_mean, pick
from oryx_marl.parallel.seeds import over_seeds
from oryx_marl.types import FeatureStatistics, Spec, Window

CHECKS = 10
"""Times at which the clones are scored on the episodes that they do not learn from."""


class Clones(NamedTuple):
    """Of the behaviour that was logged."""

    algorithm: Algorithm
    weights: Any
    """[folds, ...]."""
    log_likelihood: Float[np.ndarray, " folds"]
    """Mean log-probability of the logged actions, per decision, in episodes of the other folds."""


def draw_folds(num_episodes: int, folds: int, seed: int) -> Int[np.ndarray, " E"]:
    """A fold for every episode, of equal size."""
    order = np.random.default_rng(seed).permutation(num_episodes)
    return np.argsort(order) % min(folds, num_episodes)


def make_clone(spec: Spec, num_rows: int) -> Standardised:
    """Oryx's network as it is cloned with: autoregressive over agents, with a recurrent state."""
    config = oryx.Config(objective="bc", network=NetworkConfig())
    return Standardised(oryx.make(fill_size(config, spec, num_rows), spec), spec)


def describe(dataset: Dataset, folds: int) -> Clones:
    """Clones as shapes, for those that are kept in files."""
    algorithm = make_clone(dataset.spec, dataset.num_rows)
    one = jax.eval_shape(lambda: algorithm.weights(algorithm.init(jax.random.key(0))))
    weights = jax.tree.map(lambda x: jax.ShapeDtypeStruct((folds, *x.shape), x.dtype), one)
    return Clones(algorithm, weights, np.zeros(folds))


def fit(
    dataset: Dataset,
    packed: Packed,
    settings: OpeSettings,
    report: Report = lambda done, of: None,
) -> Clones:
    """Clones of all folds, each at the update with the highest held-out likelihood."""
    algorithm = make_clone(dataset.spec, dataset.num_rows)
    numbers = np.unique(packed.fold)
    others = [np.flatnonzero(packed.fold != fold) for fold in numbers]
    own = [np.flatnonzero(packed.fold == fold) for fold in numbers]
    learn_from = _stack(others, max(map(len, others)))
    length = packed.step.shape[1]
    batch = max(settings.batch_steps // length, 1)
    validate = _stack(own, min(max(map(len, own)), max(8 * batch, 1)))
    keys = jax.random.split(jax.random.key(settings.seed), len(numbers))
    statistics = feature_statistics(dataset)
    state = _init(algorithm, settings.learning_rate / 3, keys)
    window = packed.sequences.window
    best, best_score = state[0], jnp.full(len(numbers), -jnp.inf)
    checks = min(CHECKS, settings.clone_updates)
    size = -(-settings.clone_updates // checks)
    for check in range(checks):
        state, score = _advance(
            (algorithm, settings.learning_rate / 3, size, batch),
            state,
            jax.vmap(lambda key: jax.random.fold_in(key, check))(keys),  # noqa: B023
            window,
            statistics,
            learn_from,
            validate,
        )
        best = pick(score > best_score, state[0], best)
        best_score = jnp.maximum(score, best_score)
        report(check + 1, checks)
    stacked = jax.tree.map(lambda x: jnp.stack([x] * len(numbers)), statistics)
    return Clones(algorithm, WithStatistics(best, stacked), np.asarray(best_score))


def _stack(numbers: list[np.ndarray], size: int) -> Int[Array, "folds size"]:
    """Of equal length: the shorter ones begin again."""
    return jnp.asarray(np.stack([np.resize(each, size) for each in numbers]))


@partial(jax.jit, static_argnames=("algorithm", "learning_rate"))
def _init(algorithm: Standardised, learning_rate: float, keys: Array) -> tuple[Any, Any]:
    def one(key: Array) -> tuple[Any, Any]:
        network = algorithm.inner.weights(algorithm.inner.init(key))
        return network, _optimiser(learning_rate).init(network)

    return over_seeds(one)(keys)


def _optimiser(learning_rate: float) -> optax.GradientTransformation:
    return adam_on_one_vector(learning_rate, 10.0)


@partial(jax.jit, static_argnames="static")
def _advance(
    static: tuple[Standardised, float, int, int],
    states: tuple[Any, Any],
    keys: Array,
    window: Window,
    statistics: FeatureStatistics,
    learn_from: Int[Array, "folds n"],
    validate: Int[Array, "folds m"],
) -> tuple[tuple[Any, Any], Float[Array, " folds"]]:
    """Networks and optimisers after some updates, and their held-out likelihood."""
    algorithm, learning_rate, num_updates, batch = static
    optimiser = _optimiser(learning_rate)

    def likelihood(
        window: Window, statistics: FeatureStatistics, network: Any, chosen: Int[Array, " B"]
    ) -> Float[Array, ""]:
        part = jax.tree.map(lambda x: x[chosen], window)
        found, _ = algorithm.distribution(WithStatistics(network, statistics), part)
        counts = part.observation.agent_mask & part.choice & found.supports(part.actions)
        return masked_mean(found.log_prob(part.actions), counts)

    def one_fold(
        window: Window,
        statistics: FeatureStatistics,
        state: Any,
        key: Array,
        learn_from: Array,
        validate: Array,
    ) -> Any:
        score = partial(likelihood, window, statistics)

        def one_update(state: tuple[Any, Any], key: Array) -> tuple[Any, None]:
            network, optimiser_state = state
            chosen = learn_from[jax.random.randint(key, (batch,), 0, len(learn_from))]
            gradients = jax.grad(lambda each: -score(each, chosen))(network)
            updates, optimiser_state = optimiser.update(gradients, optimiser_state, network)
            return (optax.apply_updates(network, updates), optimiser_state), None

        state, _ = jax.lax.scan(one_update, state, jax.random.split(key, num_updates))
        return state, score(state[0], validate)

    return over_seeds(one_fold, window, statistics)(states, keys, learn_from, validate)
