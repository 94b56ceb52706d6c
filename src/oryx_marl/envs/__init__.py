"""Where logs come from: one file per family of environments.

Nothing is imported before it is needed: worker processes open this package without JAX.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oryx_marl.envs.base import Env, HostEnv


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
