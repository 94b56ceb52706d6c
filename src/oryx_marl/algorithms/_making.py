"""Algorithms by name, with what their settings ask for around them."""

from typing import Any

from oryx_marl import registry
from oryx_marl.algorithms._standardise import Standardised
from oryx_marl.algorithms.base import Algorithm
from oryx_marl.types import Spec


def make_algorithm(name: str, config: Any, spec: Spec) -> Algorithm:
    """The algorithm of a name, of the package or a plug-in, for a task.

    With `standardise` in its settings it sees standardised features.
    """
    algorithm = registry.load("algorithms", name).make(config, spec)
    return Standardised(algorithm, spec) if getattr(config, "standardise", False) else algorithm
