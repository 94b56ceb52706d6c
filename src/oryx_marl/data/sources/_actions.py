"""Imported actions that cannot be what the log says, told with their place before any is kept."""

import numpy as np
from jaxtyping import Bool

from oryx_marl.data.dataset import Dataset
from oryx_marl.data.quality.screen import find_outside
from oryx_marl.errors import OryxError


def require_sound(part: Dataset, first_episode: int, has_told_bounds: bool) -> None:
    """Raises for ids below 0, and for vectors outside of bounds that the user has told.

    `first_episode` is the number of the part's first episode in the whole log. Bounds out of
    metadata are not refused: `oryx data check` tells what lies outside of them.
    """
    space = part.spec.action
    if space.kind == "discrete":
        negative = part.actions < 0
        if part.agent_mask is not None:
            negative &= part.agent_mask
        if negative.any():
            raise OryxError(
                f"{_tell(part, first_episode, negative)} is below 0: ids of actions count from 0. "
                "Number them from 0 where the log is made; leave out the row of an agent that does "
                "not act, or mark it absent; or say --action-kind box (in Python action_kind) if "
                "actions are quantities"
            )
    elif has_told_bounds:
        outside = np.asarray(find_outside(part).any(axis=-1))
        if outside.any():
            ranges = list(zip(space.low, space.high, strict=True))
            told = ", ".join(f"{low:g} to {high:g}" for low, high in ranges[:20])
            raise OryxError(
                f"{_tell(part, first_episode, outside)} is outside of the bounds "
                f"{told}, by more than rounding (0.1% of their width). Give wider ones "
                "(--action-low, --action-high), or clip the action where the log is made"
            )


def _tell(part: Dataset, first_episode: int, mask: Bool[np.ndarray, "R N"]) -> str:
    """The first action of a mask, and where it stands."""
    row, agent = (int(place) for place in np.argwhere(mask)[0])
    episode, step = part.locate(row)
    value = np.asarray(part.actions[row, agent]).tolist()
    return (
        f"episode {first_episode + episode}, step {step}, agent {part.spec.agents[agent]}: the "
        f"action {value}"
    )
