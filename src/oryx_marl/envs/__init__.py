"""Where logs come from: one file per family of environments.

Nothing is imported before it is needed: worker processes open this package without JAX.
"""

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from oryx_marl.types import Spec

if TYPE_CHECKING:
    from oryx_marl.envs.base import Env, HostEnv


@runtime_checkable
class Predictor(Protocol):
    """The next state of a logged step in the installed simulator, from the log alone.

    A family has one in `_<family>_physics.py`, `make_predictor(**config)`.
    """

    name: str
    """The environment's."""
    spec: Spec
    """The environment's."""
    simulator: str
    """Its name and version."""
    episode_limit: int | None

    def find_fault(self, spec: Spec) -> str | None:
        """Why logs of this Spec cannot be compared, or None."""
        ...

    def read(self, observations: np.ndarray, state: np.ndarray | None) -> np.ndarray:
        """What the physics of R logged steps consists of, [R, P]."""
        ...

    def find_usable(self, read: np.ndarray) -> np.ndarray:
        """Of which rows that is all known, [R]."""
        ...

    def step(self, read: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """What the simulator makes of it with these actions, [R, P]."""
        ...


def find_predictor(family: str, config: Mapping[str, Any]) -> Predictor | None:
    """That of a family and a config; None where it has none. Imports nothing from elsewhere."""
    name = f"{__name__}._{family}_physics"
    if not family.isidentifier() or importlib.util.find_spec(name) is None:
        return None
    return importlib.import_module(name).make_predictor(**config)


def to_pettingzoo(env: "Env | str", render_mode: str | None = None) -> Any:
    """An environment, or the one of a name, as a `pettingzoo.ParallelEnv`.

    `render_mode` is None, "rgb_array" or "ansi".
    """
    from oryx_marl.envs import base

    base.optional("pettingzoo")
    adapter: Any = base.optional("oryx_marl.envs.adapters.to_pettingzoo")
    found = base.make_named(env) if isinstance(env, str) else env
    return adapter.PettingZoo(base.require_jax(found, "PettingZoo's interface"), render_mode)


def as_env(thing: Any, **options: Any) -> "Env | HostEnv":
    """Whatever a user calls an environment, as one that can be scored; see adapters/accept.py."""
    from oryx_marl.envs.adapters import accept

    return accept.as_env(thing, **options)


def resolve(name: str) -> Callable[..., Any]:
    """What `package.module:make` names."""
    from oryx_marl.envs.adapters import factory

    return factory.resolve(name)
