"""Clones are kept for all policies of a dataset, and a damaged file is made anew."""

from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tabular_game import Tabular, as_dataset

from oryx_marl.ope import behaviour, cache
from oryx_marl.ope.settings import OpeSettings


def test_clones_are_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path))
    like = behaviour.describe(as_dataset(Tabular.uniform(), 8), 3)
    weights = jax.tree.map(lambda x: jnp.full(x.shape, 0.5, x.dtype), like.weights)
    made = like._replace(weights=weights, log_likelihood=np.array([-1.0, -2.0, -3.0]))
    assert cache.read("key", like) is None
    cache.write("key", made)
    found = cache.read("key", like)
    assert found is not None
    assert found.log_likelihood.tolist() == [-1.0, -2.0, -3.0]
    assert all(bool((x == 0.5).all()) for x in jax.tree.leaves(found.weights))
    assert cache.read("key", behaviour.describe(as_dataset(Tabular.uniform(), 8), 2)) is None
    (tmp_path / "key.npz").write_bytes(b"damaged")
    assert cache.read("key", like) is None
    monkeypatch.setenv(cache.VARIABLE, "0")
    cache.write("other", made)
    assert not (tmp_path / "other.npz").exists()


def test_keys_name_what_clones_depend_on() -> None:
    settings, episodes = OpeSettings(), np.arange(5)
    key = cache.make_key("data", episodes, settings)
    assert key == cache.make_key("data", episodes, replace(settings, critics=9))
    assert key != cache.make_key("others", episodes, settings)
    assert key != cache.make_key("data", episodes[:4], settings)
    assert key != cache.make_key("data", episodes, replace(settings, folds=2))


def test_folds_are_of_equal_size() -> None:
    assert np.bincount(behaviour.draw_folds(10, 3, 0)).tolist() == [4, 3, 3]
    assert np.bincount(behaviour.draw_folds(2, 3, 0)).tolist() == [1, 1]
