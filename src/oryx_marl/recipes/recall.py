"""Datasets of recall: recall-<T>/half, of any delay.

What needs JAX is imported where it is run: recipes are listed in a moment.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

from oryx_marl.data.dataset import Dataset
from oryx_marl.envs import _recall_scenarios as scenarios
from oryx_marl.recipes.base import Recipe, Request

FAMILIES = scenarios.SCENARIOS[:-1]
EPISODES = 10_000


def act(config: dict[str, Any], request: Request) -> Iterator[Dataset]:
    """Episodes of which half are answered by the cue."""
    from oryx_marl.envs.recall import Recall
    from oryx_marl.recipes import _diagnostic_policies, _scripted

    return _scripted.record(Recall(**config), _diagnostic_policies.make_half_right(), request)


def find_family(name: str) -> dict[str, Recipe]:
    config = scenarios.find_scenario(name)
    if config is None:
        return {}
    return {
        "half": Recipe(
            description="both agents name the cue in half of the episodes, in the others each "
            "answers at random: 17 of 32 succeed",
            run=partial(act, config),
            rows=EPISODES * (config["delay"] + 1),
        )
    }
