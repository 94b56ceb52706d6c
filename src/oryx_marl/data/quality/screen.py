"""Issues of logged data that would poison training, found before it starts and named."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool

from oryx_marl.data import view as views
from oryx_marl.data.dataset import Dataset
from oryx_marl.data.view import View
from oryx_marl.errors import OryxError

Mask = Bool[np.ndarray, "R N"]

BOUND_TOLERANCE = 1e-3
"""Share of a box's width that rounding may take an action outside."""
REMEDIES = {
    "non-finite observation": "repair or drop the step where the log is made",
    "non-finite reward": "repair or drop the step where the log is made",
    "non-finite action": "repair or drop the step where the log is made",
    "action out of range": "compare the number of actions in the Spec with the log",
    "illegal action": "compare the legal actions with the log; are they those of the same step?",
    "no legal action": "allow at least a no-op, or mark the agent as absent in this step",
}
"""Kinds of problem, and what to do about each."""


@dataclass(frozen=True)
class Problem:
    """One place where the log is wrong."""

    kind: str
    """One of the keys of REMEDIES."""
    episode: int
    step: int
    agent: str
    what: str
    """What stands there."""
    remedy: str
    """What to do about it."""
    count: int
    """How many agent-steps of the dataset have this kind of problem."""

    def __str__(self) -> str:
        return f"episode {self.episode}, step {self.step}, agent {self.agent}: {self.what}"


class LeftOut(NamedTuple):
    """How many agent-steps `drop_invalid` keeps away from the learner."""

    agent_steps: int
    """All there are: rows times agents."""
    marked_absent: int
    """Left out altogether: a number that is not finite, or an action that does not exist."""
    policy_only: int
    """Left out of the policy loss alone: the logged action is illegal, or none is legal."""

    def __str__(self) -> str:
        return (
            f"of {self.agent_steps} agent-steps, {self.marked_absent} are left out and "
            f"{self.policy_only} more are left out of the policy loss alone"
        )


def find_problems(view: View, limit: int = 3) -> list[Problem]:
    """The first `limit` places of each kind of problem; `Problem.count` tells how many there are.

    Numbers must be finite (as float32) for absent agents too, since 0 times NaN is NaN. Actions
    and their legality matter for present agents only.
    """
    found: dict[str, list[Problem]] = {kind: [] for kind in REMEDIES}
    counts = dict.fromkeys(REMEDIES, 0)
    for chunk in views.chunks(view):
        for kind, mask in find_masks(chunk.data).items():
            flat = np.flatnonzero(mask)
            counts[kind] += flat.size
            first = flat[: limit - len(found[kind])]
            for row, agent in zip(*np.unravel_index(first, mask.shape), strict=True):
                what, name = tell(chunk.data, kind, int(row), int(agent)), view.spec.agents[agent]
                place = Problem(kind, *chunk.locate(int(row)), name, what, REMEDIES[kind], 0)
                found[kind].append(place)
    return [replace(each, count=counts[kind]) for kind in REMEDIES for each in found[kind]]


def require_clean(view: View) -> None:
    """Raises an error that lists the problems, if there are any."""
    problems = find_problems(view)
    if not problems:
        return
    lines = [f"dataset '{view.name}' cannot be trained on as it is:"]
    for kind in dict.fromkeys(problem.kind for problem in problems):
        places = [problem for problem in problems if problem.kind == kind]
        lines.append(f"  {kind}, {places[0].count} agent-steps ({places[0].remedy}):")
        lines += [f"    {place}" for place in places]
        if places[0].count > len(places):
            lines.append(f"    and {places[0].count - len(places)} more")
    lines.append("Train without these rows: --drop-invalid, drop_invalid=True in Python")
    raise OryxError("\n".join(lines))


def count_left_out(view: View) -> LeftOut:
    """What `drop_invalid` will keep away from the learner."""
    counts = np.zeros(3, int)
    for chunk in views.chunks(view):
        masks, agent_mask = find_masks(chunk.data), chunk.data.agent_mask
        broken = _broken(masks)
        policy_only = (masks["illegal action"] | masks["no legal action"]) & ~broken
        newly_absent = broken if agent_mask is None else broken & agent_mask
        counts += [broken.size, newly_absent.sum(), policy_only.sum()]
    return LeftOut(*counts.tolist())


def drop_invalid(dataset: Dataset) -> Dataset:
    """A dataset that is safe to train on; what was left out is counted in `origin["left_out"]`.

    - A number that is not finite, or an action that does not exist: the agent is marked absent in
      that step, its features, reward and action become 0.
    - No legal action: every action but the logged one becomes legal. So the mask has an entry, and
      the learner, which leaves illegal logged actions out of the policy loss, leaves this one out.
      (With a single action there is nothing to leave out: it becomes legal.)
    - An illegal action that exists stays: the learner leaves it out of the policy loss and still
      learns values from it.
    """
    masks = find_masks(dataset)
    broken = _broken(masks)
    absent = broken if dataset.agent_mask is None else broken | ~dataset.agent_mask
    # An absent agent's action may be any placeholder; 0 is one that every table has.
    wipe_action = broken | (absent & ~_in_range(dataset))
    actions = _wipe(dataset.actions, wipe_action)
    summary = count_left_out(dataset)._asdict()
    return replace(
        dataset,
        observations=_wipe(dataset.observations, broken),
        rewards=_wipe(dataset.rewards, broken),
        actions=actions,
        action_mask=None
        if dataset.action_mask is None
        else _allow_some(dataset.action_mask, actions, absent),
        agent_mask=~absent if absent.any() else dataset.agent_mask,
        origin={**dataset.origin, "left_out": summary},
    )


