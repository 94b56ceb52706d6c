"""How likely the policy finds the actions of logged episodes that it has not learned from."""

from dataclasses import dataclass

from oryx_marl.data.dataset import Dataset
from oryx_marl.data.split import Split
from oryx_marl.eval import held_out
from oryx_marl.outcomes.base import Trained
from oryx_marl.runs.held_out import HeldOut


@dataclass(frozen=True, eq=False)
class HeldOutLikelihood:
    """Of the last weights."""

    split: Split[Dataset]

    def find(self, trained: Trained) -> HeldOut:
        """Writes held_out.json."""
        found = held_out.score(trained.algorithm, trained.weights["last"], self.split)
        document = HeldOut.from_json(found)
        trained.run.write(document)
        return document
