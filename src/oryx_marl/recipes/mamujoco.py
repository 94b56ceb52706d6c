"""Datasets of multi-agent MuJoCo: random torques in any of its tasks.

What needs JAX and MuJoCo is imported where it is run: recipes are listed in a moment.
"""

from collections.abc import Iterator
from functools import partial

from oryx_marl.data.dataset import Dataset
from oryx_marl.envs import _mamujoco_scenarios as scenarios
from oryx_marl.errors import OryxError
from oryx_marl.recipes.base import Recipe, Request

FAMILIES = (
    "mamujoco-halfcheetah-2x3",
    "mamujoco-halfcheetah-6x1",
    "mamujoco-hopper-3x1",
    "mamujoco-ant-2x4",
)
"""The tasks of the published datasets; others go by their names too."""


def act_randomly(name: str, request: Request) -> Iterator[Dataset]:
    """Whole episodes of torques that are drawn uniformly."""
    from oryx_marl.envs import base
    from oryx_marl.eval.uniform import uniform_policy
    from oryx_marl.recipes import _scripted

    env = base.make_named(name)
    return _scripted.record(env, uniform_policy(env.spec), request)


def find_family(name: str) -> dict[str, Recipe]:
    try:
        config = scenarios.find_scenario(name)
    except OryxError:  # like a task's name, but there is none such
        config = None
    if config is None:
        return {}
    return {
        "random": Recipe(
            description="torques drawn uniformly from the box", run=partial(act_randomly, name)
        )
    }
