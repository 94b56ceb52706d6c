"""Datasets of Connector: con-<G>x<G>x<N>a/replay and /expert, of any size."""

from oryx_marl.envs import connector
from oryx_marl.recipes import _scenarios
from oryx_marl.recipes.base import Recipe

FAMILIES = tuple(f"con-{size}x{size}x{agents}a" for size, agents in connector.SIZES)
MILLION_STEPS = {"con-5x5x3a": 2}
"""In which Sable learns a scenario, where it needs fewer than the paper has."""
MOST = 20


def find_family(name: str) -> dict[str, Recipe]:
    if connector.find_scenario(name) is None:
        return {}
    return _scenarios.make(name, MILLION_STEPS.get(name, MOST))
