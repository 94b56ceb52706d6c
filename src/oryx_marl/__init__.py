"""Learn coordinated multi-agent policies from logged data: Oryx on JAX."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oryx_marl.policy.player import Player

__version__ = "0.1.0"


def load(run: Any, **options: Any) -> "Player":
    """The trained policy of a run's folder, to act with; see `oryx_marl.policy.player.load`."""
    from oryx_marl.policy import player  # slow to import, so only where it is needed

    return player.load(run, **options)
