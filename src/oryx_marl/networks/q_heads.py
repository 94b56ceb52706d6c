"""Q heads: from features to the values of actions.

`make_q_head` is the one place here that asks which kind of action there is.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.nn.initializers import he_normal, orthogonal
from jaxtyping import Array, Float

from oryx_marl.networks.layers import Dense, Head, RMSNorm
from oryx_marl.ops.distributions import scale_to_unit
from oryx_marl.ops.values import DiscreteValues, SampledValues, WithStateValue
from oryx_marl.types import ActionSpace

Noise = Float[Array, "K *batch A"]
"""Of K actions of the policy for every entry, with which expectations of Q are estimated."""


class DiscreteQHead(Head):
    """Outputs are one Q per action, of all critics one after the other."""

    num_critics: int = eqx.field(static=True)

    def __init__(self, key: Array, width: int, space: ActionSpace, num_critics: int) -> None:
        super().__init__(key, width, space.size * num_critics)
        self.num_critics = num_critics

    def values(
        self, outputs: Float[Array, "*batch Q"], noise: Noise | None
    ) -> list[DiscreteValues]:
        """Those of each critic; expectations are exact, so no noise is needed."""
        return [DiscreteValues(each) for each in jnp.split(outputs, self.num_critics, axis=-1)]


class BoxQHead(eqx.Module):
    """Q(s, a) of the agent's own action a in a box: Dense on both, GELU, norm, Dense.

    Outputs are the features' part of the hidden layer. So the network runs once, and every further
    action costs a product with its few dimensions and one with the last layer.
    """

    on_features: Dense
    on_action: Dense
    norm: RMSNorm
    out: Dense
    space: ActionSpace = eqx.field(static=True)

    def __init__(self, key: Array, width: int, space: ActionSpace, num_critics: int) -> None:
        keys = jax.random.split(key, 3)
        self.on_features = Dense(keys[0], width, width, orthogonal(2**0.5), use_bias=True)
        # Actions are at most 1 in size: as large a part of the hidden layer as the features.
        self.on_action = Dense(keys[1], space.size, width, he_normal())
        self.norm = RMSNorm(width)
        self.out = Dense(keys[2], width, num_critics, orthogonal(0.01), use_bias=True)
        self.space = space

    def __call__(self, features: Float[Array, "*batch D"]) -> Float[Array, "*batch D"]:
        return self.on_features(features, exact=True)

    def values(self, outputs: Float[Array, "*batch D"], noise: Noise | None) -> list[SampledValues]:
        """Those of each critic."""
        assert noise is not None, "expectations over a box need actions to be drawn"

        def q(actions: Float[Array, "*batch A"]) -> Float[Array, "*batch Q"]:
            scaled = scale_to_unit(actions, jnp.array(self.space.low), jnp.array(self.space.high))
            return self.out(self.norm(jax.nn.gelu(outputs + self.on_action(scaled))))

        return [SampledValues(q, index, noise) for index in range(self.out.weight.shape[1])]


class ValueQHead(eqx.Module):
    """A Q head with a head for V(s) beside it; outputs are those of Q, then V."""

    q_head: DiscreteQHead | BoxQHead
    value_head: Head

    def __call__(self, features: Float[Array, "*batch D"]) -> Float[Array, "*batch Q"]:
        return jnp.concatenate([self.q_head(features), self.value_head(features)], axis=-1)

    def values(self, outputs: Float[Array, "*batch Q"], noise: Noise | None) -> list[Any]:
        """Those of each critic, each with the one V."""
        found = self.q_head.values(outputs[..., :-1], noise)
        return [WithStateValue(each, outputs[..., -1]) for each in found]


QHead = DiscreteQHead | BoxQHead | ValueQHead


def make_q_head(
    key: Array, width: int, space: ActionSpace, num_critics: int = 1, has_value: bool = False
) -> QHead:
    """A fresh head for the actions of a space; with `has_value` V(s) is learned too."""
    kind = DiscreteQHead if space.kind == "discrete" else BoxQHead
    head = kind(key, width, space, num_critics)
    return ValueQHead(head, Head(jax.random.fold_in(key, 1), width, 1)) if has_value else head
