"""Datasets of Connector: con-<G>x<G>x<N>a/replay and /expert, of any size."""

from oryx_marl.algorithms import sable
from oryx_marl.envs import connector
from oryx_marl.networks.sable import NetworkConfig
from oryx_marl.recipes import _scenarios
from oryx_marl.recipes.base import Recipe

FAMILIES = tuple(f"con-{size}x{size}x{agents}a" for size, agents in connector.SIZES)
TRAINING = sable.Config(
    network=NetworkConfig(width=128, num_heads=4), learning_rate=2.5e-4, epochs=2
)
SETTINGS: dict[str, sable.Config] = {}
"""Of the scenarios that need others."""


def find_family(name: str) -> dict[str, Recipe]:
    if connector.find_scenario(name) is None:
        return {}
    return _scenarios.make(name, SETTINGS.get(name, TRAINING))