def find_masks(dataset: Dataset) -> dict[str, Mask]:
    """For each kind of problem, the agent-steps that have it."""
    return {
        "non-finite observation": ~all_finite(dataset.observations),
        "non-finite reward": ~is_finite(dataset.rewards),
        **find_action_masks(dataset),
    }


def find_action_masks(dataset: Dataset) -> dict[str, Mask]:
    """For each kind of problem with actions, the agent-steps that have it."""
    shape = dataset.rewards.shape
    agent_mask = np.ones(shape, bool) if dataset.agent_mask is None else dataset.agent_mask
    none = np.zeros(shape, bool)
    kinds = ("non-finite action", "action out of range", "illegal action", "no legal action")
    masks: dict[str, np.ndarray] = dict.fromkeys(kinds, none)
    if dataset.spec.action.kind == "box":
        return {**masks, "non-finite action": ~all_finite(dataset.actions)}
    in_range = _in_range(dataset)
    masks["action out of range"] = agent_mask & ~in_range
    if dataset.action_mask is not None:
        ids = np.where(in_range, dataset.actions, 0).astype(np.int64)
        is_legal = np.take_along_axis(dataset.action_mask, ids[..., None], axis=-1)[..., 0]
        has_legal = dataset.action_mask.any(axis=-1)
        masks["illegal action"] = agent_mask & in_range & has_legal & ~is_legal
        masks["no legal action"] = agent_mask & ~has_legal
    return masks


def _broken(masks: dict[str, Mask]) -> Mask:
    """The agent-steps of which nothing can be used."""
    kinds = [kind for kind in masks if kind.startswith("non-finite")]
    return np.any([masks[kind] for kind in [*kinds, "action out of range"]], axis=0)


def find_outside(dataset: Dataset) -> Bool[np.ndarray, "R N A"]:
    """Numbers of present agents' box actions that are out of bounds by more than rounding."""
    low, high = np.array(dataset.spec.action.low), np.array(dataset.spec.action.high)
    if not (low.size and high.size):
        return np.zeros(dataset.actions.shape, bool)
    slack = BOUND_TOLERANCE * (high - low)
    outside = (dataset.actions < low - slack) | (dataset.actions > high + slack)
    return outside if dataset.agent_mask is None else outside & dataset.agent_mask[..., None]


def is_finite(values: np.ndarray) -> np.ndarray:
    """Whether each value is finite as float32, which is what the device will hold."""
    if values.dtype.kind in "biu":
        return np.ones(values.shape, bool)
    with np.errstate(over="ignore"):
        return np.isfinite(values.astype(np.float32, copy=False))


def all_finite(values: np.ndarray) -> np.ndarray:
    """Whether all entries on the last axis are finite."""
    return np.asarray(is_finite(values).all(axis=-1))


def _in_range(dataset: Dataset) -> Mask:
    """Whether each logged action exists: a whole number from 0 to A - 1."""
    actions, action = dataset.actions, dataset.spec.action
    if action.kind == "box":
        return all_finite(actions)
    inside = (actions >= 0) & (actions < action.size)
    return inside if actions.dtype.kind in "iu" else inside & (actions == np.floor(actions))


def _wipe(values: np.ndarray, where: Mask) -> np.ndarray:
    """`values` with 0 where `where` holds; the same array if it holds nowhere."""
    if not where.any():
        return values
    values = values.copy()
    values[where] = 0
    return values


def _allow_some(action_mask: np.ndarray, actions: np.ndarray, absent: Mask) -> np.ndarray:
    """`legal` without empty masks: all but the logged action, or all if absent or the only one."""
    rows, agents = np.nonzero(~action_mask.any(axis=-1))
    if rows.size == 0:
        return action_mask
    action_mask = action_mask.copy()
    action_mask[rows, agents] = True
    if action_mask.shape[-1] > 1:
        is_here = ~absent[rows, agents]
        rows, agents = rows[is_here], agents[is_here]
        action_mask[rows, agents, actions[rows, agents].astype(np.int64)] = False
    return action_mask


def tell(dataset: Dataset, kind: str, row: int, agent: int) -> str:
    """What stands at a faulty place, in words."""
    if kind.startswith("non-finite"):
        name = kind.removeprefix("non-finite ")
        values = np.atleast_1d(dataset.arrays()[f"{name}s"][row, agent])
        entry = int(np.flatnonzero(~is_finite(values))[0])
        return f"{name} entry {entry} is {values[entry]}"
    action = dataset.actions[row, agent]
    if kind == "action out of range":
        return f"action {action}, but actions go from 0 to {dataset.spec.action.size - 1}"
    if kind == "no legal action":
        return f"no action is legal (logged: {action})"
    assert dataset.action_mask is not None
    allowed = ", ".join(str(index) for index in np.flatnonzero(dataset.action_mask[row, agent]))
    return f"action {action} is not among the legal ones ({allowed})"
