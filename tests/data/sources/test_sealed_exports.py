"""Our own exports come back as they were, or are refused; those of others are not claimed."""

import json
from collections.abc import Iterator
from pathlib import Path

import h5py
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from oryx_marl.data import catalog, vault
from oryx_marl.data.dataset import Dataset
from oryx_marl.data.sources import base
from oryx_marl.data.subsample import whole_episodes
from oryx_marl.errors import OryxError, OryxWarning


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return whole_episodes(catalog.open("tmaze/planner-mixed"), 300, 0)


def import_again(path: Path, folder: Path) -> Dataset:
    return vault.read(vault.write_parts(base.read(path, "again"), folder))


def damages(content: bytes, number: int) -> Iterator[bytes]:
    """One byte another, at places that are spread over the content."""
    for step in range(number):
        at = (len(content) - 1) * step // (number - 1)
        yield content[:at] + bytes([content[at] ^ 0x55]) + content[at + 1 :]


@pytest.mark.parametrize(("kind", "file"), [("table", "a.parquet"), ("minari", "main_data.hdf5")])
@pytest.mark.filterwarnings("ignore:.*has lost its checksums:oryx_marl.errors.OryxWarning")
def test_damaged_exports_never_come_back_as_other_data(
    tmp_path: Path, dataset: Dataset, kind: str, file: str
) -> None:
    path = base.write([dataset], tmp_path / ("a.parquet" if kind == "table" else "a"), kind)
    damaged = path if path.is_file() else path / file
    content, refused = damaged.read_bytes(), 0
    for number, other in enumerate(damages(content, 40)):
        damaged.write_bytes(other)
        try:
            found = import_again(path, tmp_path / str(number))
        except OryxError:
            refused += 1
            assert not (tmp_path / str(number)).exists()
        else:
            assert found.fingerprint() == dataset.fingerprint()
    assert refused > 10
    damaged.write_bytes(content)
    assert import_again(path, tmp_path / "whole").fingerprint() == dataset.fingerprint()


def test_one_number_in_a_table(tmp_path: Path, dataset: Dataset) -> None:
    """Rewritten with the checksums it is refused; without them it is told that there are none."""
    path = base.write([dataset], tmp_path / "a.parquet", "table")
    seal = pq.ParquetFile(path).metadata.metadata[b"oryx_marl_seal"]
    table = pq.read_table(path)
    place = table.schema.names.index("reward")
    rewards = table["reward"].to_pylist()
    rewards[3] = 77.0
    other = table.set_column(
        place, table.schema.field(place), [pa.array(rewards, table["reward"].type)]
    )
    with pq.ParquetWriter(tmp_path / "b.parquet", other.schema) as writer:
        writer.write_table(other)
        writer.add_key_value_metadata({b"oryx_marl_seal": seal})
    with pytest.raises(OryxError, match=r"b\.parquet .*rewards differ from what was exported"):
        import_again(tmp_path / "b.parquet", tmp_path / "b")
    pq.write_table(other, tmp_path / "c.parquet")
    with pytest.warns(OryxWarning, match=r"c\.parquet has lost its checksums"):
        assert import_again(tmp_path / "c.parquet", tmp_path / "c").rewards.max() == 77


def test_one_number_in_a_folder_of_minari(tmp_path: Path, dataset: Dataset) -> None:
    path = base.write([dataset], tmp_path / "a", "minari")
    with h5py.File(path / "main_data.hdf5", "r+") as file:
        file["episode_0/infos/rewards"][0] = 77.0
    with pytest.raises(OryxError, match="rewards differ from what was exported"):
        import_again(path, tmp_path / "b")
    metadata = json.loads((path / "metadata.json").read_text())
    metadata["oryx_marl"]["spec"]["environment_config"] = {"x": 1}
    (path / "metadata.json").write_text(json.dumps(metadata))
    with pytest.raises(OryxError, match="its description differ"):
        import_again(path, tmp_path / "b")
    del metadata["oryx_marl"]["seal"]
    metadata["oryx_marl"]["format"] = 1  # as before there were checksums
    (path / "metadata.json").write_text(json.dumps(metadata))
    assert import_again(path, tmp_path / "b").rewards.max() == 77
