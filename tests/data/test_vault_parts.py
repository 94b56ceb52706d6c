"""A dataset that is written part by part is the dataset written whole, or is not there at all."""

import contextlib
import gc
import json
import os
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oryx_marl.data import _store, vault
from oryx_marl.data.dataset import Dataset
from oryx_marl.errors import OryxError


@pytest.fixture
def small_blocks(monkeypatch) -> int:
    """Blocks of 16 rows, and a commit after every few of them."""
    monkeypatch.setattr(_store, "BLOCK_ROWS", 16)
    monkeypatch.setattr(_store, "COMMIT_BYTES", 2000)
    return 16


def split(dataset: Dataset, episodes: list[int]) -> Iterator[Dataset]:
    """Parts that begin with these episodes."""
    borders = [*dataset.episode_starts[episodes], dataset.num_rows]
    for part, first in enumerate(episodes):
        last = episodes[part + 1] if part + 1 < len(episodes) else dataset.num_episodes
        low, high = borders[part], borders[part + 1]
        arrays = {
            name: array[first:last] if name == "final_observations" else array[low:high]
            for name, array in dataset.arrays().items()
        }
        arrays["episode_starts"] = dataset.episode_starts[first:last] - low
        yield replace(dataset, **arrays)


def build_full(build_dataset: Any, rows: int, starts: tuple[int, ...], seed: int = 0) -> Dataset:
    """Random numbers in every array that a dataset can have."""
    rng = np.random.default_rng(seed)
    return build_dataset(
        rows,
        starts,
        spec=replace(build_dataset().spec, state_size=4),
        observations=rng.integers(-99, 99, (rows, 2, 3), np.int16),
        rewards=rng.random((rows, 2), np.float32),
        action_mask=rng.random((rows, 2, 3)) < 0.5,
        agent_mask=rng.random((rows, 2)) < 0.5,
        state=rng.random((rows, 4)),
        final_observations=rng.integers(-99, 99, (len(starts), 2, 3), np.int16),
        origin={"seed": seed},
    )


def assert_same(got: Dataset, expected: Dataset) -> None:
    assert (got.spec, got.name, got.origin) == (expected.spec, expected.name, expected.origin)
    assert got.arrays().keys() == expected.arrays().keys()
    for name, array in expected.arrays().items():
        assert got.arrays()[name].dtype == array.dtype, name
        np.testing.assert_array_equal(got.arrays()[name], array, err_msg=name)
    assert got.fingerprint() == expected.fingerprint()


def assert_stored_alike(parts: Iterator[Dataset], whole: Dataset, folder: Path) -> None:
    """Reads back equal, and metadata.json (hashes, chunks, shapes) is the same to the byte."""
    from_parts = vault.write_parts(parts, folder / "parts")
    from_whole = vault.write(whole, folder / "whole")
    assert_same(vault.read(from_parts), whole)
    assert (from_parts / "metadata.json").read_bytes() == (
        from_whole / "metadata.json"
    ).read_bytes()


@pytest.mark.parametrize("seed", range(12))
def test_any_split_is_stored_like_the_whole(seed, build_dataset, small_blocks, tmp_path):
    """Parts of 1 to about 150 rows over blocks of 16."""
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(1, 300))
    borders = rng.choice(np.arange(1, rows), min(rows - 1, int(rng.integers(60))), replace=False)
    starts = (0, *(int(row) for row in sorted(borders)))
    whole = build_full(build_dataset, rows, starts, seed)
    firsts = [0, *(index for index in range(1, len(starts)) if rng.random() < 0.4)]
    assert_stored_alike(split(whole, firsts), whole, tmp_path)


@pytest.mark.parametrize("length", [1, 15, 16, 17, 32, 40])
def test_parts_shorter_and_longer_than_a_block(length, build_dataset, small_blocks, tmp_path):
    starts = tuple(range(0, 160, length))
    whole = build_full(build_dataset, 160, starts)
    assert_stored_alike(split(whole, list(range(len(starts)))), whole, tmp_path)


def test_parts_and_blocks_of_real_size(build_dataset, tmp_path):
    """No part ends where a block ends; one part is longer than two blocks."""
    rows = 4 * _store.BLOCK_ROWS + 3
    whole = build_full(build_dataset, rows, (0, 7, 70_001, 250_000))
    assert_stored_alike(split(whole, [0, 1, 2, 3]), whole, tmp_path)
    document = json.loads((tmp_path / "parts" / "metadata.json").read_text())
    assert len(document["oryx_marl"]["arrays"]["observations"]["sha256"]) == 5


