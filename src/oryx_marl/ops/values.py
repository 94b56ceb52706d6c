"""Action values: what losses ask of a critic, whatever kind of action it values."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from oryx_marl.errors import OryxError
from oryx_marl.ops.distributions import Actions, Categorical, Distribution, take_action


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


class SampledValues(NamedTuple):
    """Q of actions in a box; expectations are means over actions drawn from the policy."""

    q: Callable[[Float[Array, "*batch A"]], Float[Array, "*batch Q"]]
    """Of all critics."""
    critic: int
    noise: Float[Array, "K *batch A"]
    """Of the K actions that are drawn."""

    def at(self, actions: Float[Array, "*batch A"]) -> Float[Array, "*batch"]:
        return self.q(actions)[..., self.critic]

    def expected(self, policy: Distribution) -> Float[Array, "*batch"]:
        return jax.vmap(lambda noise: self.at(policy.sample(noise)))(self.noise).mean(axis=0)

    def best(self, mask: Bool[Array, "*batch A"]) -> Float[Array, "*batch"]:
        raise OryxError(
            "the best action of a box is not known: objective=q_learning needs discrete actions"
        )


class WithStateValue(NamedTuple):
    """The action values of a critic, and the value V(s) that is learned beside them."""

    q: ActionValues
    state_value: Float[Array, "*batch"]

    def at(self, actions: Actions) -> Float[Array, "*batch"]:
        return self.q.at(actions)

    def expected(self, policy: Any) -> Float[Array, "*batch"]:
        return self.q.expected(policy)

    def best(self, mask: Bool[Array, "*batch A"]) -> Float[Array, "*batch"]:
        return self.q.best(mask)
