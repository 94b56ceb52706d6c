"""Datasets of SMAX: smacv2_<N>_units/replay and /expert, of any size."""

from oryx_marl.algorithms import sable
from oryx_marl.envs import smax
from oryx_marl.networks.sable import NetworkConfig
from oryx_marl.recipes import _scenarios
from oryx_marl.recipes.base import Recipe

FAMILIES = tuple(f"smacv2_{units}_units" for units in smax.SIZES)
TRAINING = sable.Config(
    network=NetworkConfig(width=128, num_heads=4), learning_rate=2.5e-4, epochs=2
)
SETTINGS: dict[str, sable.Config] = {}
"""Of the scenarios that need others."""


def find_family(name: str) -> dict[str, Recipe]:
    if smax.find_scenario(name) is None:
        return {}
    return _scenarios.make(name, SETTINGS.get(name, TRAINING))
