"""Implicit-constraint Q-learning over agents and time: which rows count, and with what weight.

All arrays here are batched [B, T, N]: the softmax over the batch couples the examples. The agent
axis is in the order of the update's permutation.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from oryx_marl.ops.distributions import Actions, Distribution
from oryx_marl.ops.masked import masked_mean
from oryx_marl.ops.returns import Mask, PairMask, Pairs, linear_recurrence
from oryx_marl.ops.values import ActionValues

Values = Float[Array, "B T N"]


def batch_weights(
    values: Float[Array, "B *rest"], mask: Bool[Array, "B *rest"], temperature: float
) -> Float[Array, "B *rest"]:
    """n · softmax over the batch of values / temperature, among the n rows that count.

    One softmax for each position of the other axes; rows that do not count get weight 0.
    """
    # Kept apart from what comes before, which would else be computed anew for every sum below.
    values = jax.lax.optimization_barrier(values)
    scores = jnp.where(mask, values / temperature, -jnp.inf)
    top = jnp.max(scores, axis=0, keepdims=True, initial=-jnp.inf)
    unnormalised = jnp.where(mask, jnp.exp(scores - jnp.where(jnp.isfinite(top), top, 0)), 0)
    total = unnormalised.sum(axis=0, keepdims=True)
    count = mask.sum(axis=0, keepdims=True)
    return count * unnormalised / jnp.where(total > 0, total, 1)


def effective_sample_size(
    weights: Float[Array, "B *rest"], mask: Bool[Array, "B *rest"]
) -> Float[Array, ""]:
    """(Σw)² / (n Σw²), mean over the softmaxes that have rows: 1 if all rows count alike."""
    count = mask.sum(axis=0)
    squares = jnp.sum(weights**2, axis=0)
    share = weights.sum(axis=0) ** 2 / jnp.where(squares > 0, count * squares, 1)
    return masked_mean(share, count > 0)


def td_targets(
    rewards: Pairs,
    next_values: Pairs,
    mask: PairMask,
    bootstrap_mask: PairMask,
    discount: float,
    temperature: float,
    td_lambda: float = 0.0,
) -> Pairs:
    """y_t = r_t + γ V_{t+1}, with V = w(Q⁻) Q⁻ and w = n · softmax over the batch of Q⁻ / α.

    With a trace λ the next value is (1 - λ) V_{t+1} + λ y_{t+1} wherever pair t+1 counts too, so
    rewards reach earlier steps at once instead of one step per target update.
    """
    values = jnp.where(
        bootstrap_mask, batch_weights(next_values, bootstrap_mask, temperature) * next_values, 0
    )

    next_counts = jnp.pad(mask[:, 1:], ((0, 0), (0, 1), (0, 0)))
    mixing = jnp.where(bootstrap_mask & next_counts, td_lambda, 0.0)
    offsets = rewards + discount * (1 - mixing) * values
    return linear_recurrence(offsets, discount * mixing)


def own_advantage(
    q: ActionValues, policy: Distribution, actions: Actions
) -> Float[Array, "*batch"]:
    """Q(a) - E_π[Q]: how much the logged action beats the policy's average."""
    return q.at(actions) - q.expected(policy)


def cumulative_advantage(own: Values, agent_mask: Mask) -> Values:
    """A^{1:j} = Σ_{m≤j} own_m, in the order of the permutation; an absent agent adds 0."""
    return jnp.cumsum(jnp.where(agent_mask, own, 0), axis=-1)


def critic_loss(q: Array, targets: Array, mask: Array) -> Float[Array, ""]:
    """½ (y - Q)², mean over the rows that count."""
    return masked_mean(0.5 * (jax.lax.stop_gradient(targets) - q) ** 2, mask)


def policy_loss(log_probs: Array, weights: Array, mask: Array) -> Float[Array, ""]:
    """-w log π(a), mean over the rows that count, weights under stop-gradient."""
    return masked_mean(-jax.lax.stop_gradient(weights) * log_probs, mask)
