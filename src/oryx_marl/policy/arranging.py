"""What agents are shown, by name or in their order, as the arrays that a policy takes.

Everything is compared with the Spec first: what does not fit is an OryxError that names the agent.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from oryx_marl import texts
from oryx_marl.errors import OryxError
from oryx_marl.types import Spec

PerAgent = Mapping[str, Any] | Sequence[Any] | np.ndarray
"""One entry for each agent: by name, or in the order of `Spec.agents`."""
NO_NUMBERS = "OUScMm"
"""Kinds of numpy's types that are no numbers; texts that look like some are none either."""


class Arranged(NamedTuple):
    """One step of one episode, without the axis of the batch."""

    features: np.ndarray
    """[N, O] float32, filled up with zeros; zeros for absent agents."""
    action_mask: np.ndarray
    """[N, A] bool; all true for absent agents, and for those of whom nothing is said."""
    agent_mask: np.ndarray
    """[N] bool: the agents that are there."""
    last_rewards: np.ndarray
    """[N] float32, zeros where nothing is said."""


def arrange(
    spec: Spec,
    observations: PerAgent,
    action_mask: PerAgent | None = None,
    rewards: PerAgent | None = None,
) -> Arranged:
    """The arrays of what is shown.

    Args:
        spec: what the policy was trained on.
        observations: features of each agent, or {"observation": features, "action_mask": mask}.
            Agents that are not named, or whose observation is None, are absent.
        action_mask: which actions each agent may take (default: the mask beside its observation,
            else all).
        rewards: of the step before.
    """
    seen, beside = _split_masks(spec, _by_agent(spec, observations, "observations"))
    given = _by_agent(spec, action_mask, "action_mask")
    masks = [one if one is not None else other for one, other in zip(given, beside, strict=True)]
    agent_mask = np.array([each is not None for each in seen])
    return Arranged(
        _features(spec, seen),
        _masks(spec, masks, agent_mask),
        agent_mask,
        _rewards(spec, _by_agent(spec, rewards, "rewards")),
    )


def name_actions(
    spec: Spec, observations: PerAgent, agent_mask: np.ndarray, actions: np.ndarray
) -> Any:
    """Actions as the observations are: a dict of the agents that are there, or the array."""
    if not isinstance(observations, Mapping):
        return actions
    pairs = zip(spec.agents, actions, agent_mask, strict=True)
    return {name: action for name, action, is_here in pairs if is_here}


def _by_agent(spec: Spec, values: PerAgent | None, what: str) -> list[Any]:
    """One entry per agent, None for those of whom nothing is said."""
    agents = spec.agents
    if values is None:
        return [None] * len(agents)
    if isinstance(values, Mapping):
        if unknown := set(values) - set(agents):
            raise OryxError(f"{what}: there is no agent {sorted(unknown)}, only {list(agents)}")
        return [values.get(name) for name in agents]
    if len(values) != len(agents):
        raise OryxError(
            f"{what} must have one entry for each of {len(agents)} agents, got {len(values)}"
        )
    return list(values)


def _split_masks(spec: Spec, seen: list[Any]) -> tuple[list[Any], list[Any]]:
    """Features and masks, where PettingZoo shows them together."""
    features: list[Any] = []
    masks: list[Any] = []
    for name, each in zip(spec.agents, seen, strict=True):
        if not isinstance(each, Mapping):
            features.append(each)
            masks.append(None)
            continue
        if "observation" not in each:
            raise OryxError(
                f"the observation of {name} is a dict with {sorted(each)}; its features must "
                'stand under "observation", and may have an "action_mask" beside them'
            )
        features.append(each["observation"])
        masks.append(each.get("action_mask"))
    return features, masks


def _features(spec: Spec, seen: list[Any]) -> np.ndarray:
    """Features [N, O], filled up with zeros to those of the agent that has most."""
    whole = _features_at_once(spec, seen)
    if whole is not None:
        return whole
    padded = np.zeros((spec.num_agents, spec.observation_size), np.float32)
    for agent, values in enumerate(seen):
        if values is None:
            continue
        what = f"the observation of {spec.agents[agent]}"
        given = _numbers(values, what)
        if given.ndim != 1 or len(given) not in (spec.observation_sizes[agent], padded.shape[1]):
            raise OryxError(
                f"{what} must have {spec.observation_sizes[agent]} numbers, got shape {given.shape}"
            )
        padded[agent, : len(given)] = given
    if not np.isfinite(padded).all():
        agent = int(np.isfinite(padded).all(axis=1).argmin())
        told = texts.shorten(str(_numbers(seen[agent], "").tolist()), 500)
        raise OryxError(
            f"the observation of {spec.agents[agent]} has numbers that are not finite: {told}"
        )
    return padded


def _features_at_once(spec: Spec, seen: list[Any]) -> np.ndarray | None:
    """The features, where all agents are there and see as much; else None.

    A server arranges thousands of requests in a second: to look at each agent takes three times as
    long.
    """
    if any(each is None for each in seen):
        return None
    try:
        given = np.asarray(seen)
    except (TypeError, ValueError):  # of different lengths
        return None
    if given.dtype.kind in NO_NUMBERS or given.shape != (spec.num_agents, spec.observation_size):
        return None
    with np.errstate(over="ignore"):
        features = given.astype(np.float32)
    return features if np.isfinite(features).all() else None


def _masks(spec: Spec, given: list[Any], agent_mask: np.ndarray) -> np.ndarray:
    """Masks [N, A]; of absent agents, and of those of whom nothing is said, full."""
    masks = np.ones((spec.num_agents, spec.action.size), bool)
    for agent, each in enumerate(given):
        if each is None or not agent_mask[agent]:
            continue
        what = f"action_mask of {spec.agents[agent]}"
        if spec.action.kind == "box":
            raise OryxError(f"{what}: actions of a box have no mask")
        mask = _numbers(each, what, bool)
        if mask.shape != masks[agent].shape:
            raise OryxError(f"{what} must have {spec.action.size} entries, got shape {mask.shape}")
        if not mask.any():
            raise OryxError(f"{what} allows no action at all")
        masks[agent] = mask
    return masks


def _rewards(spec: Spec, given: list[Any]) -> np.ndarray:
    """Rewards [N]; 0 where nothing is said."""
    rewards = np.zeros(spec.num_agents, np.float32)
    for agent, each in enumerate(given):
        if each is None:
            continue
        what = f"the reward of {spec.agents[agent]}"
        number = _numbers(each, what)
        if number.size != 1:
            raise OryxError(f"{what} must be one number, got shape {number.shape}")
        if not np.isfinite(number).all():
            raise OryxError(f"{what} must be a finite number, got {number.item()}")
        rewards[agent] = number.item()
    return rewards


def _numbers(values: Any, what: str, dtype: Any = np.float32) -> np.ndarray:
    """An array of a type; raises where something in it is no number."""
    try:
        array = np.asarray(values)
    except (TypeError, ValueError):  # lists of different lengths
        raise OryxError(f"{what} must be a list of numbers") from None
    if array.dtype.kind in NO_NUMBERS:
        raise OryxError(f"{what} must be a list of numbers")
    if array.dtype == dtype:
        return array
    with np.errstate(over="ignore"):  # what is too large becomes infinite, and is told
        return array.astype(dtype)
