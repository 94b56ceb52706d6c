"""Any offline learner, shown features with mean 0 and standard deviation 1 over its dataset."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Num

from oryx_marl.algorithms.base import Algorithm, Metrics, Policy
from oryx_marl.errors import OryxError
from oryx_marl.ops.distributions import Distribution
from oryx_marl.types import FeatureStatistics, Observation, Spec, Window

FARTHEST = 10.0
"""Standard deviations from the mean that a feature is seen at, at most."""


class WithStatistics(NamedTuple):
    """State or weights of a learner, and what features are standardised by."""

    inner: Any
    features: FeatureStatistics


def standardise(
    features: Num[Array, "*B O"], statistics: FeatureStatistics
) -> Float[Array, "*B O"]:
    """(features - mean) / std, kept within `FARTHEST`."""
    standard = (features.astype(jnp.float32) - statistics.mean) / statistics.std
    return jnp.clip(standard, -FARTHEST, FARTHEST)


@dataclass(frozen=True)
class Standardised:
    """The learner inside sees standardised features, in training and acting.

    The statistics come with every window, and go with the weights.
    """

    inner: Algorithm
    spec: Spec

    @property
    def config(self) -> Any:
        return self.inner.config

    @property
    def batch_size(self) -> int:
        return self.inner.batch_size

    @property
    def sequence_length(self) -> int:
        return self.inner.sequence_length

    @property
    def consecutive_windows(self) -> bool:
        return self.inner.consecutive_windows

    @property
    def needs_returns_to_go(self) -> bool:
        return self.inner.needs_returns_to_go

    @property
    def value_discount(self) -> float | None:
        return self.inner.value_discount

    @property
    def batch_parts(self) -> int | None:
        return self.inner.batch_parts

    def init(self, key: Array) -> WithStatistics:
        size = self.spec.observation_size
        unknown = FeatureStatistics(jnp.zeros(size), jnp.ones(size))
        return WithStatistics(self.inner.init(key), unknown)

    def update(
        self, state: WithStatistics, experience: Window, key: Array
    ) -> tuple[WithStatistics, Metrics]:
        statistics = experience.feature_statistics
        if statistics is None:
            raise OryxError(
                "standardise needs windows with feature_statistics, as those of put_on_device have"
            )
        inner, metrics = self.inner.update(state.inner, _see(experience, statistics), key)
        return WithStatistics(inner, statistics), metrics

    def weights(self, state: WithStatistics) -> WithStatistics:
        return WithStatistics(self.inner.weights(state.inner), state.features)

    def distribution(
        self, weights: WithStatistics, window: Window, carry: Any = None
    ) -> tuple[Distribution, Any]:
        return self.inner.distribution(weights.inner, _see(window, weights.features), carry)

    def policy(self, weights: WithStatistics) -> Policy:
        inner = self.inner.policy(weights.inner)

        def act(carry: Any, observation: Observation, noise: Array) -> tuple[Any, Array, Any]:
            seen = standardise(observation.features, weights.features)
            return inner.act(carry, observation._replace(features=seen), noise)

        return inner._replace(act=act)


def _see(window: Window, statistics: FeatureStatistics) -> Window:
    """The window as the learner inside sees it."""
    seen = window.observation
    seen = seen._replace(features=standardise(seen.features, statistics))
    return window._replace(observation=seen, feature_statistics=None)
