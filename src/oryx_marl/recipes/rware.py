"""Datasets of RWARE: those of Sable's training in any warehouse, and of a hand-written team.

What needs JAX is imported where it is run: recipes are listed in a moment.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from oryx_marl.data.dataset import Dataset
from oryx_marl.envs import _rware_scenarios as scenarios
from oryx_marl.recipes import _scenarios
from oryx_marl.recipes._scenarios import Training
from oryx_marl.recipes.base import Recipe, Request

FAMILIES = scenarios.PAPER
EPISODES, STEPS = 500, 500
NOISE = 0.05
TRAINING = Training(rows=EPISODES * 2 * STEPS)
"""As many rows as the published datasets have."""


def plan(config: dict[str, Any], request: Request) -> Iterator[Dataset]:
    """Episodes of the hand-written team, without the planned action that it is shown."""
    from oryx_marl.envs.rware import Rware
    from oryx_marl.recipes import _rware_planner, _scripted

    env = Rware(**config)
    policy = _rware_planner.make_policy(env.spec.num_agents, NOISE)
    for part in _scripted.record(_rware_planner.Planned(env), policy, request):
        assert part.final_observations is not None
        yield replace(
            part,
            spec=env.spec,
            observations=part.observations[..., :-1],
            final_observations=part.final_observations[..., :-1],
        )


def find_family(name: str) -> dict[str, Recipe]:
    config = scenarios.find_scenario(name)
    if config is None:
        return {}
    return {
        **_scenarios.make(name, TRAINING),
        "planner": Recipe(
            description="a hand-written team that sees the whole warehouse, with 5% random moves, "
            f"{EPISODES} episodes",
            run=partial(plan, config),
            rows=EPISODES * STEPS,
        ),
    }
