"""Datasets of Connector: con-<G>x<G>x<N>a/replay and /expert, of any size."""

from oryx_marl.envs import _connector_scenarios as scenarios
from oryx_marl.recipes import _scenarios
from oryx_marl.recipes._scenarios import Training
from oryx_marl.recipes.base import Recipe

FAMILIES = tuple(f"con-{size}x{size}x{agents}a" for size, agents in scenarios.SIZES)
TRAININGS = {
    "con-5x5x3a": Training(2_000_000, learning_rate=3e-4),
    "con-7x7x5a": Training(4_000_000, learning_rate=3e-4),
    "con-10x10x10a": Training(8_000_000),
    "con-15x15x23a": Training(12_000_000),
    "con-22x22x40a": Training(rows=624_640),
    "con-25x25x50a": Training(rows=624_640),
}
"""Where Sable needs fewer steps than the paper has, and smaller ones where it learns fast: else
most of the recording would be of experts."""


def find_family(name: str) -> dict[str, Recipe]:
    if scenarios.find_scenario(name) is None:
        return {}
    return _scenarios.make(name, TRAININGS.get(name, Training()))
