"""Settings of off-policy evaluation."""

from dataclasses import dataclass

from oryx_marl.errors import OryxError


@dataclass(frozen=True)
class OpeSettings:
    """How much work goes into an estimate."""

    clone_updates: int = 1_000
    """Most gradient updates of each clone of the logged behaviour; the best by held-out likelihood
    is kept."""
    critic_updates: int = 500
    """Gradient updates of each critic."""
    folds: int = 3
    """Parts of the episodes; those of each are scored by a clone that learned from the others."""
    critics: int = 5
    """Critics, each on another resample of the episodes: their spread is part of the interval."""
    samples: int = 4
    """Joint actions of the policy at every logged step."""
    batch_steps: int = 640
    """Logged steps in a batch, in whole episodes."""
    width: int = 0
    """Features per token of the critics' network (0: 32, or 64 for many features)."""
    learning_rate: float = 3e-3
    """Of the critics, falling to 0; of the clones a third of it."""
    tau: float = 0.05
    """Share by which the critics' target networks move at each update."""
    td_lambda: float = 0.95
    """λ: how far logged steps are followed in targets."""
    least_ratio: float = 0.8
    """Least weight of a logged step beside λ, however unlikely the policy finds it: 0 is Retrace,
    1 is Q(λ)."""
    max_steps: int = 100_000
    """Most logged steps that are used; of more, whole episodes are drawn."""
    seed: int = 0

    def __post_init__(self) -> None:
        least = {"folds": 2, "critics": 2, "samples": 1, "batch_steps": 1, "width": 0}
        least |= {"clone_updates": 1, "critic_updates": 1, "max_steps": 1}
        for name, smallest in least.items():
            if getattr(self, name) < smallest:
                raise OryxError(f"{name} must be at least {smallest}, got {getattr(self, name)}")
        for name in ("tau", "td_lambda", "least_ratio"):
            if not 0 <= getattr(self, name) <= 1:
                raise OryxError(f"{name} must be between 0 and 1, got {getattr(self, name)}")
        if not self.learning_rate > 0:
            raise OryxError(f"learning_rate must be positive, got {self.learning_rate}")
