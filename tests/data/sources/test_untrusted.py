"""Sources that claim more than they hold, run in circles, or lead to other files."""

import gzip
import json
import time
from pathlib import Path

import numpy as np
import pytest

from oryx_marl import limits
from oryx_marl.data.sources import base
from oryx_marl.data.sources._parquet_footer import read_claim
from oryx_marl.errors import OryxError

h5py = pytest.importorskip("h5py")
pq = pytest.importorskip("pyarrow.parquet")


def read(path: Path) -> int:
    return sum(part.num_rows for part in base.read(path, "a/b"))


def arrays(rows: int = 20) -> dict[str, np.ndarray]:
    return {
        "observations": np.random.default_rng(0).random((rows, 2, 3), np.float32),
        "actions": np.zeros((rows, 2), np.int32),
        "rewards": np.zeros((rows, 2), np.float32),
        "terminals": np.arange(rows)[:, None].repeat(2, 1) % 10 == 9,
    }


def write_hdf5(path: Path, rows: int = 20, **how: object) -> Path:
    with h5py.File(path, "w") as file:
        for name, array in arrays(rows).items():
            file.create_dataset(name, data=array, **how)
    return path


@pytest.mark.parametrize("is_cycle", [True, False])
def test_hard_links_end(tmp_path: Path, is_cycle: bool) -> None:
    """A few kilobytes with 20 links in each of 8 groups were 20^8 ways to walk."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        groups = [file.create_group("0")]
        for _ in range(1, 8):
            inner = groups[-1].create_group("0")
            for link in range(1, 20):
                groups[-1][str(link)] = inner
            groups.append(inner)
            if is_cycle:
                inner["back"] = file["0"]
    start = time.monotonic()
    with pytest.raises(OryxError, match=r"under two names|nested too deeply"):
        base.find(path)
    assert time.monotonic() - start < 5


@pytest.mark.parametrize("link", ["external", "soft", "external storage", "virtual"])
def test_other_files_are_never_opened(tmp_path: Path, link: str) -> None:
    other = write_hdf5(tmp_path / "secret.h5")
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        for name, array in arrays().items():
            if name != "rewards":
                file.create_dataset(name, data=array)
        if link == "external":
            file["rewards"] = h5py.ExternalLink(str(other), "/rewards")
        elif link == "soft":
            file["rewards"] = h5py.SoftLink("/observations")
        elif link == "external storage":
            file.create_dataset("rewards", (20, 2), "f4", external=[(str(other), 0, 160)])
        else:
            layout = h5py.VirtualLayout((20, 2), "f4")
            layout[:] = h5py.VirtualSource(str(other), "rewards", (20, 2))
            file.create_virtual_dataset("rewards", layout)
    with pytest.raises(OryxError, match=r"rewards (is a link|lies in another file)"):
        read(path)


SPACES = {
    "observation_space": json.dumps(
        {"type": "Dict", "subspaces": {"a": {"type": "Box", "shape": [1]}}}
    ),
    "action_space": json.dumps(
        {"type": "Dict", "subspaces": {"a": {"type": "Discrete", "n": 2, "start": 0}}}
    ),
}


def write_minari(folder: Path, skip: str = "") -> Path:
    folder.mkdir()
    (folder / "metadata.json").write_text(json.dumps(SPACES))
    with h5py.File(folder / "main_data.hdf5", "w") as file:
        group = file.create_group("episode_0")
        values = {
            "observations/a": np.zeros((4, 1), np.float32),
            "actions/a": np.zeros(3, np.int64),
            "rewards": np.zeros(3),
            "terminations": np.array([False, False, True]),
            "truncations": np.zeros(3, bool),
        }
        for name, array in values.items():
            if name != skip:
                group.create_dataset(name, data=array)
    return folder


@pytest.mark.parametrize("place", ["episode_0", "episode_0/rewards", "episode_0/actions"])
def test_minari_folders_do_not_lead_elsewhere(tmp_path: Path, place: str) -> None:
    honest = write_minari(tmp_path / "honest")
    assert read(honest) == 3
    folder = write_minari(tmp_path / "odd")
    with h5py.File(folder / "main_data.hdf5", "a") as file:
        del file[place]
        file[place] = h5py.ExternalLink(str(honest / "main_data.hdf5"), f"/{place}")
    with pytest.raises(OryxError, match=r"is a link to elsewhere, which is not followed"):
        read(folder)


def test_minari_episodes_that_are_one(tmp_path: Path) -> None:
    folder = write_minari(tmp_path / "odd")
    with h5py.File(folder / "main_data.hdf5", "a") as file:
        file["episode_1"] = file["episode_0"]
    with pytest.raises(OryxError, match="under two names"):
        read(folder)


def test_arrays_that_claim_more_than_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        for name, array in arrays().items():
            file.create_dataset(name, (10**12, *array.shape[1:]), array.dtype, chunks=True)
    with pytest.raises(OryxError, match=r"claims [0-9],000,000,000,000 bytes, but only 0"):
        read(path)
    path = tmp_path / "b.h5"
    with h5py.File(path, "w") as file:
        for name, array in arrays().items():
            chunks = (10**6, *array.shape[1:])
            longest = (None, *array.shape[1:])
            file.create_dataset(name, data=array, chunks=chunks, maxshape=longest, compression=9)
    monkeypatch.setattr(limits, "LEAST_BYTES", 10**6)
    with pytest.raises(OryxError, match=r"a chunk of .* claims"):
        read(path)


def test_tables_that_claim_more_than_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyarrow as pa

    rows = 200_000
    columns = {name: np.zeros(rows, np.int32) for name in ("episode", "obs", "action", "reward")}
    table = pa.table({**columns, "step": np.arange(rows) % 7})
    pq.write_table(table, tmp_path / "a.parquet")
    with gzip.open(tmp_path / "a.csv.gz", "wt") as file:
        file.write("episode,step,obs,action,reward\n" + "0,0,0,0,0\n" * rows)
    with gzip.open(tmp_path / "a.jsonl.gz", "wt") as file:
        file.write('{"episode": 0, "step": 0, "obs": 0, "action": 0, "reward": 0}\n' * rows)
    monkeypatch.setattr(limits, "LEAST_BYTES", 10_000)
    monkeypatch.setattr(limits, "MOST_TIMES", 50)
    monkeypatch.setattr("oryx_marl.data.sources._parquet.MOST_TIMES", 5)
    for name in ("a.parquet", "a.csv.gz", "a.jsonl.gz"):
        with pytest.raises(OryxError, match=r"claims .* bytes, but only .* --allow-large"):
            read(tmp_path / name)


def test_spaces_without_end(tmp_path: Path) -> None:
    folder = write_minari(tmp_path / "odd")
    spaces = {**SPACES, "action_space": SPACES["action_space"].replace('"n": 2', '"n": 1000000000')}
    (folder / "metadata.json").write_text(json.dumps(spaces))
    with pytest.raises(OryxError, match="has 1,000,000,000 actions, more than"):
        read(folder)


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_bytes_that_are_no_text(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b'episode,step,agent,obs,action,reward\n0,0,\xff\xfe,0,0,0\n{"a": "\xff"}\n')
    with pytest.raises(OryxError, match=name):
        read(path)


def test_what_parquet_claims_is_read_from_its_footer(tmp_path: Path) -> None:
    """As pyarrow counts it; and no cut or changed byte of the footer ends in anything but an error
    or another number."""
    pa = pytest.importorskip("pyarrow")
    path = tmp_path / "log.parquet"
    columns = {"a": range(500), "b": [[1.0, 2.0], []] * 250, "c": [True] * 500, "d": ["x"] * 500}
    metadata = {"k": "v" * 300}
    table = pa.table(columns).replace_schema_metadata(metadata)
    pq.write_table(table, path, row_group_size=200)
    with pq.ParquetFile(path) as file:
        found = file.metadata
        groups = [found.row_group(index) for index in range(found.num_row_groups)]
        values = sum(group.column(at).num_values for group in groups for at in range(4))
        sizes = sum(group.total_byte_size for group in groups)
    assert read_claim(path) == (values, sizes)
    whole = path.read_bytes()
    length = int.from_bytes(whole[-8:-4], "little")
    random, refused = np.random.default_rng(0), 0
    for at in random.integers(len(whole) - length - 8, len(whole), 300):
        changed = bytearray(whole)
        changed[at] ^= 1 << random.integers(8)
        path.write_bytes(changed if at % 2 else whole[:at])
        try:
            assert min(read_claim(path)) >= 0
        except (ValueError, OryxError):
            refused += 1
    assert refused > 150
