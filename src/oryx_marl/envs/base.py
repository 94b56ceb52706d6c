"""The protocols of environments, in JAX and outside of it, and environments by name."""

import importlib
import inspect
import io
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, TypeGuard, runtime_checkable

import jax
import numpy as np

from oryx_marl import registry
from oryx_marl.errors import OryxError, UnknownNameError
from oryx_marl.installation import how_to_install
from oryx_marl.types import Spec, Step

State = Any
"""A pytree that only the environment that made it reads."""
SCRIPTS = Path(__file__).parent / "live"


@runtime_checkable
class Env(Protocol):
    """A pure environment: all randomness comes from the key, all memory is in the state.

    A family's module has `make(**config)`; where there are scenarios, also `SCENARIOS`, their names
    as people are told them, and `find_scenario(name)`, the config of one or None. With
    `name_actions(**config)` logs are shown in words without the simulator.
    """

    spec: Spec
    name: str
    """What it is called on the command line: its scenario, or its family if that has none."""
    version: int
    """Counted up when the rules change: logs of different versions are not comparable."""
    action_names: tuple[str, ...]
    """What each discrete action is called."""
    return_name: str
    """What the mean return of episodes is: 'success rate' where it is 0 or 1, else 'return'."""
    feature_range: tuple[float, float]
    """Between which numbers all features are."""
    reset_pool_rate: float
    """Where a reset costs more than a step, so that a pool of them is drawn in advance: how
    many an environment needs per step, at most; else 0."""
    num_starts: int | None
    """How many different episodes can begin, where they are few enough to meet twice; else None."""

    def reset(self, key: jax.Array) -> tuple[State, Step]:
        """The first step of an episode; its rewards are 0 and nothing has ended.

        Where steps report metrics, it has the same names.
        """
        ...

    def step(self, state: State, actions: jax.Array, key: jax.Array) -> tuple[State, Step]:
        """The next step, after actions [N] int32 or [N, A] float32.

        What happens after an end is undefined: the roll-out resets.
        """
        ...

    def render_text(self, state: State) -> str:
        """A picture of the state in characters."""
        ...

    def render_rgb(self, state: State) -> np.ndarray:
        """A picture of the state, uint8 [height, width, 3]."""
        ...

    def __hash__(self) -> int:
        """Environments of equal settings are equal, so that they share compiled code."""
        ...


@runtime_checkable
class HostEnv(Protocol):
    """E environments of one kind outside JAX, stepped together; numpy in and out.

    The leaves of a Step have a leading axis of environments. All randomness comes from the seeds:
    equal seeds and actions give equal steps. Whatever it reports in `Step.metrics` may appear with
    time; NaN stands where nothing was reported. With `render_rgb(which)`, a picture of one of them
    as it is now, runs keep replays; `simulator` names what its recordings depend on.

    A family's `make` takes `num_envs`, how many there are, and `num_workers`, threads or processes
    for them, besides what goes into the Spec.
    """

    spec: Spec
    name: str
    """What it is called in tables and messages."""
    action_names: tuple[str, ...]
    """What each discrete action, or dimension of a box, is called."""
    return_name: str
    """What the mean return of episodes is: 'success rate' where it is 0 or 1, else 'return'."""
    num_envs: int
    """E, how many are stepped together."""

    def reset(self, which: np.ndarray, seeds: np.ndarray) -> Step:
        """Begins an episode in the environments `which` [K], each with a seed of its own [K].

        Their first steps, [K, ...]; rewards are 0 and nothing has ended.
        """
        ...

    def step(self, actions: np.ndarray) -> Step:
        """The next step of all, [E, ...], after actions [E, N] int32 or [E, N, A] float32.

        An environment that has ended is not stepped and repeats its last step; one that has not
        begun counts as ended, with nobody present.
        """
        ...

    def close(self) -> None:
        """Ends what runs for it; may be called twice."""
        ...


def is_host(env: Env | HostEnv) -> TypeGuard[HostEnv]:
    """Whether an environment runs outside JAX."""
    return hasattr(env, "num_envs")


def require_jax(env: Env | HostEnv, what: str) -> Env:
    """The environment, if it is written in JAX, which `what` needs."""
    if is_host(env):
        raise OryxError(
            f"{what} needs an environment written in JAX, and '{env.name}' runs outside of it"
        )
    return env  # type: ignore[return-value]


def make(spec: Spec, num_envs: int | None = None, num_workers: int | None = None) -> Env | HostEnv:
    """The environment that a Spec describes; families outside JAX make a HostEnv.

    Of those there are `num_envs`, stepped by `num_workers`; where None, as many as they choose.
    """
    if not spec.environment:
        raise OryxError(
            "this data comes from no environment we know, so nothing can be rolled out; name one "
            "with env, such as package.module:make"
        )
    return _build(spec.environment, spec.environment_config, num_envs, num_workers)


