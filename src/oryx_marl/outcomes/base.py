"""What an outcome is."""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from oryx_marl.algorithms.base import Algorithm
from oryx_marl.runs.folder import Run
from oryx_marl.runs.sealed import Document


@dataclass(frozen=True, eq=False)
class Trained:
    """Weights after a training, and where they are kept."""

    name: str
    """The algorithm's name."""
    task: str
    """Name of the dataset, or of the environment of an online learner."""
    algorithm: Algorithm
    seeds: tuple[int, ...]
    weights: dict[str, Any]
    """[S, ...] by `last` and `best`; the last twice if none were ever evaluated."""
    run: Run


@runtime_checkable
class Outcome(Protocol):
    """Something to be found out about trained weights."""

    def find(self, trained: Trained) -> Document:
        """Measures it and writes it into the run's folder."""
        ...
