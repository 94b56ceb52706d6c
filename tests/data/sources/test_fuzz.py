"""Damaged and hostile files: an import or an OryxError, soon, and nothing else is touched."""

import json
import re
import resource
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from foreign_files import PUBLISHED, build_tree, pymarl_batch, store, write_as_flashbax

from oryx_marl.data import vault
from oryx_marl.data.sources import base
from oryx_marl.errors import OryxError

QUICK, THOROUGH = 25, 500
LONGEST_SECONDS = 30.0
MOST_BYTES = 2**29
"""More memory than this is not needed for files of some thousand bytes."""

CSV = "episode,step,agent,obs_0,obs_1,action,reward,terminal,legal\n" + "".join(
    f"{row // 6},{row // 2 % 3},{'ab'[row % 2]},{row / 7:.3f},{-row},{row % 3},1.5,{row % 6 > 3:d},"
    f'"1 1 1"\n'
    for row in range(24)
)
TOKENS = [b"-1", b"1e999", b"nan", b"", b'"', b",,,", b"\x00", b"99999999999999999999", b"\xff\xfe"]


def make_csv(folder: Path, dataset) -> Path:
    (folder / "log.csv").write_text(CSV)
    return folder / "log.csv"


def make_parquet(folder: Path, dataset) -> Path:
    columns = {
        "episode": [1, 1, 2, 2],
        "step": [0, 1, 0, 1],
        "agent": ["a"] * 4,
        "obs": [[0.5, 1.0]] * 4,
        "action": [0, 1, 2, 0],
        "reward": [1.0] * 4,
        "action_mask": [[True] * 3] * 4,
    }
    pa.parquet.write_table(pa.table(columns), folder / "log.parquet")
    return folder / "log.parquet"


def make_json_lines(folder: Path, dataset) -> Path:
    names, *rows = (line.split(",") for line in CSV.replace('"', "").splitlines())
    lines = (json.dumps(dict(zip(names, row, strict=True))) for row in rows)
    numbers = (re.sub(r'"(-?[0-9.]+)"', r"\1", line) for line in lines)
    (folder / "log.jsonl").write_text("\n".join(numbers))
    return folder / "log.jsonl"


def make_parts(folder: Path, dataset) -> Path:
    (folder / "parts").mkdir()
    for name in ("a", "b"):
        store(pymarl_batch(), folder, "h5").rename(folder / "parts" / f"{name}.h5")
    return folder / "parts"


def make_toml(folder: Path, dataset) -> Path:
    (folder / "log.toml").write_text('episode = "episode"\nobservation = ["obs"]\nsort = true\n')
    return folder / "log.toml"


MAKERS = {
    "csv": make_csv,
    "parquet": make_parquet,
    "json lines": make_json_lines,
    "parquet of ours": lambda folder, made: base.write([made], folder / "own.parquet", "table"),
    "hdf5 pymarl": lambda folder, made: store(pymarl_batch(), folder, "h5"),
    "hdf5 pymarl parts": make_parts,
    "npz pymarl": lambda folder, made: store(pymarl_batch(), folder, "npz"),
    "npy flat": lambda folder, made: store(made.arrays(), folder, "folder"),
    "hdf5 flat": lambda folder, made: store(made.arrays(), folder, "h5"),
    "minari": lambda folder, made: base.write([made], folder / "minari", "minari"),
    "vault": lambda folder, made: write_as_flashbax(
        build_tree(PUBLISHED[62], 0), folder / "a" / "b"
    ),
    "vault of ours": lambda folder, made: base.write([made], folder / "own" / "b", "og_marl"),
    "mapping": make_toml,
}


def mutate(content: bytes, random: np.random.Generator) -> bytes:
    """One to four kinds of damage."""
    data = bytearray(content)
    for _ in range(random.integers(1, 5)):
        if not data:
            break
        place = int(random.integers(len(data)))
        length = int(random.integers(1, 17))
        kind = random.integers(7)
        if kind == 0:
            data[place] ^= 1 << int(random.integers(8))
        elif kind == 1:
            data[place : place + length] = random.bytes(length)
        elif kind == 2:
            del data[place : place + length]
        elif kind == 3:
            data[place:place] = data[place : place + 8 * length]
        elif kind == 4:
            data[place : place + length] = TOKENS[random.integers(len(TOKENS))]
        elif kind == 5:
            value = (0, 1, 2**31 - 1, 2**32 - 1, 2**63 - 1, 2**64 - 1)[random.integers(6)]
            data[place : place + 8] = int(value).to_bytes(8, "little")
        elif random.random() < 0.2:
            del data[place:]
    return bytes(data)


def damaged(path: Path, folder: Path, random: np.random.Generator, count: int) -> Iterator[Path]:
    """Copies of a source, each with damage in one of its files."""
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    for number in range(count):
        chosen = files[int(random.integers(len(files)))]
        copy = folder / f"{number}-{path.name}"
        shutil.copytree(path, copy) if path.is_dir() else shutil.copy(path, copy)
        target = copy / chosen.relative_to(path) if path.is_dir() else copy
        target.write_bytes(mutate(chosen.read_bytes(), random))
        yield copy
        shutil.rmtree(copy) if copy.is_dir() else copy.unlink()


def snapshot(folder: Path) -> dict[str, int]:
    return {str(file.relative_to(folder)): file.lstat().st_size for file in folder.rglob("*")}


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def import_it(source: Path, target: Path) -> None:
    if source.suffix == ".toml":
        base.read_options("table", source)
    else:
        vault.read(vault.write_parts(base.read(source, "a/b"), target))


def fuzz(kind: str, count: int, seed: int, folder: Path, dataset) -> tuple[int, int]:
    """(imported, refused) of so many damaged sources."""
    for name in ("source", "damaged", "target"):
        (folder / name).mkdir()
    path = MAKERS[kind](folder / "source", dataset)
    imported = refused = 0
    memory = peak_bytes()
    random = np.random.default_rng(seed)
    for number, source in enumerate(damaged(path, folder / "damaged", random, count)):
        before, begun = snapshot(folder), time.monotonic()
        target = folder / "target" / str(number)
        try:
            import_it(source, target)
            imported += 1
        except OryxError:
            refused += 1
            is_left = target.exists()
            assert not is_left, (kind, seed, number)
        shutil.rmtree(target, ignore_errors=True)
        assert time.monotonic() - begun < LONGEST_SECONDS, (kind, seed, number)
        assert snapshot(folder) == before, (kind, seed, number)
        assert peak_bytes() - memory < MOST_BYTES, (kind, seed, number)
    return imported, refused


@pytest.mark.parametrize("kind", MAKERS)
def test_a_few(kind: str, tmp_path: Path, full_dataset) -> None:
    imported, refused = fuzz(kind, QUICK, 1, tmp_path, full_dataset)
    assert imported + refused == QUICK
    assert refused


@pytest.mark.slow
@pytest.mark.parametrize("kind", MAKERS)
def test_many(kind: str, tmp_path: Path, full_dataset) -> None:
    imported, refused = fuzz(kind, THOROUGH, 2, tmp_path, full_dataset)
    assert imported + refused == THOROUGH
    assert refused


def test_there_are_at_least_5000() -> None:
    assert len(MAKERS) * THOROUGH >= 5_000


@pytest.mark.parametrize("kind", MAKERS)
def test_undamaged_sources_are_imported(kind: str, tmp_path: Path, full_dataset) -> None:
    (tmp_path / "source").mkdir()
    import_it(MAKERS[kind](tmp_path / "source", full_dataset), tmp_path / "target")