def test_wide_rows_are_stored_in_smaller_blocks(build_dataset, monkeypatch, tmp_path):
    """By bytes, a power of two, and none at all where 65,536 rows fit."""
    small = build_full(build_dataset, 40, (0, 7, 30))
    row_bytes = sum(array.nbytes // len(array) for array in small.arrays().values())
    for fitting, block_rows in ((70_000, 65_536), (65_535, 32_768), (17, 16), (1, 1), (0.1, 1)):
        monkeypatch.setattr(_store, "BLOCK_BYTES", int(fitting * row_bytes))
        folder = tmp_path / str(fitting)
        assert_stored_alike(split(small, [0, 2]), small, folder)
        entry = json.loads((folder / "parts" / "metadata.json").read_text())["oryx_marl"]
        assert entry["block_rows"] == block_rows
        for name, known in entry["arrays"].items():
            assert len(known["sha256"]) == -(-known["shape"][0] // block_rows), name
            assert block_rows % known["chunks"][1] == 0, name


def test_name_is_the_first_and_origin_the_last(build_dataset, tmp_path):
    first, last = build_dataset(name="a", origin={"n": 1}), build_dataset(origin={"n": 2})
    got = vault.read(vault.write_parts([first, last], tmp_path / "two"))
    assert (got.name, got.origin) == ("a", {"n": 2})
    assert got.episode_starts.tolist() == [0, 3, 5, 7, 10, 12]


def test_an_origin_may_be_completed_after_the_last_part(build_dataset, tmp_path):
    def make(late: Any) -> Iterator[Dataset]:
        origin: dict[str, Any] = {}
        yield build_dataset(origin=origin)
        origin["late"] = late

    assert vault.read(vault.write_parts(make(3), tmp_path / "made")).origin == {"late": 3}
    with pytest.raises(OryxError, match="origin of dataset 'tiny' cannot be stored"):
        vault.write_parts(make(Path()), tmp_path / "other")
    assert [path.name for path in tmp_path.iterdir()] == ["made"]


def test_big_endian_parts_fit_little_endian_ones(build_dataset, tmp_path):
    plain = build_dataset()
    turned = build_dataset(observations=plain.observations.astype(">i4"))
    got = vault.read(vault.write_parts([turned, plain, turned], tmp_path / "three"))
    np.testing.assert_array_equal(got.observations, np.tile(plain.observations, (3, 1, 1)))


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"rewards": np.zeros((7, 2))}, "its rewards are float64, not float32"),
        ({"agent_mask": np.ones((7, 2), bool)}, "it also has agent_mask"),
        ({"action_mask": None}, "it has no action_mask"),
        ({"episode_starts": np.array([0], np.int16)}, "its episode_starts are int16, not int64"),
        ({"spec": {"episode_limit": 9}}, "episode_limit of its Spec is 9, not None"),
        ({"spec": {"agents": ("up", "down")}}, "agents of its Spec is"),
    ],
)
def test_a_part_that_does_not_fit_is_named(changes, what, build_dataset, tmp_path):
    first = build_dataset(action_mask=np.ones((7, 2, 3), bool))
    if "spec" in changes:
        changes = {"spec": replace(first.spec, **changes["spec"])}
    with pytest.raises(OryxError, match=f"part 3 of dataset 'tiny' does not fit the .*{what}"):
        vault.write_parts([first, first, replace(first, **changes)], tmp_path / "parts")
    assert list(tmp_path.iterdir()) == []


def test_no_part_at_all(tmp_path):
    with pytest.raises(OryxError, match=r"there is nothing to store in .*no part was given"):
        vault.write_parts([], tmp_path / "parts")
    assert list(tmp_path.iterdir()) == []


def test_more_rows_than_the_index_can_count(build_dataset, monkeypatch, tmp_path):
    assert vault.MOST_ROWS == 2**31 - 1
    monkeypatch.setattr(vault, "MOST_ROWS", 20)
    with pytest.raises(OryxError, match="has 21 rows with its part 3, but 20 is the most"):
        vault.write_parts([build_dataset()] * 3, tmp_path / "parts")
    monkeypatch.setattr(vault.Store, "create", None)  # refused before anything is written
    with pytest.raises(OryxError, match="has 21 rows"):
        vault.write(build_dataset(21), tmp_path / "whole")
    assert list(tmp_path.iterdir()) == []


def test_more_rows_than_episode_starts_can_count(build_dataset, tmp_path):
    parts = [build_dataset(100, episode_starts=np.array([0, 30], np.int8))] * 2
    with pytest.raises(OryxError, match=r"part 2 .* from row 130 on, too much .* type int8"):
        vault.write_parts(parts, tmp_path / "parts")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("after", [0, 1, 30])
