"""Recipes that every scenario of an environment has: a recorded training, its final policy, and its
policies along the way.

What needs JAX is imported where it is run: recipes are listed in a moment.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from oryx_marl.data.dataset import Dataset
from oryx_marl.errors import OryxError
from oryx_marl.recipes import _assets
from oryx_marl.recipes.base import CHECKPOINTS, TRAINING, Recipe, Request


@dataclass(frozen=True)
class Training:
    """What differs between scenarios."""

    steps: int = 20_000_000
    learning_rate: float = 5e-4
    rows: int = 1_000_000
    """Of them in the dataset; with many agents fewer, as in the paper."""


def make(scenario: str, training: Training) -> dict[str, Recipe]:
    """All of a scenario that Sable learns so."""
    pretrained = tuple(_assets.checkpoints(scenario))
    is_quick = bool(pretrained)
    after, first = ("", "") if is_quick else ("replay", "; make replay first")
    return {
        "replay": Recipe(
            description=f"sample of Sable's {training.steps / 1e6:g}-million-step replay",
            run=partial(_record, scenario, training),
            rows=training.rows,
            is_quick=False,
        ),
        "expert": Recipe(
            description=f"final Sable policy{first}",
            run=partial(_act, scenario),
            is_quick=is_quick,
            after=after,
            assets=pretrained[-1:],
        ),
        "snapshots": Recipe(
            description=f"{CHECKPOINTS} checkpoints of Sable's training, in equal shares{first}",
            run=partial(_mix, scenario),
            rows=training.rows,
            is_quick=is_quick,
            after=after,
            assets=pretrained,
        ),
    }


def make_config(training: Training) -> Any:
    """Of all trainings: short roll-outs, and many small steps on them."""
    from oryx_marl.algorithms import sable

    return sable.Config(
        network=sable.network_config(num_heads=4),
        num_envs=1024,
        rollout_length=16,
        minibatches=8,
        learning_rate=training.learning_rate,
    )


def _record(scenario: str, training: Training, request: Request) -> Iterator[Dataset]:
    from oryx_marl.envs import base
    from oryx_marl.recipes._policies import record_training

    config = make_config(training)
    env = base.resize(_make(scenario), scenario, config.num_envs)
    return record_training(env, config, request, training.steps)


def _act(scenario: str, request: Request) -> Iterator[Dataset]:
    from oryx_marl.recipes._policies import roll_out

    if request.policy is not None:
        return roll_out(_make(scenario), [request.policy], None, request)
    policies = _find_policies(scenario, _assets.checkpoints(scenario)[-1:], request)
    if not policies:
        raise OryxError(
            f"there is no trained policy of {scenario} yet; make {scenario}/replay first, or train "
            f"one (oryx train sable --env {scenario}) and name its run with --policy"
        )
    return roll_out(_make(scenario), policies[-1:], None, request)


def _mix(scenario: str, request: Request) -> Iterator[Dataset]:
    """Much like the recording, without the training."""
    from oryx_marl.recipes._policies import refuse_policy, roll_out

    refuse_policy(request)
    policies = _find_policies(scenario, _assets.checkpoints(scenario), request)
    if not policies:
        raise OryxError(
            f"there are no policies of a training of {scenario} yet; make {scenario}/replay first: "
            f"oryx data make {scenario}/replay"
        )
    *along, last = policies
    return roll_out(_make(scenario), along, None, request, last)


def _make(scenario: str) -> Any:
    from oryx_marl.envs import base

    return base.make_named(scenario)


def _find_policies(scenario: str, pretrained: list[str], request: Request) -> list[Path]:
    """The pretrained ones, so that a name means the same everywhere, or else those of the training
    that was recorded here; the last one is the final one."""
    from oryx_marl.recipes._policies import find

    trained = request.work.with_name(f"replay{TRAINING}") / "snapshots"
    return _assets.locate(pretrained, request.tell) or find(trained)
