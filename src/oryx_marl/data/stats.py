"""What is in a dataset, in numbers that fit into JSON."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Bool

from oryx_marl.data import view as views
from oryx_marl.data.view import Chunk, View
from oryx_marl.envs import base as envs

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
MOST_BINS = 20
COUNTED = ("terminals", "truncations", "actions", "action_mask", "agent_mask")
"""Arrays that are counted row by row."""


def describe(view: View, fingerprint: str | None = None) -> dict[str, Any]:
    """Size, returns, lengths, endings and actions of a dataset.

    Its fingerprint is computed unless it is given.
    """
    returns, lengths = views.episode_returns(view), views.episode_lengths(view)
    finite = returns[np.isfinite(returns)]
    endings, actions, choices = _Endings(view), _Actions(view), _Choices(view)
    for chunk in views.chunks(view, COUNTED):
        for counter in (endings, actions, choices):
            counter.add(chunk)
    return {
        "name": view.name,
        "fingerprint": fingerprint or views.fingerprint(view),
        "transitions": view.num_rows,
        "episodes": len(view.episode_starts),
        "agents": list(view.spec.agents),
        "observation_width": view.spec.observation_size,
        "actions": {"kind": view.spec.action.kind, "size": view.spec.action.size},
        "action_names": find_action_names(view),
        "returns": _summarise(finite),
        "non_finite_returns": int(returns.size - finite.size),
        "lengths": {
            "mean": float(lengths.mean()),
            "min": int(lengths.min()),
            "max": int(lengths.max()),
        },
        "histogram": make_histogram(finite),
        "endings": endings.shares(),
        "action_counts": actions.counts(),
        "share_with_choice": choices.share(),
    }


def find_action_names(view: View) -> list[str] | None:
    """What actions are called by the log, or else by the environment that the Spec names."""
    return view.origin.get("action_names") or envs.find_action_names(view.spec)


def first_agent_returns(view: View) -> np.ndarray:
    """Of each episode; the paper's statistics are of these."""
    return views.sum_rewards(view, lambda rewards: rewards[:, 0].astype(np.float64))


def make_histogram(values: np.ndarray) -> dict[str, list]:
    """Edges and counts; of few values at equal distances each has a bin, with the value in its
    middle, and of whole numbers every bin has as many."""
    if values.size == 0:
        return {"edges": [], "counts": []}
    distinct = np.unique(np.round(values, 6))
    first, last, gaps = distinct[0], distinct[-1], np.diff(distinct)
    if (distinct == np.round(distinct)).all():
        width = np.ceil((last - first + 1) / MOST_BINS)
        edges = np.arange(first - 0.5, last + 0.5 + width, width)
    elif distinct.size == 1:
        edges = first + np.array([-0.5, 0.5])
    elif distinct.size <= MOST_BINS and np.ptp(gaps) < gaps.min() / 100:
        edges = np.append(distinct - gaps[0] / 2, last + gaps[0] / 2)
    else:
        edges = np.linspace(values.min(), values.max(), MOST_BINS + 1)
    counts, _ = np.histogram(values, edges)
    return {"edges": edges.tolist(), "counts": counts.tolist()}


def _summarise(values: np.ndarray) -> dict[str, Any]:
    """Mean, spread and quantiles; None where there is no value."""
    if values.size == 0:
        return {"mean": None, "std": None, "min": None, "max": None, "quantiles": {}}
    quantiles = np.quantile(values, QUANTILES)
    return {
        "mean": float(values.mean()),
        "std": float(values.std()),
        "min": float(values.min()),
        "max": float(values.max()),
        "quantiles": {
            str(at): float(value) for at, value in zip(QUANTILES, quantiles, strict=True)
        },
    }


class _Endings:
    """How episodes end; one may reach over several chunks."""

    def __init__(self, view: View) -> None:
        self._num_episodes = len(view.episode_starts)
        self._num_terminal = self._num_cut = 0
        self._terminal = self._cut = np.zeros(view.spec.num_agents, bool)

    def add(self, chunk: Chunk) -> None:
        terminal = np.logical_or.reduceat(chunk.arrays["terminals"], chunk.episode_starts, axis=0)
        cut = np.logical_or.reduceat(chunk.arrays["truncations"], chunk.episode_starts, axis=0)
        if chunk.first_step:
            terminal[0] |= self._terminal
            cut[0] |= self._cut
        self._terminal, self._cut = terminal[-1].copy(), cut[-1].copy()
        complete = len(terminal) - (not chunk.is_last[-1])
        is_terminal = terminal[:complete].all(axis=1)
        self._num_terminal += int(is_terminal.sum())
        self._num_cut += int((cut[:complete].any(axis=1) & ~is_terminal).sum())

    def shares(self) -> dict[str, float]:
        """Of episodes: all agents reached a terminal, else some were cut off, else neither."""
        neither = self._num_episodes - self._num_terminal - self._num_cut
        return {
            "terminal": self._num_terminal / self._num_episodes,
            "truncated": self._num_cut / self._num_episodes,
            "neither": neither / self._num_episodes,
        }


class _Actions:
    """How often each present agent took each action."""

    def __init__(self, view: View) -> None:
        action = view.spec.action
        self._is_box, self._size = action.kind == "box", action.size
        self._counts = np.zeros((view.spec.num_agents, 0 if self._is_box else action.size), int)

    def add(self, chunk: Chunk) -> None:
        if self._is_box:
            return
        actions, agent_mask = chunk.arrays["actions"], find_agent_mask(chunk.arrays)
        is_id = (
            agent_mask & (actions >= 0) & (actions < self._size) & (actions == np.floor(actions))
        )
        for agent, counts in enumerate(self._counts):
            taken = actions[is_id[:, agent], agent].astype(np.int64)
            counts += np.bincount(taken, minlength=self._size)

    def counts(self) -> list[list[int]] | None:
        """[N, A]; None if actions are no ids."""
        return None if self._is_box else self._counts.tolist()


class _Choices:
    """How often present agents had more than one legal action."""

    def __init__(self, view: View) -> None:
        self._action = view.spec.action
        self._has_masks = "action_mask" in view.layout
        self._num_choices = self._num_steps = 0

    def add(self, chunk: Chunk) -> None:
        if self._has_masks and self._action.kind == "discrete":
            agent_mask = find_agent_mask(chunk.arrays)
            has_choice = chunk.arrays["action_mask"].sum(axis=-1) > 1
            self._num_choices += int((has_choice & agent_mask).sum())
            self._num_steps += int(agent_mask.sum())

    def share(self) -> float | None:
        """Share of present agents' steps; None if actions are no ids or nobody is there."""
        if self._action.kind == "box":
            return None
        if not self._has_masks:
            return float(self._action.size > 1)
        return self._num_choices / self._num_steps if self._num_steps else None


def find_agent_mask(arrays: Mapping[str, np.ndarray]) -> Bool[np.ndarray, "R N"]:
    """Which agents take part in each of some rows."""
    if "agent_mask" in arrays:
        return arrays["agent_mask"]
    return np.ones(arrays["actions"].shape[:2], bool)
