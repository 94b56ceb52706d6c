"""Distributions over the actions of agents: ids under action masks, and vectors inside a box."""

from typing import NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Shaped

Actions = Shaped[Array, "..."]
"""[*batch] int32 ids, or [*batch, A] float32 vectors."""

EDGE = 1e-3
"""How close to a bound of a box, as a share of its half width, an action counts as clipped there:
at a bound the density of a squashed Normal is not finite, and many logs have clipped actions."""
AGREEMENT = 0.05
"""Share of a box's width within which two actions count as the same."""


@runtime_checkable
class Distribution(Protocol):
    """Of one action for every entry of the batch."""

    def sample(self, noise: Float[Array, "*batch A"]) -> Actions:
        """Actions, a function of the noise alone; `heads.Family.draw_noise` draws it.

        Noise of τ times that size gives draws at temperature τ, and none (zeros) the mode.
        """
        ...

    def mode(self) -> Actions:
        """What greedy acting does."""
        ...

    def log_prob(self, actions: Actions) -> Float[Array, "*batch"]: ...

    def entropy(self) -> Float[Array, "*batch"]: ...

    def supports(self, actions: Actions) -> Bool[Array, "*batch"]:
        """Whether logged actions can be learned from: those under a false mask cannot."""
        ...

    def agrees(self, actions: Actions) -> Bool[Array, "*batch"]:
        """Whether greedy acting does the same."""
        ...

    def extremes(self) -> dict[str, Float[Array, ""]]:
        """Parameters that run away when something is wrong, as metrics to be watched.

        `max_logit` is the largest |logit| or |mean|, which grows without bound when labels are
        impossible; `min_log_std`, of those that have one, falls when a policy becomes a spike.
        """
        ...


class Categorical(NamedTuple):
    """One of A actions, those under a false mask with probability 0."""

    logits: Float[Array, "*batch A"]
    mask: Bool[Array, "*batch A"]
    log_probs: Float[Array, "*batch A"]

    def sample(self, noise: Float[Array, "*batch A"]) -> Int[Array, "*batch"]:
        """Gumbel-max: `noise` is standard Gumbel."""
        return jnp.argmax(noise + self.log_probs, axis=-1).astype(jnp.int32)

    def mode(self) -> Int[Array, "*batch"]:
        return self.log_probs.argmax(axis=-1).astype(jnp.int32)

    def log_prob(self, actions: Int[Array, "*batch"]) -> Float[Array, "*batch"]:
        return take_action(self.log_probs, actions)

    def entropy(self) -> Float[Array, "*batch"]:
        return entropy(self.log_probs)

    def supports(self, actions: Int[Array, "*batch"]) -> Bool[Array, "*batch"]:
        return take_action(self.mask, actions)

    def agrees(self, actions: Int[Array, "*batch"]) -> Bool[Array, "*batch"]:
        return self.mode() == actions

    def extremes(self) -> dict[str, Float[Array, ""]]:
        return {"max_logit": jnp.abs(self.logits).max()}

    def at_temperature(self, temperature: float) -> "Categorical":
        """What actions are drawn from with so much of the noise; at 0 the mode alone."""
        if temperature > 0:
            return categorical(self.log_probs / temperature, self.mask)
        is_mode = jnp.arange(self.log_probs.shape[-1]) == self.mode()[..., None]
        return self._replace(log_probs=jnp.where(is_mode, 0.0, -jnp.inf))


def categorical(logits: Float[Array, "*batch A"], mask: Bool[Array, "*batch A"]) -> Categorical:
    """The distribution of given logits."""
    return Categorical(logits, mask, masked_log_softmax(logits, mask))


