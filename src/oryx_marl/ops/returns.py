"""Sums of rewards over time: which pairs of steps may be linked, and returns along them.

Arrays are [B, T, N]. A pair (t, t+1) is linked where the same episode goes on, so nothing is ever
carried across a reset, and an end that is not the end of the task has no known next value.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

Mask = Bool[Array, "B T N"]
PairMask = Bool[Array, "B Tm1 N"]
Pairs = Float[Array, "B Tm1 N"]
"""One entry for each pair of steps (t, t+1)."""
Number = float | Float[Array, ""]


def td_masks(
    agent_mask: Mask, terminal: Mask, reset: Bool[Array, "B T"]
) -> tuple[PairMask, PairMask]:
    """Pairs (t, t+1) whose target is known, and those of them that need the next value for it.

    A pair of agent j counts iff j is present at t and either terminal_t^j holds, or t+1 is no reset
    and j is present there. So neither truncations nor unflagged ends are bootstrapped across, and
    terminal wins over truncation.
    """
    here, ended = agent_mask[:, :-1], terminal[:, :-1]
    goes_on = ~reset[:, 1:, None] & agent_mask[:, 1:]
    return here & (ended | goes_on), here & ~ended & goes_on


def linear_recurrence(offsets: Pairs, slopes: Pairs) -> Pairs:
    """y_t = offset_t + slope_t · y_{t+1} along T, with y = 0 after the last, without a loop."""

    def compose(later: tuple[Array, Array], earlier: tuple[Array, Array]) -> tuple[Array, Array]:
        return earlier[0] + earlier[1] * later[0], earlier[1] * later[1]

    result, _ = jax.lax.associative_scan(compose, (offsets, slopes), reverse=True, axis=1)
    return result


def td_lambda_targets(
    rewards: Pairs,
    next_values: Pairs,
    mask: PairMask,
    bootstrap_mask: PairMask,
    discount: float,
    td_lambda: float,
) -> Pairs:
    """y_t = r_t + γ V_{t+1}, and with λ > 0 the V_{t+1} is (1 - λ) V_{t+1} + λ y_{t+1} wherever
    pair t+1 has a target too, so that rewards reach earlier steps at once (TD(λ))."""
    values = jnp.where(bootstrap_mask, next_values, 0)
    next_counts = jnp.pad(mask[:, 1:], ((0, 0), (0, 1), (0, 0)))
    mixing = jnp.where(bootstrap_mask & next_counts, td_lambda, 0.0)
    offsets = rewards + discount * (1 - mixing) * values
    return linear_recurrence(offsets, discount * mixing)


def generalised_advantages(
    rewards: Pairs,
    values: Float[Array, "B T N"],
    mask: PairMask,
    bootstrap_mask: PairMask,
    discount: Number,
    gae_lambda: Number,
) -> Pairs:
    """A_t = δ_t + γλ A_{t+1} with δ_t = r_t + γ V_{t+1} - V_t (Schulman et al., 2016).

    `values` has one step more than `rewards`: the one after the last. The masks come from
    `td_masks`. A step whose next value is not known has advantage 0, and the steps before it
    end at its value.
    """
    next_values = jnp.where(bootstrap_mask, values[:, 1:], 0)
    errors = jnp.where(mask, rewards + discount * next_values - values[:, :-1], 0)
    return linear_recurrence(errors, jnp.where(bootstrap_mask, discount * gae_lambda, 0.0))
