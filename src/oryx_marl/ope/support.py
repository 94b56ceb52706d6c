"""How far a policy leaves what was logged: an estimate says nothing of what nobody ever did."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Shaped

from oryx_marl.ope.sequences import Packed
from oryx_marl.ope.walk import Walked

RARE = 0.01
"""A discrete action is outside of the logs where the behaviour would take it less often; a
continuous one where its density is below that of all but this share of the logged actions."""
PARTS = 4
"""Parts of the horizon by which the share is told."""
LISTED = 10
"""Unusual joint actions that are listed."""


@dataclass(frozen=True)
class Unusual:
    """A joint action of the policy that the logged behaviour would hardly take."""

    episode: int
    """Number in the dataset, from 0."""
    step: int
    actions: list[Any]
    """Of each agent; None of those that are not there."""
    logged: list[Any]
    """What was done instead."""
    log_probability: float
    """Of the joint action under the behaviour; of continuous actions a log density."""


@dataclass(frozen=True)
class Support:
    """Shares of the policy's decisions that are outside of the logs."""

    share: float
    """Over all agents."""
    joint_share: float
    """Steps in which some agent's decision is."""
    per_agent: list[float]
    by_part: list[float | None]
    """The joint share in each quarter of the horizon; None where nobody has a choice."""
    threshold: float
    """Log-probability (or log density) below which a decision counts."""
    decisions: int
    unusual: list[Unusual]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(values: dict[str, Any]) -> "Support":
        listed = [Unusual(**each) for each in values["unusual"]]
        return Support(**{**values, "unusual": listed})


def measure(
    packed: Packed,
    walked: Walked,
    is_box: bool,
    counted: Bool[np.ndarray, " E"],
    numbers: Shaped[np.ndarray, " E"],
) -> Support:
    """At the steps of the episodes that count.

    Args:
        packed: the logged steps.
        walked: what policy and clone say of them.
        is_box: whether actions are continuous.
        counted: episodes that are looked at.
        numbers: what the episodes are called in the whole dataset.
    """
    episode = np.asarray(packed.sequences.episode)
    inside = (packed.step >= 0) & counted[episode]
    choice = walked.choice & inside[..., None]
    threshold = float(np.log(RARE))
    if is_box and choice.any():
        threshold = float(np.quantile(walked.log_behaviour[choice], RARE))
    is_rare = (walked.sampled_log_behaviour < threshold) & choice[:, :, None]
    decides = choice.any(axis=-1)
    count = np.maximum(choice.sum(axis=(0, 1)), 1)
    rare_steps = is_rare.any(axis=-1).mean(axis=-1)
    part = np.minimum(np.maximum(packed.step, 0) * PARTS // packed.horizon.steps, PARTS - 1)
    shares = [_mean(rare_steps, decides & (part == number)) for number in range(PARTS)]
    return Support(
        share=float(is_rare.mean(axis=2).sum() / max(choice.sum(), 1)),
        joint_share=_mean(rare_steps, decides) or 0.0,
        per_agent=(is_rare.mean(axis=2).sum(axis=(0, 1)) / count).tolist(),
        by_part=shares,
        threshold=threshold,
        decisions=int(choice.sum()),
        unusual=_list(packed, walked, is_rare, episode, numbers),
    )


def _mean(values: Float[np.ndarray, "S L"], mask: Bool[np.ndarray, "S L"]) -> float | None:
    return float(values[mask].mean()) if mask.any() else None


def _list(
    packed: Packed,
    walked: Walked,
    is_rare: Bool[np.ndarray, "S L K N"],
    episode: Shaped[np.ndarray, "S L"],
    numbers: Shaped[np.ndarray, " E"],
) -> list[Unusual]:
    """The most unusual joint actions, one of each step, of different episodes first."""
    joint = walked.sampled_log_behaviour.sum(axis=-1)
    joint = np.where(is_rare.any(axis=-1), joint, np.inf).reshape(*packed.step.shape, -1)
    sample, lowest = joint.argmin(axis=-1), joint.min(axis=-1)
    found: list[Unusual] = []
    seen: set[int] = set()
    for place in np.argsort(lowest, axis=None):
        at = np.unravel_index(place, lowest.shape)
        if not np.isfinite(lowest[at]) or len(found) == LISTED:
            break
        if int(episode[at]) in seen:
            continue
        seen.add(int(episode[at]))
        here = np.asarray(packed.sequences.window.observation.agent_mask[at])
        logged = np.asarray(packed.sequences.window.actions[at])
        found.append(
            Unusual(
                episode=int(numbers[episode[at]]),
                step=int(packed.step[at]),
                actions=_plain(walked.samples[at][sample[at]], here),
                logged=_plain(logged, here),
                log_probability=float(lowest[at]),
            )
        )
    return found


def _plain(actions: Shaped[np.ndarray, "N *A"], here: Bool[np.ndarray, " N"]) -> list[Any]:
    return [action.tolist() if there else None for action, there in zip(actions, here, strict=True)]