def make_named(
    name: str, num_envs: int | None = None, num_workers: int | None = None
) -> Env | HostEnv:
    """The environment of a scenario's name, such as con-15x15x23a, or a family's default one."""
    return _build(*find(name), num_envs, num_workers)


def _build(
    family: str, config: Mapping[str, Any], num_envs: int | None, num_workers: int | None
) -> Env | HostEnv:
    """What a family makes; a PettingZoo environment of a plug-in becomes a HostEnv."""
    module = registry.load("envs", family)
    sizes = {"num_envs": num_envs, "num_workers": num_workers}
    taken = inspect.signature(module.make).parameters  # a family in JAX has no use for them
    given = {name: size for name, size in sizes.items() if size is not None and name in taken}
    factory = partial(module.make, **{**config, **given})
    try:
        made = factory()
    except (TypeError, ValueError) as error:
        # Settings out of a file can have any name and value; without any, it is the code's fault.
        if not config:
            raise
        raise OryxError(f"{family} cannot be made with {dict(config)!r:.200}: {error}") from error
    if not hasattr(made, "possible_agents"):
        return made
    from oryx_marl.envs.adapters.accept import as_env  # which needs this file

    # In this process: a file that was named with --plugin cannot be imported by others.
    return as_env(factory, num_workers=0)


def resize(env: Env | HostEnv, name: str, num_envs: int) -> Env | HostEnv:
    """The environment of a name, of which `env` was made, with `num_envs` of them side by side.

    In JAX any number of them can be, so it stays as it is.
    """
    if not is_host(env) or env.num_envs == num_envs:
        return env
    from oryx_marl.envs.adapters.accept import ParallelEnvs, as_env  # which need this file

    family, config = find(name)
    factory = partial(registry.load("envs", family).make, **config)
    env.close()
    if "num_envs" in inspect.signature(factory).parameters:
        return factory(num_envs=num_envs)
    if isinstance(env, ParallelEnvs):
        return as_env(factory, num_workers=0, num_envs=num_envs)
    raise OryxError(
        f"'{name}' steps {env.num_envs} environments together, and its make() takes no num_envs: "
        f"set num_envs to {env.num_envs}"
    )


def find(name: str) -> tuple[str, dict[str, Any]]:
    """The family and the config that a name stands for, or an error that lists what there is."""
    known = []
    for family in registry.names("envs"):
        if name == family:
            return family, {}
        module = registry.load("envs", family)
        scenarios = getattr(module, "SCENARIOS", ())
        known.append(f"{family} ({', '.join(scenarios)})" if scenarios else family)
        config = module.find_scenario(name) if scenarios else None
        if config is not None:
            return family, config
    raise UnknownNameError(f"there is no environment '{name}'; there is: {'; '.join(known)}")


def find_script(spec: Spec) -> Path | None:
    """The environment of a Spec in JavaScript, which pages play it in; None where there is none.

    Its file is `live/<family>.js` here. It defines `Environment.make(config)`, which has the
    environment's step, features, masks and picture, as those two files show.
    """
    known = {path.stem: path for path in SCRIPTS.glob("*.js")}
    return known.get(spec.environment or "")


def find_action_names(spec: Spec) -> list[str] | None:
    """What the actions of a Spec are called in its environment; None where that is not known.

    The family's module is asked, not an environment: nothing is made, and no simulator imported.
    """
    try:
        family = registry.load("envs", spec.environment) if spec.environment else None
        names = family.name_actions(**spec.environment_config) if family else ()
    except (OryxError, AttributeError, TypeError):  # unknown, says nothing, or of other settings
        return None
    is_right = spec.action.kind == "discrete" and len(names) == spec.action.size
    return list(names) if is_right else None


def optional(module: str) -> ModuleType:
    """A module of a package that comes with the extra `envs`."""
    try:
        with _quiet():
            return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise OryxError(
            f"this needs the package {error.name}; install it: {how_to_install('envs')}"
        ) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Nothing is printed. jaxmarl does while it is imported, and it puts the original streams in
    the place of those it finds, so both are put back."""
    streams = sys.stdout, sys.stderr, sys.__stdout__
    sys.stdout = sys.__stdout__ = io.StringIO()  # type: ignore[misc, assignment]
    try:
        yield
    finally:
        sys.stdout, sys.stderr, sys.__stdout__ = streams  # type: ignore[misc]
