"""Datasets of SMAX: smacv2_<N>_units/replay and /expert, of any size."""

from oryx_marl.envs import _smax_scenarios as scenarios
from oryx_marl.recipes import _scenarios
from oryx_marl.recipes._scenarios import Training
from oryx_marl.recipes.base import Recipe

FAMILIES = tuple(f"smacv2_{units}_units" for units in scenarios.SIZES)
TRAININGS = {"smacv2_5_units": Training(8_000_000)}
"""What two CPU cores do in half an hour; larger fights have the paper's 20 million steps."""


def find_family(name: str) -> dict[str, Recipe]:
    if scenarios.find_scenario(name) is None:
        return {}
    return _scenarios.make(name, TRAININGS.get(name, Training()))
