"""What is known of a policy from episodes that it has not learned from, as it is kept in a run."""

from dataclasses import dataclass, field
from typing import Any

from oryx_marl import renamed
from oryx_marl.runs.documents import Score
from oryx_marl.runs.sealed import Document, require_object, rest_of

ELSE = "if it is to be a clone, see whether the observations are those that actions were taken on"


@dataclass(frozen=True)
class HeldOut(Document):
    """How well the policy predicts the actions of episodes that it has not learned from."""

    file = "held_out.json"
    episodes: int
    steps: int
    action_accuracy: Score
    log_likelihood: Score | None
    """None where a policy has no odds."""
    baseline: dict[str, float]
    """The same of the marginal-action baseline, by the names of the scores."""
    decisions: int | None = None
    """Agents' steps with more than one available action, over which the scores are. None in runs of
    version 0.1.0, whose scores count forced steps too."""
    forced: int | None = None
    """Agents' steps with one available action, which are left out."""
    rest: dict[str, Any] = field(default_factory=dict)
    """Further entries by name."""

    @property
    def verdict(self) -> str | None:
        """What is wrong with a policy that is no better than the marginal-action baseline."""
        if self.log_likelihood is not None:
            if self.log_likelihood.mean >= self.baseline["log_likelihood"]:
                return None
            return (
                "less likely to repeat the logs than the marginal-action baseline: that is so of "
                "policies that are over-confident or untrained, and of those that improve on the "
                f"logs, which only an estimate of the return tells apart (`oryx trust`); {ELSE}"
            )
        if self.action_accuracy.mean > self.baseline["action_accuracy"]:
            return None
        return (
            "no better than the marginal-action baseline at repeating the logs; a policy that "
            f"improves on them need not be (`oryx trust` estimates its return); {ELSE}"
        )

    @classmethod
    def from_json(cls, values: Any) -> "HeldOut":
        found = renamed.held_out(require_object(values))
        likelihood, baseline = found["log_likelihood"], found["baseline"]
        return cls(
            episodes=int(found["episodes"]),
            steps=int(found["steps"]),
            action_accuracy=Score.from_json(found["action_accuracy"]),
            log_likelihood=None if likelihood is None else Score.from_json(likelihood),
            baseline={
                name: float(baseline[name]) for name in ("action_accuracy", "log_likelihood")
            },
            decisions=_count(found.get("decisions")),
            forced=_count(found.get("forced")),
            rest=rest_of(cls, found),
        )

    @property
    def counted(self) -> str:
        """What the scores are over, in words."""
        decisions = "all steps, forced ones too,"
        if self.decisions is not None:
            decisions = f"{self.decisions:,} decisions (agent-steps with a choice)"
        return f"scored on {decisions} of {self.episodes:,} held-out episodes"

    def to_json(self) -> dict[str, Any]:
        likelihood = self.log_likelihood
        counts = {"decisions": self.decisions, "forced": self.forced}
        return {
            "episodes": self.episodes,
            "steps": self.steps,
            **{name: count for name, count in counts.items() if count is not None},
            "action_accuracy": self.action_accuracy.to_json(),
            "log_likelihood": None if likelihood is None else likelihood.to_json(),
            "baseline": self.baseline,
            **self.rest,
        }


def _count(value: Any) -> int | None:
    return None if value is None else int(value)
