"""Recipes that every scenario of an environment has: a recorded training, and its final policy."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

from oryx_marl.algorithms import sable
from oryx_marl.data.dataset import Dataset
from oryx_marl.envs import base
from oryx_marl.errors import OryxError
from oryx_marl.networks.sable import NetworkConfig
from oryx_marl.recipes._policies import KEPT, record_training, roll_out
from oryx_marl.recipes.base import TRAINING, Recipe, Request

CONFIG = sable.Config(
    network=NetworkConfig(num_heads=4),
    num_envs=1024,
    rollout_length=16,
    minibatches=8,
)
"""Of all trainings: short roll-outs, and many small steps on them."""


@dataclass(frozen=True)
class Training:
    """What differs between scenarios."""

    steps: int = 20_000_000
    learning_rate: float = 5e-4


def make(scenario: str, training: Training) -> dict[str, Recipe]:
    """`replay` and `expert` of a scenario that Sable learns so."""
    return {
        "replay": Recipe(
            description=f"a million of the {training.steps / 1e6:g} million steps in which "
            "Sable learns",
            run=partial(_record, scenario, training),
            rows=1_000_000,
            is_quick=False,
        ),
        "expert": Recipe(
            description="Sable after that training",
            run=partial(_act, scenario),
            is_quick=(KEPT / f"{scenario}.npz").exists(),
        ),
    }


def _record(scenario: str, training: Training, request: Request) -> Iterator[Dataset]:
    config = replace(CONFIG, learning_rate=training.learning_rate)
    return record_training(base.make_named(scenario), config, request, training.steps)


def _act(scenario: str, request: Request) -> Iterator[Dataset]:
    """With the policy that was trained here, or else the one that comes with the package."""
    snapshots = request.work.with_name(f"replay{TRAINING}") / "snapshots"
    trained = sorted(snapshots.glob("*.npz"), key=lambda path: int(path.stem))
    policy = trained[-1] if trained else KEPT / f"{scenario}.npz"
    if request.policy is None and not policy.exists():
        raise OryxError(
            f"there is no trained policy of {scenario} yet; make {scenario}/replay first, or train "
            f"one (oryx train sable --env {scenario}) and name its run with --policy"
        )
    return roll_out([policy], None, request)
