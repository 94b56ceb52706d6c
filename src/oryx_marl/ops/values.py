"""Action values: what losses ask of a critic, whatever kind of action it values."""

from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from oryx_marl.ops.distributions import Actions, Categorical, take_action


@runtime_checkable
class ActionValues(Protocol):
    """Q(s, ·) for every entry of a batch."""

    def at(self, actions: Actions) -> Float[Array, "*batch"]:
        """Q of the given actions."""
        ...

    def expected(self, policy: Any) -> Float[Array, "*batch"]:
        """The expectation of Q under the policy."""
        ...

    def best(self, mask: Bool[Array, "*batch A"]) -> Float[Array, "*batch"]:
        """The largest Q of an action that may be taken."""
        ...


class DiscreteValues(NamedTuple):
    """One Q per action; expectations are exact."""

    values: Float[Array, "*batch A"]

    def at(self, actions: Int[Array, "*batch"]) -> Float[Array, "*batch"]:
        return take_action(self.values, actions)

    def expected(self, policy: Categorical) -> Float[Array, "*batch"]:
        return jnp.sum(jnp.exp(policy.log_probs) * self.values, axis=-1)

    def best(self, mask: Bool[Array, "*batch A"]) -> Float[Array, "*batch"]:
        return jnp.where(mask, self.values, -jnp.inf).max(axis=-1)