class SquashedNormal(NamedTuple):
    """a = centre + half width · tanh(x) with x ~ Normal(mean, exp(log_std)), dimensions independent
    (Haarnoja et al., 2018, appendix C)."""

    mean: Float[Array, "*batch A"]
    log_std: Float[Array, "*batch A"]
    low: Float[Array, "*bounds A"]
    high: Float[Array, "*bounds A"]

    def sample(self, noise: Float[Array, "*batch A"]) -> Float[Array, "*batch A"]:
        """`noise` is standard Normal."""
        return self._squash(self.mean + jnp.exp(self.log_std) * noise)

    def mode(self) -> Float[Array, "*batch A"]:
        """The median, as is usual: the density itself may peak at a bound."""
        return self._squash(self.mean)

    def log_prob(self, actions: Float[Array, "*batch A"]) -> Float[Array, "*batch"]:
        """The log density, and of a dimension that is clipped at a bound, or lies beyond it, the
        log of the probability mass from there on (as in Tobit regression)."""
        x = unsquash(actions, self.low, self.high)
        deviation = (x - self.mean) * jnp.exp(-self.log_std)
        density = -0.5 * deviation**2 - self.log_std - 0.5 * np.log(2 * np.pi) - self._log_slope(x)
        beyond = jax.scipy.special.log_ndtr(jnp.where(x > 0, -deviation, deviation))
        share = scale_to_unit(actions, self.low, self.high)
        return jnp.sum(jnp.where(jnp.abs(share) >= 1 - EDGE, beyond, density), axis=-1)

    def entropy(self) -> Float[Array, "*batch"]:
        """H(x) + E[log da/dx]; the mean over x has no closed form: Gauss-Hermite quadrature.

        That of the actions, not of x: it is greatest where they are uniform over the box, while
        H(x) grows for ever and, as a bonus, would drive all actions to the bounds.
        """
        nodes, weights = np.polynomial.hermite_e.hermegauss(16)
        deviations = jnp.asarray(nodes[(slice(None), *[None] * self.mean.ndim)], jnp.float32)
        shares = jnp.asarray(weights / weights.sum(), jnp.float32)
        slopes = self._log_slope(self.mean + jnp.exp(self.log_std) * deviations)
        stretch = jnp.tensordot(shares, slopes, axes=1)
        return jnp.sum(self.log_std + 0.5 * np.log(2 * np.pi * np.e) + stretch, axis=-1)

    def supports(self, actions: Float[Array, "*batch A"]) -> Bool[Array, "*batch"]:
        """All finite ones: those outside of the box are taken for the nearest inside."""
        return jnp.isfinite(actions).all(axis=-1)

    def agrees(self, actions: Float[Array, "*batch A"]) -> Bool[Array, "*batch"]:
        """Within a twentieth of the box's width in every dimension."""
        slack = 2 * AGREEMENT * self._half_width
        return (jnp.abs(self.mode() - actions) <= slack).all(axis=-1)

    def extremes(self) -> dict[str, Float[Array, ""]]:
        return {"max_logit": jnp.abs(self.mean).max(), "min_log_std": self.log_std.min()}

    def at_temperature(self, temperature: float) -> "SquashedNormal":
        """What actions are drawn from with so much of the noise; at 0 there is no density."""
        return self._replace(log_std=self.log_std + np.log(temperature))

    @property
    def _half_width(self) -> Float[Array, "*bounds A"]:
        return (self.high - self.low) / 2

    def _squash(self, x: Float[Array, "*batch A"]) -> Float[Array, "*batch A"]:
        # The centre plus the half width can miss a bound by rounding.
        squashed = (self.low + self.high) / 2 + self._half_width * jnp.tanh(x)
        return jnp.clip(squashed, self.low, self.high)

    def _log_slope(self, x: Float[Array, "*batch A"]) -> Float[Array, "*batch A"]:
        """log da/dx, without the cancellation in log(1 - tanh(x)²)."""
        return jnp.log(self._half_width) + 2 * (np.log(2.0) - x - jax.nn.softplus(-2 * x))


def scale_to_unit(
    actions: Float[Array, "*batch A"],
    low: Float[Array, "*bounds A"],
    high: Float[Array, "*bounds A"],
) -> Float[Array, "*batch A"]:
    """From -1 at the lower bounds to 1 at the upper ones, actions beyond a bound at it."""
    return jnp.clip((2 * actions - low - high) / (high - low), -1, 1)


def unsquash(
    actions: Float[Array, "*batch A"],
    low: Float[Array, "*bounds A"],
    high: Float[Array, "*bounds A"],
) -> Float[Array, "*batch A"]:
    """The x of which the squashed value is `actions`, pulled inside the bounds where it must be."""
    return jnp.arctanh(jnp.clip(scale_to_unit(actions, low, high), -1 + EDGE, 1 - EDGE))


def masked_log_softmax(
    logits: Float[Array, "*batch A"], action_mask: Bool[Array, "*batch A"]
) -> Float[Array, "*batch A"]:
    """log π over the legal actions; a mask that allows nothing counts as one that allows all."""
    allowed = action_mask | ~action_mask.any(axis=-1, keepdims=True)
    return jax.nn.log_softmax(jnp.where(allowed, logits, -0.5 * jnp.finfo(logits.dtype).max))


def entropy(log_probs: Float[Array, "*batch A"]) -> Float[Array, "*batch"]:
    """-Σ π log π, with illegal actions at probability exactly 0."""
    probs = jnp.exp(log_probs)
    return -jnp.sum(jnp.where(probs > 0, probs * log_probs, 0), axis=-1)


def take_action(
    values: Shaped[Array, "*batch A"], actions: Int[Array, "*batch"]
) -> Shaped[Array, "*batch"]:
    """The entry of the given action."""
    # A sum over a mask, not a lookup: its gradient is one too, where a lookup's would be a scatter.
    is_taken = jnp.arange(values.shape[-1]) == actions[..., None]
    taken = jnp.where(is_taken, values, 0)
    return taken.any(axis=-1) if values.dtype == bool else taken.sum(axis=-1)
