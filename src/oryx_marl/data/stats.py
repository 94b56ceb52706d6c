"""What is in a dataset, in numbers that fit into JSON."""

from typing import Any

import numpy as np

from oryx_marl.data.dataset import Dataset

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
MOST_BINS = 20


def describe(dataset: Dataset) -> dict[str, Any]:
    """Size, returns, lengths, endings and actions of a dataset."""
    returns, lengths = dataset.episode_returns, dataset.episode_lengths
    finite = returns[np.isfinite(returns)]
    return {
        "name": dataset.name,
        "fingerprint": dataset.fingerprint(),
        "transitions": dataset.num_rows,
        "episodes": dataset.num_episodes,
        "agents": list(dataset.spec.agents),
        "observation_width": dataset.spec.observation_size,
        "actions": {"kind": dataset.spec.action.kind, "size": dataset.spec.action.size},
        "action_names": dataset.origin.get("action_names"),
        "returns": _summarise(finite),
        "non_finite_returns": int(returns.size - finite.size),
        "lengths": {
            "mean": float(lengths.mean()),
            "min": int(lengths.min()),
            "max": int(lengths.max()),
        },
        "histogram": make_histogram(finite),
        "endings": _share_endings(dataset),
        "action_counts": _count_actions(dataset),
        "share_with_choice": _share_with_choice(dataset),
    }


def first_agent_returns(dataset: Dataset) -> np.ndarray:
    """Of each episode; the paper's statistics are of these."""
    return np.add.reduceat(dataset.rewards[:, 0].astype(np.float64), dataset.episode_starts)


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


def _share_endings(dataset: Dataset) -> dict[str, float]:
    """Shares of episodes: all agents reached a terminal, else some were cut off, else neither."""
    starts = dataset.episode_starts
    terminal = np.logical_or.reduceat(dataset.terminals, starts, axis=0).all(axis=1)
    cut = np.logical_or.reduceat(dataset.truncations, starts, axis=0).any(axis=1) & ~terminal
    return {
        "terminal": float(terminal.mean()),
        "truncated": float(cut.mean()),
        "neither": float((~terminal & ~cut).mean()),
    }


def _count_actions(dataset: Dataset) -> list[list[int]] | None:
    """[N, A] how often each present agent took each action; None if actions are no ids."""
    if dataset.spec.action.kind == "box":
        return None
    ids = np.arange(dataset.spec.action.size)
    present = _present(dataset)
    agents = range(dataset.spec.num_agents)
    taken = [dataset.actions[present[:, agent], agent] for agent in agents]
    return [[int((actions == id_).sum()) for id_ in ids] for actions in taken]


def _share_with_choice(dataset: Dataset) -> float | None:
    """Share of present agents' steps with more than one legal action; None if there are no ids."""
    if dataset.spec.action.kind == "box":
        return None
    if dataset.legal is None:
        return float(dataset.spec.action.size > 1)
    present = _present(dataset)
    has_choice = dataset.legal.sum(axis=-1) > 1
    return float(has_choice[present].mean()) if present.any() else None


def _present(dataset: Dataset) -> np.ndarray:
    return np.ones(dataset.rewards.shape, bool) if dataset.present is None else dataset.present
