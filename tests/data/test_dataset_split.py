"""Train and validation episodes: which they are, in memory and on disk."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from oryx_marl.data import vault
from oryx_marl.data.dataset import Dataset
from oryx_marl.data.split import split
from oryx_marl.data.vault_view import VaultView
from oryx_marl.data.view import EpisodeSubset, load
from oryx_marl.errors import OryxError

LENGTH = 7
Build = Callable[[int], Dataset]


@pytest.fixture
def make_logs(build_dataset: Callable[..., Dataset]) -> Build:
    """Episodes of seven steps, every row with other observations."""

    def build(episodes: int) -> Dataset:
        return build_dataset(episodes * LENGTH, tuple(range(0, episodes * LENGTH, LENGTH)))

    return build


def test_whole_episodes_are_held_out_and_none_is_lost(make_logs: Build) -> None:
    logs = make_logs(40)
    parts = split(logs, 0.25, LENGTH)
    assert parts.validation is not None
    assert (parts.validation.num_episodes, parts.train.num_episodes) == (10, 30)
    both = np.concatenate([parts.train.observations, parts.validation.observations])
    assert sorted(map(bytes, both)) == sorted(map(bytes, logs.observations))
    again = split(logs, 0.25, LENGTH).validation
    assert again is not None
    assert again.fingerprint() == parts.validation.fingerprint()


def test_a_vault_is_split_into_the_same_episodes_without_reading_it(
    make_logs: Build, tmp_path: Path
) -> None:
    logs = make_logs(40)
    expected = split(logs, 0.25, LENGTH)
    found = split(VaultView(vault.write(logs, tmp_path / "logs")), 0.25, LENGTH)
    for one, other in zip(found, expected, strict=True):
        assert isinstance(one, EpisodeSubset)
        assert isinstance(other, Dataset)
        assert load(one).fingerprint() == other.fingerprint()


def test_held_out_only_where_it_is_needed(make_logs: Build) -> None:
    logs = make_logs(10)
    assert split(logs, None, LENGTH).validation.num_episodes == 1  # type: ignore[union-attr]
    assert split(make_logs(1), None, LENGTH).validation is None
    assert split(logs, 0.0, LENGTH) == (logs, None)
    with pytest.raises(OryxError, match="leaves none of the 10 episodes"):
        split(logs, 0.95, LENGTH)


def test_a_window_fits_into_what_is_held_out(make_logs: Build) -> None:
    """A tenth of ten episodes is one, of seven steps; a window of 20 takes three."""
    logs = make_logs(10)
    assert split(logs, None, 20).validation.num_episodes == 3  # type: ignore[union-attr]
    assert split(logs, None, 50).validation is None  # more than half of them
    with pytest.raises(OryxError, match="holds out 7 steps of 'tiny', but a window needs 20"):
        split(logs, 0.1, 20)
