"""Damaged, lost, unwritable, killed: a recording is named as such, or goes on exactly."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from recording import BORDERS, SPEC, cut, make_long_chunk, make_steps, read_all, record

from oryx_marl.data import vault
from oryx_marl.data.record.segments import Recorder
from oryx_marl.errors import OryxError


def damages(content: bytes) -> Iterator[tuple[str, bytes]]:
    """Ways in which a file can go wrong."""
    yield "emptied", b""
    yield "halved", content[: len(content) // 2]
    yield "one byte short", content[:-1]
    yield "zeroed", bytes(len(content))
    for place in range(0, len(content), 7):
        flipped = bytearray(content)
        flipped[place] ^= 1 << (place % 8)
        yield f"byte {place}", bytes(flipped)


def read_and_go_on(folder: Path) -> tuple[list[str], bytes]:
    """Fingerprints of all parts, and the segment that follows the second."""
    recorder = Recorder(folder)
    parts = [part.fingerprint() for part in recorder.parts(SPEC, "made", {})]
    recorder.rewind(2)
    recorder.append(3, make_steps(2, 5, seed=3))
    content = (folder / "3.npz").read_bytes()
    recorder.rewind(2)
    return parts, content


@pytest.mark.slow
def test_every_damage_is_named_or_harmless(tmp_path):
    record(tmp_path, cut(make_steps(2, 10), [0, 5, 10]))
    expected = read_and_go_on(tmp_path)
    file, found = tmp_path / "2.npz", 0
    content = file.read_bytes()
    for what, damaged in damages(content):
        file.write_bytes(damaged)
        try:
            got = read_and_go_on(tmp_path)
        except OryxError as error:
            found += f"{file} is damaged" in str(error)
        else:
            assert got == expected, what
    assert found > len(content) / 7 * 0.7
    Recorder(tmp_path).rewind(1)  # what is dropped need not be whole


def test_lost_and_exchanged_segments_are_noticed(tmp_path):
    folder = tmp_path / "recording"
    record(folder, cut(make_steps(3, 40), BORDERS))
    (folder / "4.npz").rename(tmp_path / "4.npz")
    with pytest.raises(OryxError, match=r"5\.npz is damaged: it continues update 4, but .* 3\."):
        list(Recorder(folder).parts(SPEC, "made", {}))
    (folder / "3.npz").rename(folder / "4.npz")
    with pytest.raises(OryxError, match=r"4\.npz is damaged: it is the segment of update 3"):
        list(Recorder(folder).parts(SPEC, "made", {}))


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("somebody's notes")
    recorder = Recorder(tmp_path / "file" / "recording")
    with pytest.raises(OryxError, match="Nothing that was recorded before is lost"):
        recorder.append(1, make_steps(3, 4))
    assert recorder.num_rows == 0


def start(program: str, folder: Path) -> subprocess.Popen:
    """Starts a program that uses `recording` in a process of its own."""
    paths = [str(Path(vault.__file__).parents[2]), str(Path(__file__).parents[2] / "helpers")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", program, str(folder)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


FULL = """
import resource, signal, sys
from pathlib import Path
from recording import make_steps
from oryx_marl.data.record.segments import Recorder
from oryx_marl.errors import OryxError

recorder = Recorder(Path(sys.argv[1]))
recorder.append(1, make_steps(5, 20))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    recorder.append(2, make_steps(5, 9000))
except OryxError as error:
    print("refused:", error)
recorder.append(2, make_steps(5, 30, seed=2))
"""


def test_a_full_disk_is_named_and_loses_nothing(tmp_path):
    process = start(FULL, tmp_path / "full")
    output = process.communicate(timeout=60)[0]
    assert process.returncode == 0
    assert output.startswith("refused: the steps up to update 2 could not be written")
    assert "Nothing that was recorded before is lost" in output
    assert "then resume" in output
    record(tmp_path / "plain", [make_steps(5, 20), make_steps(5, 30, seed=2)])
    assert read_all(tmp_path / "full") == read_all(tmp_path / "plain")


KILLED = """
import sys
from pathlib import Path
from recording import make_long_chunk
from oryx_marl.data.record.segments import Recorder

recorder = Recorder(Path(sys.argv[1]))
print("ready", flush=True)
for update in range(1, 10_000):
    recorder.append(update, make_long_chunk(update))
"""


@pytest.mark.parametrize("seconds", [0.05, 0.3, 0.7])
def test_a_killed_recording_is_continued_exactly(seconds, tmp_path):
    process = start(KILLED, tmp_path / "killed")
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    while not (tmp_path / "killed" / "1.npz").exists():
        time.sleep(0.01)
    time.sleep(seconds)
    process.kill()
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    last = max(int(path.stem) for path in (tmp_path / "killed").glob("*.npz"))
    kept = max(1, last - 1)
    recorder = Recorder(tmp_path / "killed")
    recorder.rewind(kept)
    for update in range(kept + 1, last + 3):
        recorder.append(update, make_long_chunk(update))
    record(tmp_path / "straight", [make_long_chunk(update) for update in range(1, last + 3)])
    assert read_all(tmp_path / "killed") == read_all(tmp_path / "straight")
