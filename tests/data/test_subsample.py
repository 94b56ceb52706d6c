"""Smaller datasets: by return, and like another."""

import numpy as np
import pytest

from oryx_marl.data.dataset import Dataset
from oryx_marl.data.subsample import by_return, in_parts, match_returns
from oryx_marl.errors import OryxError


@pytest.fixture
def with_returns(build_dataset):
    """A dataset of one-step episodes with given returns."""

    def build(returns: list[float]) -> Dataset:
        rows = len(returns)
        rewards = np.repeat(np.array(returns, np.float32)[:, None], 2, axis=1)
        return build_dataset(rows, starts=tuple(range(rows)), rewards=rewards)

    return build


def test_by_return(with_returns) -> None:
    dataset = with_returns([5, 1, 4, 2, 3, 0, 7, 6, 9, 8])
    assert by_return(dataset, 0.8, 1).episode_returns.tolist() == [7, 9, 8]
    assert by_return(dataset, 0, 0.1).episode_returns.tolist() == [0]
    assert by_return(dataset, 0, 1).fingerprint() == dataset.fingerprint()
    for low, high in ((0.5, 0.5), (-0.1, 1), (0, 1.1)):
        with pytest.raises(OryxError, match="quantiles must satisfy"):
            by_return(dataset, low, high)


def test_match_returns(with_returns) -> None:
    """A third of the other's episodes fail; so do a third of those drawn, and none is outside."""
    wide = with_returns([0.0] * 300 + [1.0] * 100 + [5.0] * 50)
    other = with_returns([0.0] * 10 + [1.0] * 20)
    drawn = match_returns(wide, other, seed=0)
    assert np.unique(drawn.episode_returns, return_counts=True)[1].tolist() == [50, 100]
    again, else_ = match_returns(wide, other, seed=0), match_returns(wide, other, seed=1)
    assert again.fingerprint() == drawn.fingerprint() != else_.fingerprint()


def test_match_returns_of_continuous_distributions(with_returns) -> None:
    random = np.random.default_rng(0)
    wide = with_returns(random.uniform(-4, 4, 4_000).tolist())
    other = with_returns(random.normal(size=2_000).clip(-3, 3).tolist())
    drawn = match_returns(wide, other, seed=0)
    assert drawn.num_episodes > 500
    edges = np.linspace(-3, 3, 61)
    shares = [np.cumsum(np.histogram(one.episode_returns, edges)[0]) for one in (drawn, other)]
    gap = np.abs(shares[0] / shares[0][-1] - shares[1] / shares[1][-1]).max()
    assert gap < 0.04  # of cumulative shares; of the wide one it is 0.2
    before = np.cumsum(np.histogram(wide.episode_returns, edges)[0])
    assert np.abs(before / before[-1] - shares[1] / shares[1][-1]).max() > 0.15


def test_what_cannot_be_matched_is_named(with_returns) -> None:
    with pytest.raises(OryxError, match=r"return from 9\.5 to 10, but 50\.0% of those"):
        match_returns(with_returns([0.0, 1.0]), with_returns([0.0, 10.0]), seed=0)


def test_parts_are_the_whole(full_dataset: Dataset) -> None:
    parts = list(in_parts(full_dataset, rows=4))
    assert [part.num_rows for part in parts] == [5, 2]
    for name, array in full_dataset.arrays().items():
        if name != "episode_starts":
            joined = np.concatenate([part.arrays()[name] for part in parts])
            np.testing.assert_array_equal(joined, array, err_msg=name)
