"""How a network is told actions: those of the agents before, and the last one of the step before.

A *code* stands for one action or for none, in a form that can be carried and selected; its *inputs*
are what a Dense layer takes. Both kinds of action go through this interface.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float, Int, Shaped

from oryx_marl.ops.distributions import Actions, scale_to_unit
from oryx_marl.types import ActionSpace

Codes = Shaped[Array, "..."]
"""[*batch] for discrete actions, [*batch, 3 + A] for boxes."""
Mask = Bool[Array, "*batch"]


@runtime_checkable
class ActionTokens(Protocol):
    """Codes of the actions of one space."""

    @property
    def num_inputs(self) -> int:
        """Width of `inputs`."""
        ...

    def encode(self, actions: Actions) -> Codes: ...

    def nothing(self, shape: tuple[int, ...]) -> Codes:
        """Codes that stand for no action."""
        ...

    def exists(self, codes: Codes) -> Mask:
        """Whether codes stand for an action."""
        ...

    def as_last(self, codes: Codes) -> Codes:
        """The same actions, told as those of the step before."""
        ...

    def where(self, mask: Mask, codes: Codes, others: Codes) -> Codes:
        """`codes` where the mask holds, `others` elsewhere."""
        ...

    def take(self, actions: Actions, index: Int[Array, "*batch N"]) -> Actions:
        """Actions of the agents at `index`, along the axis of agents."""
        ...

    def inputs(self, codes: Codes, dtype: DTypeLike) -> Float[Array, "*batch num_inputs"]: ...


@dataclass(frozen=True)
class DiscreteTokens:
    """A code is the action plus 1, or 0; inputs are one-hot."""

    num_actions: int
    remembers: bool = False
    """Whether actions of the step before are told apart from those of this step."""

    @property
    def num_inputs(self) -> int:
        return 1 + self.num_actions * (2 if self.remembers else 1)

    def encode(self, actions: Int[Array, "*batch"]) -> Int[Array, "*batch"]:
        return actions + 1

    def nothing(self, shape: tuple[int, ...]) -> Int[Array, "*batch"]:
        return jnp.zeros(shape, jnp.int32)

    def exists(self, codes: Int[Array, "*batch"]) -> Mask:
        return codes > 0

    def as_last(self, codes: Int[Array, "*batch"]) -> Int[Array, "*batch"]:
        return jnp.where(codes > 0, codes + self.num_actions, 0)

    def where(self, mask: Mask, codes: Codes, others: Codes) -> Codes:
        return jnp.where(mask, codes, others)

    def take(self, actions: Actions, index: Int[Array, "*batch N"]) -> Actions:
        return jnp.take_along_axis(actions, index, -1)

    def inputs(self, codes: Codes, dtype: DTypeLike) -> Float[Array, "*batch num_inputs"]:
        # One-hot, not a lookup: the gradient of its product is a product too, and repeats exactly.
        return jax.nn.one_hot(codes, self.num_inputs, dtype=dtype)


@dataclass(frozen=True)
class BoxTokens:
    """A code is (no action, of this step, of the step before) one-hot, and the action scaled to
    [-1, 1]; inputs are the code itself."""

    low: tuple[float, ...]
    high: tuple[float, ...]

    @property
    def num_inputs(self) -> int:
        return 3 + len(self.low)

    def encode(self, actions: Float[Array, "*batch A"]) -> Float[Array, "*batch W"]:
        low, high = np.array(self.low, np.float32), np.array(self.high, np.float32)
        scaled = scale_to_unit(actions, jnp.asarray(low), jnp.asarray(high))
        return jnp.concatenate([self._kind(1, actions.shape[:-1]), scaled], axis=-1)

    def nothing(self, shape: tuple[int, ...]) -> Float[Array, "*batch W"]:
        return jnp.concatenate([self._kind(0, shape), jnp.zeros((*shape, len(self.low)))], axis=-1)

    def exists(self, codes: Float[Array, "*batch W"]) -> Mask:
        return codes[..., 0] == 0

    def as_last(self, codes: Float[Array, "*batch W"]) -> Float[Array, "*batch W"]:
        told = jnp.concatenate([self._kind(2, codes.shape[:-1]), codes[..., 3:]], axis=-1)
        return self.where(self.exists(codes), told, codes)

    def where(self, mask: Mask, codes: Codes, others: Codes) -> Codes:
        return jnp.where(mask[..., None], codes, others)

    def take(self, actions: Actions, index: Int[Array, "*batch N"]) -> Actions:
        return jnp.take_along_axis(actions, index[..., None], -2)

    def inputs(self, codes: Codes, dtype: DTypeLike) -> Float[Array, "*batch num_inputs"]:
        return codes.astype(dtype)

    def _kind(self, kind: int, shape: tuple[int, ...]) -> Float[Array, "*batch 3"]:
        return jnp.broadcast_to(jax.nn.one_hot(kind, 3), (*shape, 3))


def action_tokens(space: ActionSpace, remembers: bool = False) -> ActionTokens:
    """Those of an action space; `remembers` if actions of the step before are told too."""
    if space.kind == "discrete":
        return DiscreteTokens(space.size, remembers)
    return BoxTokens(space.low, space.high)


def latest_codes(tokens: ActionTokens, actions: Actions, agent_mask: Bool[Array, "*B N"]) -> Codes:
    """The action of the last present agent up to each, itself included."""
    order = jnp.arange(agent_mask.shape[-1])
    latest = jax.lax.cummax(jnp.where(agent_mask, order, -1), axis=agent_mask.ndim - 1)
    chosen = tokens.encode(tokens.take(actions, jnp.maximum(latest, 0)))
    return tokens.where(latest >= 0, chosen, tokens.nothing(agent_mask.shape))


def previous_codes(
    tokens: ActionTokens, actions: Actions, agent_mask: Bool[Array, "*B N"]
) -> Codes:
    """The same of the agents before each."""
    axis = agent_mask.ndim - 1
    chosen = latest_codes(tokens, actions, agent_mask)
    kept = jax.lax.slice_in_dim(chosen, 0, agent_mask.shape[-1] - 1, axis=axis)
    return jnp.concatenate([tokens.nothing((*agent_mask.shape[:-1], 1)), kept], axis=axis)
