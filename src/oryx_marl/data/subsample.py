"""Smaller datasets of whole episodes: a Dataset of a Dataset, a view of any other view.

Which episodes are taken depends on lengths and returns alone, so of a view nothing else is read.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Int

from oryx_marl.data.dataset import PER_EPISODE, Dataset, split_episodes
from oryx_marl.data.view import AnyView, EpisodeSubset, View, episode_lengths, episode_returns
from oryx_marl.errors import OryxError

SHARED = (
    "environment",
    "environment_version",
    "environment_config",
    "action_names",
    "policies",
    "final_return",
)
"""What a dataset's origin says that is true of every subset as well."""


def whole_episodes(view: AnyView, rows: int, seed: int) -> AnyView:
    """Episodes drawn at random without replacement until `rows` steps are reached, in their order.

    All of them where the dataset is not larger.
    """
    return take_episodes(view, draw(episode_lengths(view), rows, seed))


def draw(lengths: Int[np.ndarray, " episodes"], rows: int, seed: int) -> Int[np.ndarray, " chosen"]:
    """Numbers of the episodes that `whole_episodes` takes from such lengths."""
    if rows < 1:
        raise OryxError(f"a dataset needs at least 1 row, not {rows}")
    shuffled = np.random.default_rng(seed).permutation(len(lengths))
    count = int(np.searchsorted(np.cumsum(lengths[shuffled]), rows)) + 1
    return np.sort(shuffled[:count])


def in_parts(dataset: Dataset, rows: int = 65_536) -> Iterator[Dataset]:
    """All episodes in their order, in parts of about so many steps."""
    for part in split_episodes(dataset.episode_starts, dataset.num_rows, rows):
        yield take_episodes(dataset, np.arange(dataset.num_episodes)[part.episodes])


def take_episodes(view: AnyView, episodes: Int[np.ndarray, " chosen"]) -> AnyView:
    """The given episodes, in the given order."""
    if isinstance(view, Dataset):
        return _copy_episodes(view, episodes)
    return EpisodeSubset(view, episodes)


def _copy_episodes(dataset: Dataset, episodes: Int[np.ndarray, " chosen"]) -> Dataset:
    """The given episodes, in memory."""
    starts, lengths = dataset.episode_starts[episodes], dataset.episode_lengths[episodes]
    new_starts = np.append(0, np.cumsum(lengths)[:-1])
    rows = np.repeat(starts - new_starts, lengths) + np.arange(lengths.sum())
    arrays = {}
    for name, array in dataset.arrays().items():
        arrays[name] = array[episodes] if name in PER_EPISODE else array[rows]
    arrays["episode_starts"] = new_starts.astype(dataset.episode_starts.dtype)
    return replace(dataset, **arrays)


def by_return(view: AnyView, low: float, high: float) -> AnyView:
    """The episodes whose return lies between two quantiles of all returns, both included."""
    require_quantiles(low, high)
    returns = episode_returns(view)
    lowest, highest = np.quantile(returns, [low, high], method="inverted_cdf")
    return take_episodes(view, np.flatnonzero((returns >= lowest) & (returns <= highest)))


def require_quantiles(low: float, high: float) -> None:
    """Raises unless these are two quantiles."""
    if not 0 <= low < high <= 1:
        raise OryxError(f"quantiles must satisfy 0 <= low < high <= 1, not {low} and {high}")


def describe(whole: View, part: View, ways: Sequence[str], told: dict[str, Any]) -> dict[str, Any]:
    """The origin of a subset: what is true of it, and under `subsample` what it was taken from.

    What the origin of the whole says of its making, such as the command, is not true of the subset.

    Args:
        ways: how its episodes were chosen, in words.
        told: settings and names, kept as they are.
    """
    kept, count = len(part.episode_starts), len(whole.episode_starts)
    shared = {name: whole.origin[name] for name in SHARED if name in whole.origin}
    return {
        **shared,
        "description": f"{kept:,} of {count:,} episodes of {whole.name}: {', then '.join(ways)}",
        "subsample": {**told, "episodes": kept, "origin": whole.origin},
    }


def match_returns(view: AnyView, other: View, seed: int, bins: int = 20) -> AnyView:
    """Episodes drawn at random so that their returns are distributed as those of `other`.

    As many as possible: each of `bins` equal ranges of the other's returns gets its share of the
    episodes, without replacement, up to rounding.
    """
    others = episode_returns(other)
    edges = np.histogram_bin_edges(others, bins)
    wanted = np.histogram(others, edges)[0]
    returns = episode_returns(view)
    place = np.clip(np.searchsorted(edges, returns, side="right") - 1, 0, len(wanted) - 1)
    place = np.where((returns < edges[0]) | (returns > edges[-1]), -1, place)
    found = np.bincount(place[place >= 0], minlength=len(wanted))
    if lacking := np.flatnonzero((wanted > 0) & (found == 0)).tolist():
        share = wanted[lacking[0]] / wanted.sum()
        raise OryxError(
            f"no episode of '{view.name}' has a return from {edges[lacking[0]]:.4g} to "
            f"{edges[lacking[0] + 1]:.4g}, but {share:.1%} of those of '{other.name}' have; "
            "match with fewer bins, or with other data"
        )
    needed = wanted > 0
    scale = (found[needed] / wanted[needed]).min()
    counts = np.minimum(np.round(wanted * scale).astype(int), found)
    random = np.random.default_rng(seed)
    chosen = [
        random.choice(np.flatnonzero(place == bin_), count, replace=False)
        for bin_, count in enumerate(counts)
    ]
    if not counts.sum():
        raise OryxError(f"'{view.name}' has too few episodes to match '{other.name}'")
    return take_episodes(view, np.sort(np.concatenate(chosen)))
