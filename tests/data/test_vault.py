"""A vault gives back what was stored, or says that it cannot."""

import json
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import ml_dtypes
import numpy as np
import pytest
import tensorstore as ts
from generated import untouched_random
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from oryx_marl.data import _store, vault
from oryx_marl.data.dataset import Dataset
from oryx_marl.errors import OryxError
from oryx_marl.types import ActionSpace, Spec

DTYPES = [np.int8, np.uint8, np.int16, np.int32, np.int64, np.float16, np.float32, np.float64]


def assert_same(got: Dataset, expected: Dataset) -> None:
    assert got.spec == expected.spec
    assert (got.name, got.origin) == (expected.name, expected.origin)
    assert got.arrays().keys() == expected.arrays().keys()
    for name, array in expected.arrays().items():
        assert got.arrays()[name].dtype == array.dtype, name
        np.testing.assert_array_equal(got.arrays()[name], array, err_msg=name)
    assert got.fingerprint() == expected.fingerprint()


@st.composite
@untouched_random()
def datasets(draw: st.DrawFn) -> Dataset:
    rows, agents, width, size = (draw(st.integers(1, high)) for high in (20, 3, 4, 3))
    is_box, has_state = draw(st.booleans()), draw(st.booleans())

    def array(dtype: type, *shape: int) -> np.ndarray:
        return draw(hnp.arrays(dtype, shape, fill=st.nothing() if shape[0] < 4 else None))

    def maybe(dtype: type, *shape: int) -> np.ndarray | None:
        return array(dtype, *shape) if draw(st.booleans()) else None

    bounds = ((-1.0,) * size, (1.0,) * size) if is_box else ((), ())
    spec = Spec(
        environment="",
        agents=tuple(f"agent {index}" for index in range(agents)),
        observation_sizes=(width,) * agents,
        action=ActionSpace("box" if is_box else "discrete", size, *bounds),
        state_size=2 if has_state else 0,
    )
    starts = draw(st.sets(st.integers(1, rows), max_size=4)) - {rows}
    step = (rows, agents)
    kind = draw(st.sampled_from(DTYPES))
    return Dataset(
        spec=spec,
        observations=array(kind, *step, width),
        actions=array(np.float32, *step, size) if is_box else array(np.int8, *step),
        rewards=array(np.float32, *step),
        terminals=array(np.bool_, *step),
        truncations=array(np.bool_, *step),
        episode_starts=np.array(sorted({0, *starts})),
        action_mask=maybe(np.bool_, *step, size),
        agent_mask=maybe(np.bool_, *step),
        state=array(np.float64, rows, 2) if has_state else None,
        final_observations=maybe(kind, len({0, *starts}), agents, width),
        name=draw(st.text(max_size=5)),
        origin={"seed": draw(st.integers())},
    )


@given(dataset=datasets())
@settings(max_examples=40, deadline=None)
def test_round_trip(dataset):
    with TemporaryDirectory() as folder:
        path = vault.write(dataset, Path(folder) / "made" / "here.vlt" / "a b%20ü")
        assert_same(vault.read(path), dataset)


def test_round_trip_over_several_blocks_and_commits(
    full_dataset, build_dataset, tmp_path, monkeypatch
):
    monkeypatch.setattr(_store, "COMMIT_BYTES", 2**20)
    rows = 2 * _store.BLOCK_ROWS + 3
    dataset = build_dataset(rows, starts=tuple(range(0, rows, 50)))
    path = vault.write(dataset, tmp_path / "big")
    assert_same(vault.read(path), dataset)
    entry = json.loads((path / "metadata.json").read_text())["oryx_marl"]["arrays"]["observations"]
    assert len(entry["sha256"]) == 3
    assert entry["chunks"] == [1, 32_768, 2, 3]  # 24 bytes a row, up to 1 MiB


def test_bfloat16_and_big_endian_and_transposed(build_dataset, tmp_path):
    small = build_dataset(observations=np.ones((7, 2, 3), ml_dtypes.bfloat16))
    assert_same(vault.read(vault.write(small, tmp_path / "small")), small)
    plain = build_dataset()
    turned = plain.observations.astype(">i4").transpose(2, 1, 0).copy().transpose(2, 1, 0)
    other = build_dataset(observations=turned)
    assert other.fingerprint() == plain.fingerprint()
    assert_same(vault.read(vault.write(other, tmp_path / "other")), plain)


def test_describe_reads_no_array(full_dataset, tmp_path):
    path = vault.write(full_dataset, tmp_path / "full")
    shutil.rmtree(path / "d")
    about = vault.describe(path)
    assert (about["name"], about["rows"], about["origin"]) == ("tiny", 7, {"seed": 3})


def test_an_existing_dataset_is_not_overwritten(full_dataset, build_dataset, tmp_path):
    path = vault.write(full_dataset, tmp_path / "full")
    with pytest.raises(OryxError, match="is there already"):
        vault.write(build_dataset(), path)
    assert_same(vault.read(path), full_dataset)
    (tmp_path / "empty").mkdir()
    with pytest.raises(OryxError, match="is there already"):
        vault.write(build_dataset(), tmp_path / "empty")


def test_what_json_cannot_hold_is_refused_before_anything_is_written(build_dataset, tmp_path):
    with pytest.raises(OryxError, match="origin of dataset 'tiny' cannot be stored"):
        vault.write(build_dataset(origin={"made": Path()}), tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_folders_that_are_no_dataset(tmp_path):
    with pytest.raises(OryxError, match="there is no dataset folder"):
        vault.read(tmp_path / "missing")
    with pytest.raises(OryxError, match=r"has no metadata\.json"):
        vault.read(tmp_path)


def test_a_newer_format_is_named(full_dataset, tmp_path):
    path = vault.write(full_dataset, tmp_path / "full")
    text = (path / "metadata.json").read_text()
    (path / "metadata.json").write_text(text.replace('"format": 1', '"format": 2'))
    with pytest.raises(OryxError, match="has format 2, but this version"):
        vault.read(path)


def test_a_lost_chunk_is_named(build_dataset, tmp_path):
    """TensorStore itself reads zeros there, without an error."""
    path = vault.write(build_dataset(), tmp_path / "whole")
    database = {"driver": "ocdbt", "base": f"file://{path}", "path": "rewards./"}
    ts.KvStore.open(database).result().write("0.0.0", None).result()
    with pytest.raises(OryxError, match=r"array rewards\., rows 0 to 6 \(SHA-256 differs\)"):
        vault.read(path)
