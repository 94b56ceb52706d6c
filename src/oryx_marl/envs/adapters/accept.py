"""Whatever a user calls an environment, as one that the Evaluator takes."""

import contextlib
import os
import warnings
from collections.abc import Mapping
from typing import Any

from oryx_marl.envs import base
from oryx_marl.envs.adapters.factory import resolve
from oryx_marl.envs.adapters.from_pettingzoo import ParallelEnvs
from oryx_marl.envs.base import Env, HostEnv
from oryx_marl.errors import OryxError, OryxWarning
from oryx_marl.types import Spec

NUM_ENVS = 16
"""PettingZoo environments side by side, where nobody says."""


def as_env(
    thing: Any,
    *,
    num_envs: int | None = None,
    num_workers: int | None = None,
    episode_limit: int | None = None,
    fits: Spec | None = None,
) -> Env | HostEnv:
    """An environment out of what a user has.

    Args:
        thing: one of our JAX environments or of a HostEnv; a PettingZoo parallel environment; a
            function without arguments that makes one of these; or text: `package.module:make` for
            such a function, else the name of an environment that comes with the package.
        num_envs: environments outside JAX side by side. Default: 16 of PettingZoo's, or as many as
            one of ours chooses. An instance is the only one of its kind.
        num_workers: processes, or threads, that they run in; 0 is this one. Default: one per
            processor.
        episode_limit: steps after which episodes of PettingZoo environments are cut off.
        fits: what the policy was made for. An error says where the environment differs.
    """
    agents = () if fits is None else fits.agents
    if isinstance(thing, str) and ":" not in thing:
        env: Any = base.make_named(thing, num_envs, num_workers)
    elif _is_pettingzoo(thing):
        env = ParallelEnvs(lambda: thing, 1, 0, episode_limit=episode_limit, agents=agents)
    elif _is_ours(thing):
        env = thing
    else:
        count = NUM_ENVS if num_envs is None else num_envs
        workers = min(count, os.cpu_count() or 1) if num_workers is None else num_workers
        env = _from_factory(thing, count, workers, episode_limit, agents)
    if fits is not None:
        require_fit(fits, env)
    return env


def require_fit(spec: Spec, env: Env | HostEnv) -> None:
    """Raises unless a policy made for `spec` can act in an environment."""
    differences = spec.misfits(env.spec)
    told = f"the policy's are {', '.join(spec.agents)}, not {', '.join(env.spec.agents)}"
    if not differences and spec.agents != env.spec.agents:
        if set(spec.agents) == set(env.spec.agents):
            differences = [f"agents stand in another order: {told}"]
        else:
            warnings.warn(
                f"the agents of '{env.name}' have other names: {told}; they are matched by place",
                OryxWarning,
                stacklevel=3,
            )
    if differences:
        if base.is_host(env):
            env.close()
        raise OryxError(
            f"the policy does not fit the environment '{env.name}'; {'; '.join(differences)} "
            "(the policy's against the environment's)"
        )


def _from_factory(
    thing: Any,
    num_envs: int,
    num_workers: int,
    episode_limit: int | None,
    agents: tuple[str, ...],
) -> Env | HostEnv:
    factory = resolve(thing) if isinstance(thing, str) else thing
    if not callable(factory) or isinstance(factory, Mapping):
        raise _tell_unknown(thing)
    try:
        made = factory()
    except OryxError:
        raise
    except Exception as error:  # a user's function may raise anything
        name = thing if isinstance(thing, str) else getattr(thing, "__name__", repr(thing))
        raise OryxError(
            f"the environment of {name} could not be made: {type(error).__name__}: {error}"
        ) from error
    if _is_pettingzoo(made):
        with contextlib.suppress(Exception):  # that it can be closed is not asked for
            made.close()
        return ParallelEnvs(
            thing, num_envs, num_workers, episode_limit=episode_limit, agents=agents
        )
    if _is_ours(made):
        return made
    raise _tell_unknown(made)


def _is_pettingzoo(thing: Any) -> bool:
    """Not by its class: environments need not inherit from PettingZoo's."""
    parts = ("possible_agents", "observation_space", "action_space", "reset", "step")
    if isinstance(thing, type) or not all(hasattr(thing, part) for part in parts):
        return False
    if hasattr(thing, "agent_iter"):
        raise OryxError(
            "agents take turns in this environment (PettingZoo's AEC interface); wrap it first: "
            "pettingzoo.utils.aec_to_parallel(env)"
        )
    return True


def _is_ours(thing: Any) -> bool:
    parts = ("reset", "step")
    return (
        not isinstance(thing, type)
        and isinstance(getattr(thing, "spec", None), Spec)
        and all(callable(getattr(thing, part, None)) for part in parts)
    )


def _tell_unknown(thing: Any) -> OryxError:
    return OryxError(
        f"{thing!r} is no environment: give one of this package, a PettingZoo parallel "
        "environment, or a function without arguments that makes one"
    )
