"""Damaged files, killed writes and full disks: an OryxError, never other data."""

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from oryx_marl.data import vault, view
from oryx_marl.data.dataset import Dataset
from oryx_marl.data.vault_view import VaultView
from oryx_marl.errors import OryxError


def damages(content: bytes) -> Iterator[tuple[str, bytes | None]]:
    """Ways in which a file can go wrong; None is a file that is gone."""
    yield "deleted", None
    yield "emptied", b""
    yield "halved", content[: len(content) // 2]
    yield "one byte short", content[:-1]
    yield "longer", content + b"\0"
    yield "zeroed", bytes(len(content))
    for place in np.unique(np.linspace(0, len(content) - 1, 24).astype(int)):
        for bits in (0x01, 0x80):
            flipped = bytearray(content)
            flipped[place] ^= bits
            yield f"byte {place} xor {bits}", bytes(flipped)


def read_in_chunks(folder: Path) -> Dataset:
    """As `oryx data check` reads."""
    (part,) = view.parts(VaultView(folder))
    return part


@pytest.mark.parametrize("read", [vault.read, read_in_chunks])
def test_every_damage_to_every_file_is_found_or_harmless(full_dataset, tmp_path, read):
    path = vault.write(full_dataset, tmp_path / "vault")
    expected, found = full_dataset.fingerprint(), 0
    files = [file for file in path.rglob("*") if file.is_file()]
    assert len(files) > 3
    for file in files:
        content = file.read_bytes()
        for what, damaged in damages(content):
            if damaged is None:
                file.unlink()
            else:
                file.write_bytes(damaged)
            try:
                got = read(path)
            except OryxError:
                found += 1
            else:
                assert got.fingerprint() == expected, (file.name, what)
                assert (got.name, got.origin) == ("tiny", {"seed": 3}), (file.name, what)
            file.write_bytes(content)
    assert found > 100
    assert read(path).fingerprint() == expected


def test_a_lost_key_is_not_taken_for_a_foreign_vault(full_dataset, tmp_path):
    path = vault.write(full_dataset, tmp_path / "vault")
    text = (path / "metadata.json").read_text()
    (path / "metadata.json").write_text(text.replace('"oryx_marl"', '"oryx_merl"'))
    with pytest.raises(OryxError, match="has lost its key"):
        vault.read(path)


def test_rows_appended_by_another_program_are_noticed(full_dataset, tmp_path):
    path = vault.write(full_dataset, tmp_path / "vault")
    index = vault.Store(path)._open("vault_index", (1,), "int32", open=True)
    index.write(np.array([8], np.int32)).result()
    with pytest.raises(OryxError, match="index says 8 rows"):
        vault.read(path)


WRITE = """
import os, resource, signal, sys
from pathlib import Path
import numpy as np
from oryx_marl.data import vault
from oryx_marl.data.dataset import Dataset
from oryx_marl.errors import OryxError
from oryx_marl.types import ActionSpace, Spec

rows = 200_000
dataset = Dataset(
    spec=Spec("", ("a",), (4,), ActionSpace("discrete", 2)),
    observations=np.random.default_rng(0).random((rows, 1, 4)),
    actions=np.zeros((rows, 1), np.int8),
    rewards=np.zeros((rows, 1), np.float32),
    terminals=np.zeros((rows, 1), bool),
    truncations=np.zeros((rows, 1), bool),
    episode_starts=np.array([0]),
)
"""


def run(program: str, *arguments: str | Path) -> subprocess.CompletedProcess:
    """Runs a program in a process of its own."""
    source = str(Path(vault.__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": source, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", WRITE + program, *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)


KILLED = """
moment, folder = sys.argv[1], Path(sys.argv[2])
die = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
if moment == "arrays":
    vault.Store.write_index = die
elif moment == "metadata":
    vault._describe = die
else:
    Path.rename = die
vault.write(dataset, folder)
"""


@pytest.mark.parametrize("moment", ["arrays", "metadata", "rename"])
def test_a_killed_write_leaves_nothing_that_opens(moment, build_dataset, tmp_path):
    folder = tmp_path / "made.vlt" / "one"
    result = run(KILLED, moment, folder)
    assert result.returncode == -signal.SIGKILL, result.stderr
    (partial,) = folder.parent.glob("[!.]*")  # beside it a lock that nobody holds
    assert partial.name == "one.partial"
    for path in (folder, partial):
        with pytest.raises(OryxError):
            vault.read(path)
    dataset = build_dataset()
    vault.write(dataset, folder)
    assert vault.read(folder).fingerprint() == dataset.fingerprint()
    assert not partial.exists()


FULL = """
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, 500_000))
try:
    vault.write(dataset, Path(sys.argv[1]))
except OryxError as error:
    print("refused:", error)
"""


def test_a_full_disk_is_named_and_cleaned_up(build_dataset, tmp_path):
    neighbour, other = build_dataset(), tmp_path / "vaults" / "neighbour"
    vault.write(neighbour, other)
    result = run(FULL, tmp_path / "vaults" / "new")
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("refused: dataset 'unnamed' could not be written")
    assert "Is there space" in result.stdout
    assert [path.name for path in other.parent.iterdir()] == ["neighbour"]
    assert vault.read(other).fingerprint() == neighbour.fingerprint()


def test_of_several_writers_one_succeeds(build_dataset, tmp_path):
    """They removed each other's drafts."""
    dataset, draw = build_dataset(), random.Random(0)

    def write(folder, delay, told):
        time.sleep(delay)
        try:
            vault.write(dataset, folder)
        except OryxError as error:
            told.append(str(error))

    for number in range(10):
        folder, told = tmp_path / "made.vlt" / str(number), []
        delays = [draw.random() / 50 for _ in range(3)]
        threads = [threading.Thread(target=write, args=(folder, each, told)) for each in delays]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(told) == 2
        assert all("is being written by" in each or "is there already" in each for each in told)
        assert vault.read(folder).fingerprint() == dataset.fingerprint()
    assert len(list(folder.parent.iterdir())) == 10


def test_a_draft_that_cannot_be_opened_is_removed(build_dataset, tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(vault, "GrowingArray", refuse)
    with pytest.raises(OryxError, match="could not be written"):
        vault.write(build_dataset(), tmp_path / "a.vlt" / "b")
    assert list(tmp_path.iterdir()) == []


def test_places_that_cannot_be_written(build_dataset, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OryxError, match="could not be written"):
        vault.write(build_dataset(), tmp_path / "file" / "vault")
    (tmp_path / "name.partial").write_text("somebody's notes")
    with pytest.raises(OryxError, match="could not be written"):
        vault.write(build_dataset(), tmp_path / "name")
    assert (tmp_path / "name.partial").read_text() == "somebody's notes"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission(build_dataset, tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(OryxError, match="may you write"):
        vault.write(build_dataset(), tmp_path / "vault")
    tmp_path.chmod(0o700)


def test_a_vault_can_be_copied_and_moved(full_dataset, tmp_path):
    path = vault.write(full_dataset, tmp_path / "vault")
    shutil.copytree(path, tmp_path / "copy")
    path.rename(tmp_path / "moved")
    for name in ("copy", "moved"):
        assert vault.read(tmp_path / name).fingerprint() == full_dataset.fingerprint()
