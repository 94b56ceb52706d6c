"""Implicit-constraint Q-learning (ICQ) over agents and time, as in Algorithm 1 of the paper.

All arrays here are batched [B, T, N]: the softmax over the batch couples the examples. The agent
axis is in the order of the update's permutation, i_1 to i_n of the paper.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from oryx_marl.ops.distributions import Actions, Distribution
from oryx_marl.ops.masked import masked_mean
from oryx_marl.ops.returns import Mask, Number, PairMask, Pairs, td_lambda_targets
from oryx_marl.ops.values import ActionValues

Values = Float[Array, "B T N"]
NOISE_SHARE = 0.3
"""Share of the critic's errors that advantages may have by chance."""


def batch_weights(
    values: Float[Array, "B *rest"], mask: Bool[Array, "B *rest"], temperature: Number
) -> Float[Array, "B *rest"]:
    """n · exp(values / α) / Z, the weights of Eq. 3, with Z summed over the batch.

    Args:
        values: Q of the target network, or advantages.
        mask: entries that take part; the others get weight 0 and do not enter Z.
        temperature: α. The lower, the more the largest values of the batch outweigh all others.

    Returns:
        One softmax over the batch for each position of the other axes, times its number n of
        entries: the mean weight is 1, whatever the mask leaves.
    """
    # A barrier, or XLA fuses what computes `values` into each of the three reductions below.
    values = jax.lax.optimization_barrier(values)
    scores = jnp.where(mask, values / temperature, -jnp.inf)
    top = jnp.max(scores, axis=0, keepdims=True, initial=-jnp.inf)
    unnormalised = jnp.where(mask, jnp.exp(scores - jnp.where(jnp.isfinite(top), top, 0)), 0)
    total = unnormalised.sum(axis=0, keepdims=True)
    count = mask.sum(axis=0, keepdims=True)
    return count * unnormalised / jnp.where(total > 0, total, 1)


def adaptive_temperature(
    advantage: Values, labels: Mask, targets: Pairs, errors: Pairs, mask: PairMask, discount: float
) -> Float[Array, ""]:
    """α of the policy loss in units of the batch: √(var A + ((1 - γ) y)² + (0.3 (y - Q))²).

    Squares are means over the batch. Weights then do not depend on the size of rewards or on how
    much one action can matter. (1 - γ) y is the reward per step that a return stands for. Where
    advantages are smaller than that, or small beside the critic's errors, as they are while it
    knows nothing, they are noise: weights are nearly equal, and such logs are cloned.

    Args:
        advantage: what actions are weighed by.
        labels: actions that are learned from.
        targets: y of the critic, for each pair of steps.
        errors: y - Q.
        mask: pairs with a target.
        discount: γ.
    """
    centred = advantage - masked_mean(advantage, labels)
    noise = ((1 - discount) * targets) ** 2 + (NOISE_SHARE * errors) ** 2
    return jnp.sqrt(masked_mean(centred**2, labels) + masked_mean(noise, mask) + 1e-12)


def effective_sample_size(
    weights: Float[Array, "B *rest"], mask: Bool[Array, "B *rest"]
) -> Float[Array, ""]:
    """(Σw)² / (n Σw²), mean over the softmaxes that are not empty: 1 if all weights are equal."""
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
    """Targets of the critic (Algorithm 1, line 6): y_t = r_t + γ V_{t+1}, V = w(Q⁻) Q⁻ (Eq. 3).

    Args:
        rewards: r_t.
        next_values: Q⁻ of the actions logged at t+1, of the target network.
        mask: pairs (t, t+1) with a target; `bootstrap_mask`: those that need the next value.
        bootstrap_mask: see `returns.td_masks`.
        discount: γ.
        temperature: α of the weights w. They normalise over the states of a batch, not over
            actions, so this is no Bellman operator: low temperatures inflate values.
        td_lambda: λ of TD(λ), which the paper does not have: `returns.td_lambda_targets`.
    """
    values = batch_weights(next_values, bootstrap_mask, temperature) * next_values
    return td_lambda_targets(rewards, values, mask, bootstrap_mask, discount, td_lambda)


def own_advantage(
    q: ActionValues, policy: Distribution, actions: Actions
) -> Float[Array, "*batch"]:
    """Q(a) - Σ_a π(a) Q(a), with the counterfactual baseline of Section 4 (Algorithm 1, line 7)."""
    return q.at(actions) - q.expected(policy)


def cumulative_advantage(own: Values, agent_mask: Mask) -> Values:
    """A^{i_1:j} = Σ_{m≤j} own_m (Eq. 2; Algorithm 1, line 7); an absent agent adds 0."""
    return jnp.cumsum(jnp.where(agent_mask, own, 0), axis=-1)


def critic_loss(q: Array, targets: Array, mask: Array) -> Float[Array, ""]:
    """½ (y - Q)² (Algorithm 1, line 6), mean over the mask."""
    return masked_mean(0.5 * (jax.lax.stop_gradient(targets) - q) ** 2, mask)


def expectile_loss(values: Array, q: Array, mask: Array, expectile: float) -> Float[Array, ""]:
    """|τ - 1[u < 0]| u² with u = Q - V, mean over the mask (Kostrikov et al., 2022, Eq. 5).

    At τ = ½ V is the mean of Q over the logged actions; nearer to 1 it is that of the best ones.
    """
    errors = jax.lax.stop_gradient(q) - values
    return masked_mean(jnp.where(errors < 0, 1 - expectile, expectile) * errors**2, mask)


def policy_loss(log_probs: Array, weights: Array, mask: Array) -> Float[Array, ""]:
    """-w log π(a) (Theorem 1; Algorithm 1, line 8), mean over the mask, no gradient through w."""
    return masked_mean(-jax.lax.stop_gradient(weights) * log_probs, mask)
