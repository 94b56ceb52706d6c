"""Datasets of anti-coordination: anticoordination-<T>/random-first and random, of any length.

What needs JAX is imported where it is run: recipes are listed in a moment.
"""

from collections.abc import Iterator
from functools import partial

from oryx_marl.data.dataset import Dataset
from oryx_marl.envs import _anticoordination_scenarios as scenarios
from oryx_marl.recipes.base import Recipe, Request

FAMILIES = tuple(f"anticoordination-{length}" for length in scenarios.LENGTHS)
EPISODES = 1_000


def act(length: int, behaviour: str, request: Request) -> Iterator[Dataset]:
    """Episodes of a hand-written behaviour."""
    from oryx_marl.envs.anticoordination import Anticoordination
    from oryx_marl.recipes import _diagnostic_policies, _scripted

    makers = {
        "random-first": _diagnostic_policies.make_random_first,
        "random": _diagnostic_policies.make_random,
    }
    policy = makers[behaviour]()
    return _scripted.record(Anticoordination(length), policy, request)


def find_family(name: str) -> dict[str, Recipe]:
    config = scenarios.find_scenario(name)
    if config is None:
        return {}
    return {
        "random-first": Recipe(
            description="the first agent acts at random, the second takes one of the two other "
            "actions at random: never a mistake",
            run=partial(act, config["length"], "random-first"),
            rows=EPISODES * config["length"],
        ),
        "random": Recipe(
            description="both agents act at random: a third of the steps are mistakes",
            run=partial(act, config["length"], "random"),
            rows=EPISODES * config["length"],
        ),
    }