@pytest.mark.parametrize(
    "error",
    [OryxError("mine"), KeyboardInterrupt("mine"), OSError("mine"), ValueError("mine")],
    ids=lambda error: type(error).__name__,
)
def test_what_the_parts_raise_passes_and_nothing_is_left(
    error, after, build_dataset, small_blocks, tmp_path
):
    def make() -> Iterator[Dataset]:
        for _ in range(after):
            yield build_dataset()
        assert (tmp_path / "new.partial").exists() == (after > 0)
        raise error

    with pytest.raises(type(error), match=r"^mine$"):
        vault.write_parts(make(), tmp_path / "new")
    assert list(tmp_path.iterdir()) == []
    vault.write(build_dataset(), tmp_path / "new")


def test_an_existing_dataset_asks_for_no_part(build_dataset, tmp_path):
    path = vault.write(build_dataset(), tmp_path / "there")
    with pytest.raises(OryxError, match="is there already"):
        vault.write_parts((pytest.fail("asked for a part") for _ in range(1)), path)


def test_one_part_is_gone_before_the_next_is_made(build_dataset, small_blocks, tmp_path):
    made: list[weakref.ref] = []

    def make() -> Iterator[Dataset]:
        for _ in range(5):
            # The checks of types and shapes leave cycles behind, and tensorstore copies as it can.
            for _ in range(50):
                gc.collect()
                if all(reference() is None for reference in made):
                    break
                time.sleep(0.1)
            assert all(reference() is None for reference in made)
            part = build_dataset(50, (0,))
            made.extend(weakref.ref(array) for array in part.arrays().values())
            yield part
            del part

    vault.write_parts(make(), tmp_path / "parts")
    assert len(made) == 30


PROGRAM = """
import itertools, resource, sys, tracemalloc
from pathlib import Path
import numpy as np
from oryx_marl.data import _store, vault
from oryx_marl.data.dataset import Dataset
from oryx_marl.types import ActionSpace, Spec

SPEC = Spec("", ("a",), (32,), ActionSpace("discrete", 2))

def make(count, rows):
    rng = np.random.default_rng(0)
    for _ in range(count):
        yield Dataset(
            spec=SPEC,
            observations=rng.random((rows, 1, 32)),
            actions=np.zeros((rows, 1), np.int8),
            rewards=np.zeros((rows, 1), np.float32),
            terminals=np.zeros((rows, 1), bool),
            truncations=np.zeros((rows, 1), bool),
            episode_starts=np.array([0]),
        )

folder = Path(sys.argv[1])
"""


def start(program: str, folder: Path) -> subprocess.Popen:
    """Starts a program in a process of its own."""
    source = str(Path(vault.__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": source, "JAX_PLATFORMS": "cpu"}
    environment["MALLOC_ARENA_MAX"] = "1"  # memory that is freed is used again by all threads
    command = [sys.executable, "-c", PROGRAM + program, str(folder)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


MEASURED = """
_store.COMMIT_BYTES = 2**24
vault.write_parts(make(4, 20_000), folder / "first")  # what is needed once
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
vault.write_parts(make(40, 20_000), folder / "resident", 1)
grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
tracemalloc.start()
vault.write_parts(make(40, 20_000), folder / "traced", 1)
print(grown, tracemalloc.get_traced_memory()[1])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="counts memory in other units elsewhere")
def test_memory_does_not_grow_with_the_number_of_parts(tmp_path):
    """40 parts of 5 MB: at most a part, a block (17 MB) and what one commit holds are there."""
    process = start(MEASURED, tmp_path)
    grown, traced = map(int, process.communicate(timeout=120)[0].split())
    part, block = 20_000 * 270, 65_536 * 270
    assert traced < 1.1 * (part + block)
    assert grown < 60e6  # of 216e6
    assert vault.read(tmp_path / "resident").num_rows == 800_000


ENDLESS = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # also where the tests run in background
print("ready", flush=True)
for index in itertools.count():
    vault.write_parts(make(8, 9_000), folder / str(index), 1)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.parametrize("seconds", [0.03, 0.2, 0.45, 0.8])
def test_a_write_that_is_killed_leaves_a_complete_dataset_or_none(
    number, seconds, build_dataset, tmp_path
):
    """Interrupted by the user it also tidies up."""
    process = start(ENDLESS, tmp_path)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(seconds)
    for _ in range(10):  # Python ignores an interrupt that comes while it clears something away
        process.send_signal(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=6)
            break
    process.kill()  # if it still runs
    assert process.returncode == -number
    partial = [path for path in tmp_path.iterdir() if path.name.endswith(".partial")]
    assert len(partial) <= (1 if number == signal.SIGKILL else 0)
    complete = [path for path in tmp_path.glob("[!.]*") if path not in partial]
    for path in complete:
        assert vault.read(path).num_rows == 72_000
    for path in partial:
        with pytest.raises(OryxError, match="was never finished"):
            vault.read(path)
    folder = tmp_path / str(len(complete))
    assert_same(vault.read(vault.write(build_dataset(), folder)), build_dataset())
    assert not any(path.name.endswith(".partial") for path in tmp_path.iterdir())
