"""A plug-in with a recipe that records a very short training, so that it can be killed often."""

from collections.abc import Iterator
from typing import Any

from oryx_marl.data.dataset import Dataset
from oryx_marl.recipes.base import Recipe, Request

FAMILIES = ("brief",)


def _record(request: Request) -> Iterator[Dataset]:
    from oryx_marl.algorithms import sable
    from oryx_marl.envs.tmaze import TMaze
    from oryx_marl.recipes import _policies

    _policies.EPISODES = 4
    _policies.EVALUATE_EVERY = 10
    _policies.SNAPSHOT_EVERY = 10
    network = sable.network_config(width=8, num_heads=1)
    config = sable.Config(network=network, num_envs=4, rollout_length=4, minibatches=1)
    return _policies.record_training(TMaze(length=2, time_limit=8), config, request)


def find_family(family: str) -> dict[str, Any]:
    """The recipes of the one family."""
    if family != "brief":
        return {}
    return {"replay": Recipe("a very short training", _record, rows=640, is_quick=False)}
