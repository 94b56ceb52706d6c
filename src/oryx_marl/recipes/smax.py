"""Datasets of SMAX: smacv2_<N>_units/replay and /expert, of any size."""

from oryx_marl.envs import smax
from oryx_marl.recipes import _scenarios
from oryx_marl.recipes._scenarios import Training
from oryx_marl.recipes.base import Recipe

FAMILIES = tuple(f"smacv2_{units}_units" for units in smax.SIZES)


def find_family(name: str) -> dict[str, Recipe]:
    return {} if smax.find_scenario(name) is None else _scenarios.make(name, Training())
