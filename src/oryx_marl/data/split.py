"""A dataset in two: whole episodes to train on, and others to validate with."""

import math
from typing import Any, Generic, NamedTuple

import numpy as np
from jaxtyping import Int

from oryx_marl.data.subsample import take_episodes
from oryx_marl.data.view import AnyView, episode_lengths
from oryx_marl.errors import OryxError

SHARE = 0.1
"""Of the episodes, where nobody says."""


class _Parts(NamedTuple):
    train: Any
    validation: Any


class Split(_Parts, Generic[AnyView]):  # beartype knows no class that is both at once
    """Disjoint episodes that together are the whole dataset."""

    train: AnyView
    validation: AnyView | None
    """None where nothing is held out."""


def split(view: AnyView, share: float | None, length: int) -> Split[AnyView]:
    """Holds out a share of the episodes, always the same ones, with at least `length` steps.

    None: a tenth where no environment is known that could score the policy, and more of few short
    episodes, but never more than half of them.
    """
    held = find_held_out(view, share, length)
    if not held.size:
        return Split(view, None)
    kept = np.setdiff1d(np.arange(len(view.episode_starts)), held)
    return Split(take_episodes(view, kept), take_episodes(view, held))


def find_held_out(view: AnyView, share: float | None, length: int) -> Int[np.ndarray, " held"]:
    """Numbers of the episodes that `split` holds out."""
    total, nothing = len(view.episode_starts), np.zeros(0, np.int64)
    if share == 0 or (share is None and view.spec.environment):
        return nothing
    shuffled = np.random.default_rng(0).permutation(total)
    steps = np.cumsum(episode_lengths(view)[shuffled])
    count = math.ceil((SHARE if share is None else share) * total)
    if share is None:
        count = max(count, int(np.searchsorted(steps, length)) + 1)
        if 2 * count > total:
            return nothing
    if count >= total:
        raise OryxError(
            f"hold_out {share} leaves none of the {total} episodes of "
            f"'{view.name}' to learn from; hold out less"
        )
    if steps[count - 1] < length:
        raise OryxError(
            f"hold_out {share} holds out {steps[count - 1]} steps of '{view.name}', but a "
            f"window needs {length}; hold out more, or nothing (0), or shorten sequence_length"
        )
    return np.sort(shuffled[:count])
