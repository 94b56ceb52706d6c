"""What the policy is worth by the logs alone, at the end of a training without a simulator."""

from dataclasses import dataclass

from oryx_marl.data.dataset import Dataset
from oryx_marl.ope.document import Trust
from oryx_marl.ope.evaluate import Progress as Progress
from oryx_marl.ope.run import Evaluator
from oryx_marl.ope.settings import OpeSettings
from oryx_marl.outcomes.base import Trained


@dataclass(frozen=True, eq=False)
class TrustOutcome:
    """Of the last weights."""

    dataset: Dataset
    fingerprint: str
    """Of the dataset as it was logged."""
    settings: OpeSettings
    report: Progress

    def find(self, trained: Trained) -> Trust:
        """Writes trust.json."""
        evaluator = Evaluator(self.dataset, self.settings, self.report, self.fingerprint)
        return evaluator.evaluate(trained.run)
