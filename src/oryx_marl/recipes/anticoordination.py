"""Datasets of anti-coordination: anticoordination-<T>/random-first, of any length.

What needs JAX is imported where it is run: recipes are listed in a moment.
"""

from collections.abc import Iterator
from functools import partial

from oryx_marl.data.dataset import Dataset
from oryx_marl.envs import _anticoordination_scenarios as scenarios
from oryx_marl.recipes.base import Recipe, Request

FAMILIES = tuple(f"anticoordination-{length}" for length in scenarios.LENGTHS)
EPISODES = 1_000


def act(length: int, request: Request) -> Iterator[Dataset]:
    """Episodes without a mistake."""
    from oryx_marl.envs.anticoordination import Anticoordination
    from oryx_marl.recipes import _diagnostic_policies, _scripted

    policy = _diagnostic_policies.make_random_first()
    return _scripted.record(Anticoordination(length), policy, request)


def find_family(name: str) -> dict[str, Recipe]:
    config = scenarios.find_scenario(name)
    if config is None:
        return {}
    return {
        "random-first": Recipe(
            description="the first agent acts at random, the second takes one of the two other "
            "actions at random: never a mistake",
            run=partial(act, config["length"]),
            rows=EPISODES * config["length"],
        )
    }
