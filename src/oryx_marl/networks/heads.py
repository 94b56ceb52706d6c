"""Heads: from features to a distribution over actions.

`family(space)` is the one place that asks which kind of action there is.
"""

from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from oryx_marl.networks.layers import Head
from oryx_marl.ops.distributions import (
    Actions,
    Categorical,
    Distribution,
    SquashedNormal,
    categorical,
)
from oryx_marl.types import ActionSpace

LOG_STD_RANGE = (-5.0, 2.0)
"""Of a squashed Normal before it is squashed: neither a spike nor a flat line."""
EXPLORING_LOG_STD = -0.5
"""Before the first update of an online learner; the middle of the range, where others begin, is a
fifth of it, too narrow to find out anything."""


@runtime_checkable
class Family(Protocol):
    """The distributions that the actions of one space have."""

    @property
    def num_outputs(self) -> int:
        """Numbers that a network gives for each agent."""
        ...

    @property
    def acts_by_mode(self) -> bool:
        """Whether policies take the mode where nobody says how they act; else they sample."""
        ...

    def distribution(
        self, outputs: Float[Array, "*batch K"], mask: Bool[Array, "*batch A"]
    ) -> Distribution:
        """The distribution that a network's outputs stand for, under action masks."""
        ...

    def exploring_bias(self) -> Float[Array, " K"]:
        """Outputs with which a policy that learns from its own actions begins."""
        ...

    def draw_noise(self, key: Array, shape: tuple[int, ...]) -> Float[Array, "*shape A"]:
        """What `Distribution.sample` turns into actions."""
        ...

    def zeros(self, shape: tuple[int, ...]) -> Actions:
        """Actions of zeros, where there are none yet."""
        ...


@dataclass(frozen=True)
class CategoricalFamily:
    """Outputs are logits."""

    num_outputs: int
    acts_by_mode: ClassVar[bool] = False

    def distribution(
        self, outputs: Float[Array, "*batch A"], mask: Bool[Array, "*batch A"]
    ) -> Categorical:
        return categorical(outputs, mask)

    def exploring_bias(self) -> Float[Array, " A"]:
        """All actions alike."""
        return jnp.zeros(self.num_outputs)

    def draw_noise(self, key: Array, shape: tuple[int, ...]) -> Float[Array, "*shape A"]:
        return jax.random.gumbel(key, (*shape, self.num_outputs))

    def zeros(self, shape: tuple[int, ...]) -> Actions:
        return jnp.zeros(shape, jnp.int32)


@dataclass(frozen=True)
class SquashedNormalFamily:
    """Outputs are means and bounded logarithms of standard deviations; masks mean nothing."""

    low: tuple[float, ...]
    high: tuple[float, ...]
    # Noise around a good vector only costs return; around a good id it keeps agents from stalling.
    acts_by_mode: ClassVar[bool] = True

    @property
    def num_outputs(self) -> int:
        return 2 * len(self.low)

    def distribution(
        self, outputs: Float[Array, "*batch K"], mask: Bool[Array, "*batch A"]
    ) -> SquashedNormal:
        mean, spread = jnp.split(outputs, 2, axis=-1)
        least, most = LOG_STD_RANGE
        log_std = least + (most - least) * jax.nn.sigmoid(spread)
        return SquashedNormal(mean, log_std, jnp.array(self.low), jnp.array(self.high))

    def exploring_bias(self) -> Float[Array, " K"]:
        """Wide enough that actions all over the box are met."""
        least, most = LOG_STD_RANGE
        share = (EXPLORING_LOG_STD - least) / (most - least)
        spread = jnp.full(len(self.low), np.log(share / (1 - share)))
        return jnp.concatenate([jnp.zeros(len(self.low)), spread])

    def draw_noise(self, key: Array, shape: tuple[int, ...]) -> Float[Array, "*shape A"]:
        return jax.random.normal(key, (*shape, len(self.low)))

    def zeros(self, shape: tuple[int, ...]) -> Actions:
        return jnp.zeros((*shape, len(self.low)))


def family(space: ActionSpace) -> Family:
    """That of an action space."""
    if space.kind == "discrete":
        return CategoricalFamily(space.size)
    return SquashedNormalFamily(space.low, space.high)


class PolicyHead(Head):
    """A Head whose outputs are those of a family."""

    space: ActionSpace = eqx.field(static=True)

    def __init__(self, key: Array, width: int, space: ActionSpace, explores: bool = False) -> None:
        super().__init__(key, width, family(space).num_outputs)
        self.space = space
        if explores:
            self.out = eqx.tree_at(lambda out: out.bias, self.out, family(space).exploring_bias())

    def distribution(
        self, outputs: Float[Array, "*batch K"], mask: Bool[Array, "*batch A"]
    ) -> Distribution:
        """What its outputs stand for."""
        return family(self.space).distribution(outputs, mask)
