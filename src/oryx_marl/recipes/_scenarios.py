"""Recipes that every scenario of an environment has: a recorded training, and its final policy."""

from collections.abc import Iterator
from functools import partial

from oryx_marl.algorithms import sable
from oryx_marl.data.dataset import Dataset
from oryx_marl.envs import base
from oryx_marl.errors import OryxError
from oryx_marl.recipes._policies import KEPT, record_training, roll_out
from oryx_marl.recipes.base import TRAINING, Recipe, Request

STEPS = 20_000_000
"""Of the training that is recorded."""


def make(scenario: str, config: sable.Config) -> dict[str, Recipe]:
    """`replay` and `expert` of a scenario; the settings are those of the training."""
    return {
        "replay": Recipe(
            description=f"a million of the {STEPS // 10**6} million steps in which Sable learns "
            "(hours without a GPU)",
            run=partial(_record, scenario, config),
            rows=1_000_000,
            is_quick=False,
        ),
        "expert": Recipe(
            description="Sable after that training",
            run=partial(_act, scenario),
            is_quick=(KEPT / f"{scenario}.npz").exists(),
        ),
    }


def _record(scenario: str, config: sable.Config, request: Request) -> Iterator[Dataset]:
    return record_training(base.make_named(scenario), config, request, STEPS)


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
