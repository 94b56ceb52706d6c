"""Any policy in any environment: whole episodes of it as parts of a dataset."""

from collections.abc import Callable, Iterator

import jax

from oryx_marl.data.dataset import Dataset
from oryx_marl.envs.base import Env, HostEnv
from oryx_marl.policy.artifact import PolicyArtifact
from oryx_marl.recipes.base import one_part
from oryx_marl.rollout.record import record_episodes

PART_ROWS = 200_000
"""Steps that are held in memory at a time."""


def record_policy(
    env: Env | HostEnv, policy: PolicyArtifact, rows: int, seed: int, tell: Callable[[str], None]
) -> Iterator[Dataset]:
    """Whole sampled episodes of one policy, cut after the first with which `rows` are reached."""
    key, done, weights = jax.random.key(seed), 0, policy.weights_of()
    about = {**policy.origin, "sha256": policy.sha256}
    notes = {"policies": [about], "environment_version": getattr(env, "version", None)}
    while done < rows:
        arrays, _ = record_episodes(
            policy.algorithm,
            env,
            weights,
            min(rows - done, PART_ROWS),
            jax.random.fold_in(key, done),
        )
        done += len(arrays["rewards"])
        tell(f"{done:,} of {rows:,} steps rolled out")
        yield one_part(env.spec, arrays, **notes)
