"""The protocol of environments written in JAX."""

from typing import Any, Protocol

import jax
import numpy as np

from oryx_marl import registry
from oryx_marl.errors import OryxError
from oryx_marl.types import Spec, Step

State = Any
"""A pytree that only the environment that made it reads."""


class Env(Protocol):
    """A pure environment: all randomness comes from the key, all memory is in the state."""

    spec: Spec
    version: int
    """Counted up when the rules change: logs of different versions are not comparable."""
    action_names: tuple[str, ...]
    """What each discrete action is called."""
    return_name: str
    """What the mean return of episodes is: 'success rate' where it is 0 or 1, else 'return'."""

    def reset(self, key: jax.Array) -> tuple[State, Step]:
        """The first step of an episode; its rewards are 0 and nothing has ended."""
        ...

    def step(self, state: State, actions: jax.Array, key: jax.Array) -> tuple[State, Step]:
        """The next step. What happens after an end is undefined: the roll-out resets."""
        ...

    def render_text(self, state: State) -> str:
        """A picture of the state in characters."""
        ...

    def render_rgb(self, state: State) -> np.ndarray:
        """A picture of the state, uint8 [height, width, 3]."""
        ...


def make(spec: Spec) -> Env:
    """The environment that a Spec describes."""
    if not spec.environment:
        raise OryxError("this data comes from no environment we know, so nothing can be rolled out")
    return registry.load("envs", spec.environment).make(**spec.environment_config)
