"""Unpacked datasets: the same arrays, made once, within bounds, and made again where damaged."""

import os
import shutil
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from generated import assert_same_data, datasets
from hypothesis import HealthCheck, given, settings

from oryx_marl.data import catalog, mapped, vault
from oryx_marl.data.dataset import Dataset
from oryx_marl.data.subsample import take_episodes
from oryx_marl.data.vault_view import VaultView
from oryx_marl.errors import OryxError

DATA = "tmaze/planner-expert"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(mapped.VARIABLE, str(tmp_path / "unpacked"))
    return tmp_path / "unpacked"


def kept(cache: Path) -> list[str]:
    found = cache.iterdir() if cache.exists() else ()
    return sorted(each.name for each in found if each.is_dir())


@settings(deadline=None, max_examples=20, suppress_health_check=list(HealthCheck))
@given(dataset=datasets())
def test_everything_is_as_it_was(dataset: Dataset) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        assert_same_data(mapped.unpack(dataset, dataset.fingerprint()), dataset)


def test_subsets_of_vaults_are_unpacked(tmp_path: Path) -> None:
    dataset = catalog.open(DATA)
    episodes = np.array([3, 0, 7])
    found = mapped.unpack(take_episodes(catalog.view(DATA), episodes), "some")
    assert_same_data(found, take_episodes(dataset, episodes))
    assert mapped.fingerprint(catalog.view(DATA)) == dataset.fingerprint()
    assert mapped.fingerprint(catalog.view(DATA)) == dataset.fingerprint()  # remembered now
    with pytest.raises(ValueError, match="read-only"):
        found.rewards[0] = 1


def test_only_once_and_again_if_damaged(own_cache: Path) -> None:
    view, told = catalog.view(DATA), []
    mapped.unpack(view, "a", told.append)
    assert told[-1] == view.num_rows
    told.clear()
    mapped.unpack(view, "a", told.append)
    assert told == []
    folder = own_cache / kept(own_cache)[0]
    with (folder / "rewards.raw").open("ab") as file:
        file.write(b"?")
    assert_same_data(mapped.unpack(view, "a", told.append), catalog.open(DATA))
    assert told


def test_what_was_not_used_for_longest_goes(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = catalog.view(DATA)
    one = mapped.num_bytes(view.layout)
    monkeypatch.setenv(mapped.MOST_VARIABLE, str(2 * one))
    for mark in "ab":
        mapped.unpack(view, mark)
    first, second = sorted(
        (own_cache / name for name in kept(own_cache)), key=lambda each: each.stat().st_mtime_ns
    )
    os.utime(first, (1, 1))
    os.utime(second, (2, 2))
    still_open = mapped.unpack(view, "a")  # used again: no longer the oldest
    oldest = {each for each in (first, second) if each.stat().st_mtime == 2}
    mapped.unpack(view, "c")
    assert not any(each.exists() for each in oldest)
    assert len(kept(own_cache)) == 2
    assert_same_data(still_open, catalog.open(DATA))


def test_too_little_room_is_told_before_anything_is_written(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = catalog.view(DATA)
    full: Any = type("Usage", (), {"free": 10})
    monkeypatch.setattr(shutil, "disk_usage", lambda path: full)
    with pytest.raises(OryxError, match=f"only 10 free.*{mapped.VARIABLE}"):
        mapped.unpack(view, "a")
    monkeypatch.setenv(mapped.MOST_VARIABLE, "1000")
    with pytest.raises(OryxError, match=f"more than the 1,000.*{mapped.MOST_VARIABLE}"):
        mapped.unpack(view, "a")
    assert kept(own_cache) == []


def test_a_failed_write_leaves_nothing(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(mapped, "_per_episode", fail)
    with pytest.raises(OryxError, match=f"No space left.*{mapped.VARIABLE}"):
        mapped.unpack(catalog.view(DATA), "a")
    assert kept(own_cache) == []


def test_two_at_once_unpack_it_once(tmp_path: Path, own_cache: Path) -> None:
    vault.write(catalog.open(DATA), tmp_path / "log")
    told: list[int] = []
    both = [
        threading.Thread(
            target=lambda: mapped.unpack(VaultView(tmp_path / "log"), "a", told.append)
        )
        for _ in range(2)
    ]
    for each in both:
        each.start()
    for each in both:
        each.join()
    assert told.count(catalog.view(DATA).num_rows) == 1
