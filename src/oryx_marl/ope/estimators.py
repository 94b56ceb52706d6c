"""Importance-sampling and doubly robust estimates of a policy's return, on plain arrays.

Episodes are rows [E, T]; after an episode's end its log-ratios, rewards and values are 0, so that
it keeps its weight. A log-ratio is Σ over agents of log π(a) - log μ(a) of one step: the joint
action's. Returns are undiscounted. `counts` [B, E] says how often each episode is drawn in each of
B resamples, so that a bootstrap is one product; without it every episode counts once.
"""

import numpy as np
from jaxtyping import Float

Steps = Float[np.ndarray, "E T"]
Counts = Float[np.ndarray, "B E"]


def clip_ratios(log_ratios: Steps, largest: float) -> Steps:
    """Log-ratios of single steps, none above log(largest): less variance, some bias."""
    return np.minimum(log_ratios, np.log(largest))


def pdis(log_ratios: Steps, rewards: Steps, counts: Counts | None = None) -> Float[np.ndarray, "B"]:
    """Per-decision importance sampling: mean over episodes of Σ_t ρ_{0..t} r_t (Precup et al.,
    2000). Unbiased under the true probabilities of the logged actions."""
    counts = _every_once(log_ratios, counts)
    weights = np.exp(np.minimum(np.cumsum(log_ratios, axis=1), _LARGEST))
    per_episode = np.sum(weights * rewards, axis=1)
    return counts @ per_episode / counts.sum(axis=1)


def weighted_pdis(
    log_ratios: Steps, rewards: Steps, counts: Counts | None = None
) -> Float[np.ndarray, "B"]:
    """The same with weights that sum to 1 at every step (consistent, biased, far less variance)."""
    counts, weights = _every_once(log_ratios, counts), cumulative_weights(log_ratios)
    return np.sum(_ratio(counts @ (weights * rewards), counts @ weights), axis=1)


def weighted_doubly_robust(
    log_ratios: Steps,
    rewards: Steps,
    q_logged: Steps,
    values: Steps,
    counts: Counts | None = None,
) -> Float[np.ndarray, "B"]:
    """Σ_t [w_t (r_t - Q(h_t, a_t)) + w_{t-1} V(h_t)] with self-normalised weights (Thomas and
    Brunskill, 2016): importance sampling of what the critic did not foresee.

    Args:
        log_ratios: of each step.
        rewards: of each step.
        q_logged: Q of the logged joint actions.
        values: Q expected under the policy at the same steps.
        counts: of a bootstrap.
    """
    counts, weights = _every_once(log_ratios, counts), cumulative_weights(log_ratios)
    before = np.concatenate([np.ones((len(weights), 1)), weights[:, :-1]], axis=1)
    corrections = _ratio(counts @ (weights * (rewards - q_logged)), counts @ weights)
    return np.sum(corrections + _ratio(counts @ (before * values), counts @ before), axis=1)


def cumulative_weights(log_ratios: Steps) -> Steps:
    """ρ_{0..t} up to a factor for each step, the largest of a step being 1: products of hundreds of
    ratios would overflow."""
    logs = np.cumsum(log_ratios, axis=1)
    return np.exp(logs - logs.max(axis=0, keepdims=True))


def effective_sample_size(log_ratios: Steps) -> Float[np.ndarray, "T"]:
    """(Σ w)² / Σ w² at every step: of how many episodes the weights effectively take the mean."""
    weights = cumulative_weights(log_ratios)
    return weights.sum(axis=0) ** 2 / np.sum(weights**2, axis=0)


def mean_weight(log_ratios: Steps, counts: Counts | None = None) -> Float[np.ndarray, "B"]:
    """Mean over episodes of ρ_{0..T}, whose expectation is 1 wherever the behaviour policy is known
    and takes, now and then, every action of the other."""
    counts = _every_once(log_ratios, counts)
    weights = np.exp(np.minimum(log_ratios.sum(axis=1), _LARGEST))
    return counts @ weights / counts.sum(axis=1)


_LARGEST = 700.0
"""Logarithm beyond which a float64 overflows."""


def _every_once(log_ratios: Steps, counts: Counts | None) -> Counts:
    return np.ones((1, len(log_ratios))) if counts is None else counts


def _ratio(
    numerator: Float[np.ndarray, "B T"], denominator: Float[np.ndarray, "B T"]
) -> Float[np.ndarray, "B T"]:
    """0 where a resample has left out all episodes with weight."""
    return np.divide(numerator, denominator, np.zeros_like(numerator), where=denominator > 0)
