"""Any policy in any environment: whole episodes of it as parts of a dataset."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax

from oryx_marl.algorithms.base import Acting
from oryx_marl.data.dataset import Dataset
from oryx_marl.envs.adapters.accept import as_env
from oryx_marl.envs.base import Env, HostEnv, is_host
from oryx_marl.errors import OryxError
from oryx_marl.policy.acting import name_of, resolve, temperature_of
from oryx_marl.policy.artifact import PolicyArtifact
from oryx_marl.recipes.base import one_part
from oryx_marl.rollout.record import record_episodes
from oryx_marl.runs.folder import load_policy

PART_ROWS = 200_000
"""Steps that are held in memory at a time."""


def open_policy(path: Path) -> PolicyArtifact:
    """The policy of a run or a file, with where it was found."""
    found = load_policy(path)
    return replace(found, origin={**found.origin, "run": str(path)}, sha256=found.sha256)


def find_env(name: str) -> Env | HostEnv:
    """The environment of a name, or that of `package.module:make`."""
    return as_env(name)


def require_fit(policy: PolicyArtifact, env: Env | HostEnv, path: Path) -> None:
    """Raises unless the policy, which is that of `path`, can act in the environment."""
    if misfits := policy.spec.misfits(env.spec):
        if is_host(env):
            env.close()
        raise OryxError(f"the policy of {path} cannot act in {env.name}: {'; '.join(misfits)}")


def describe_env(env: Env | HostEnv) -> dict[str, Any]:
    """What is kept of an environment beside its Spec: other versions play differently."""
    found = {"environment_version": getattr(env, "version", None)}
    return {**found, "simulator": env.simulator} if hasattr(env, "simulator") else found


def record_policy(
    env: Env | HostEnv,
    policy: PolicyArtifact,
    rows: int,
    seed: int,
    tell: Callable[[str], None],
    act: str | float | None = None,
) -> Iterator[Dataset]:
    """Whole episodes of the policy's first seed; an environment outside of JAX is closed then."""
    act = resolve(act, policy.spec.action)
    notes = {
        "policies": [{**policy.origin, "act": name_of(act), "sha256": policy.sha256}],
        **describe_env(env),
    }
    try:
        yield from record_parts(
            policy.algorithm,
            policy.weights_of(),
            env,
            rows,
            seed,
            tell,
            temperature_of(act),
            **notes,
        )
    finally:
        if is_host(env):
            env.close()


def record_parts(
    acting: Acting,
    weights: Any,
    env: Env | HostEnv,
    rows: int,
    seed: int,
    tell: Callable[[str], None],
    temperature: float = 1.0,
    **notes: Any,
) -> Iterator[Dataset]:
    """Whole episodes in parts, cut after the first with which `rows` are reached."""
    key, done = jax.random.key(seed), 0
    while done < rows:
        wanted, part_key = min(rows - done, PART_ROWS), jax.random.fold_in(key, done)
        arrays, _ = record_episodes(acting, env, weights, wanted, part_key, temperature=temperature)
        done += len(arrays["rewards"])
        tell(f"{done:,} of {rows:,} steps rolled out")
        yield one_part(env.spec, arrays, **notes)
