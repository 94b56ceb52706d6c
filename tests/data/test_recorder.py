"""What is recorded step by step is what a plain loop over environments finds, whatever happens."""

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oryx_marl.data import vault
from oryx_marl.data.dataset import Dataset
from oryx_marl.data.recorder import Recorder
from oryx_marl.errors import OryxError
from oryx_marl.types import ActionSpace, Spec

SPEC = Spec("", ("left", "right"), (3, 3), ActionSpace("discrete", 4), state_size=2)
NAMES = ("observations", "actions", "rewards", "terminals", "truncations")
OPTIONAL = ("legal", "present", "state")

Steps = dict[str, np.ndarray]


def make_steps(environments: int, length: int, seed: int = 0, ends: float = 0.2) -> Steps:
    """[B, T, ...] steps whose every number is random, some of which end one agent or both."""
    rng = np.random.default_rng(seed)
    step = (environments, length)
    is_end = rng.random((*step, 1)) < ends
    is_terminal = rng.random((*step, 2)) < 0.5  # each agent ends in one way or the other
    one_agent = (rng.random((*step, 1)) < 0.3) & [True, False]
    return {
        "observations": rng.integers(-9999, 9999, (*step, 2, 3), np.int16),
        "actions": rng.integers(0, 4, (*step, 2), np.int8),
        "rewards": rng.random((*step, 2), np.float32),
        "terminals": (is_end & is_terminal) | one_agent,
        "truncations": is_end & ~is_terminal,
        "final_observations": rng.integers(-9999, 9999, (*step, 2, 3), np.int16),
        "legal": rng.random((*step, 2, 4)) < 0.5,
        "present": rng.random((*step, 2)) < 0.9,
        "state": rng.random((*step, 2)),
    }


def cut(steps: Steps, borders: list[int]) -> Iterator[Steps]:
    """Chunks of time, each from one border to the next."""
    for low, high in itertools.pairwise(borders):
        yield {name: array[:, low:high] for name, array in steps.items()}


def record(folder: Path, chunks: Iterator[Steps] | list[Steps], first: int = 1) -> Recorder:
    recorder = Recorder(folder)
    for update, chunk in enumerate(chunks, first):
        recorder.append(update, chunk)
    return recorder


def find_episodes(steps: Steps, borders: list[int]) -> list[tuple[int, int, int]]:
    """(environment, first, last step), by a loop; ordered by the chunk in which they end."""
    found = []
    for environment in range(len(steps["rewards"])):
        first = 0
        for step in range(steps["rewards"].shape[1]):
            ended = steps["terminals"][environment, step] | steps["truncations"][environment, step]
            if ended.all():
                chunk = sum(step >= border for border in borders)
                found.append((chunk, environment, first, step))
                first = step + 1
    return [episode for _, *episode in sorted(found)]


def assert_holds(recorder: Recorder, steps: Steps, borders: list[int]) -> None:
    """The recorder has the episodes that a plain loop finds, in order, and nothing else."""
    episodes = find_episodes(steps, borders)
    parts = list(recorder.parts(SPEC, "made", {"seed": 1}))
    found = [
        {name: array[low : low + length] for name, array in part.arrays().items()}
        | {"final": part.final_observations[index]}
        for part in parts
        for index, (low, length) in enumerate(
            zip(part.episode_starts, part.episode_lengths, strict=True)
        )
    ]
    assert len(found) == len(episodes) == recorder.num_episodes
    for got, (environment, first, last) in zip(found, episodes, strict=True):
        for name in [*NAMES, *(name for name in OPTIONAL if name in steps)]:
            expected = steps[name][environment, first : last + 1]
            assert got[name].dtype == expected.dtype
            np.testing.assert_array_equal(got[name], expected, err_msg=name)
        np.testing.assert_array_equal(got["final"], steps["final_observations"][environment, last])
    assert recorder.num_rows == sum(part.num_rows for part in parts)
    returns = sum(part.episode_returns.sum() for part in parts)
    assert recorder.total_return == pytest.approx(returns, rel=1e-12)
    assert all((part.name, part.origin) == ("made", {"seed": 1}) for part in parts)


def read_all(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def join(recorder: Recorder, folder: Path) -> Dataset:
    """The whole recording as one dataset, through a vault."""
    return vault.read(vault.write_parts(recorder.parts(SPEC, "made", {}), folder))


@given(
    environments=st.integers(1, 5),
    lengths=st.lists(st.integers(0, 12), min_size=1, max_size=8),
    ends=st.sampled_from([0.02, 0.1, 0.3, 0.9]),
    seed=st.integers(0, 2**32),
    has_optional=st.booleans(),
)
@settings(max_examples=80, deadline=None)
def test_episodes_are_those_of_a_plain_loop(environments, lengths, ends, seed, has_optional):
    borders = [0, *np.cumsum(lengths).tolist()]
    steps = make_steps(environments, borders[-1], seed, ends)
    if not has_optional:
        steps = {name: array for name, array in steps.items() if name not in OPTIONAL}
    with TemporaryDirectory() as folder:
        recorder = record(Path(folder) / "recording", cut(steps, borders))
        assert_holds(recorder, steps, borders)
        assert_holds(Recorder(Path(folder) / "recording"), steps, borders)


def test_an_episode_ends_where_all_agents_have_ended_by_hand(tmp_path):
    """Two environments over two appends; the second never ends its last episode."""
    steps = make_steps(2, 4)
    steps["terminals"][:] = np.array([[0, 0, 1, 0], [1, 0, 0, 0]], bool)[:, :, None]
    steps["truncations"][:] = False
    steps["terminals"][0, 3], steps["truncations"][0, 3] = [True, False], [False, True]
    steps["terminals"][1, 2] = [True, False]  # one agent alone ends nothing
    recorder = record(tmp_path / "recording", cut(steps, [0, 2, 4]))
    first, second = recorder.parts(SPEC, "made", {})
    np.testing.assert_array_equal(first.observations, steps["observations"][1, :1])
    assert first.episode_starts.tolist() == [0]
    np.testing.assert_array_equal(second.observations, steps["observations"][0])
    assert second.episode_starts.tolist() == [0, 3]
    np.testing.assert_array_equal(second.final_observations, steps["final_observations"][0, [2, 3]])
    assert (recorder.num_rows, recorder.num_episodes) == (5, 3)


def test_continuous_actions_and_transposed_arrays(tmp_path):
    steps = make_steps(3, 20)
    steps["actions"] = np.random.default_rng(1).random((3, 20, 2, 4), np.float32)
    turned = {name: array.swapaxes(0, 1).copy() for name, array in steps.items()}
    views = {name: array.swapaxes(0, 1) for name, array in turned.items()}
    record(tmp_path / "plain", cut(steps, [0, 7, 20]))
    record(tmp_path / "views", cut(views, [0, 7, 20]))
    assert read_all(tmp_path / "plain") == read_all(tmp_path / "views")
    spec = Spec("", SPEC.agents, (3, 3), ActionSpace("box", 4, (0.0,) * 4, (1.0,) * 4), None, 2)
    (part, *_) = Recorder(tmp_path / "plain").parts(spec, "made", {})
    assert part.actions.shape == (part.num_rows, 2, 4)


def test_nothing_has_ended_yet(tmp_path):
    recorder = Recorder(tmp_path / "recording")
    assert list(recorder.parts(SPEC, "made", {})) == []
    assert (recorder.num_rows, recorder.num_episodes, recorder.total_return) == (0, 0, 0.0)
    assert not (tmp_path / "recording").exists()
    recorder.append(3, make_steps(4, 5, ends=0.0))
    assert list(recorder.parts(SPEC, "made", {})) == []
    assert (recorder.num_rows, recorder.num_episodes, recorder.total_return) == (0, 0, 0.0)
    assert [path.name for path in (tmp_path / "recording").iterdir()] == ["3.npz"]
    with pytest.raises(OryxError, match="no part was given"):
        join(recorder, tmp_path / "vault")


def test_one_segment_is_read_at_a_time(tmp_path):
    recorder = record(tmp_path / "recording", cut(make_steps(2, 30), [0, 10, 20, 30]))
    parts = recorder.parts(SPEC, "made", {})
    next(parts)
    (tmp_path / "recording" / "3.npz").write_bytes(b"")  # not read yet
    next(parts)
    with pytest.raises(OryxError, match=r"3\.npz is damaged"):
        next(parts)


BORDERS = [0, 5, 6, 11, 15, 20, 20, 26, 33, 36, 40]


def test_a_rewound_recording_goes_on_as_if_nothing_had_been(tmp_path):
    steps = make_steps(6, 40, ends=0.1)
    straight = record(tmp_path / "straight", cut(steps, BORDERS))
    wrong = make_steps(6, 40, seed=9)
    other = list(cut(steps, BORDERS))[:4] + list(cut(wrong, BORDERS))[4:6]
    record(tmp_path / "rewound", other)
    (tmp_path / "rewound" / "7.npz.partial").write_bytes(b"killed while writing")
    again = Recorder(tmp_path / "rewound")
    again.rewind(4)
    assert sorted(read_all(tmp_path / "rewound")) == [f"{update}.npz" for update in range(1, 5)]
    for update, chunk in list(enumerate(cut(steps, BORDERS), 1))[4:]:
        again.append(update, chunk)
    assert read_all(tmp_path / "rewound") == read_all(tmp_path / "straight")
    assert_holds(again, steps, BORDERS)
    whole, twice = join(straight, tmp_path / "a"), join(again, tmp_path / "b")
    assert whole.fingerprint() == twice.fingerprint()
    assert again.total_return == straight.total_return


def test_rewinding_the_same_recorder_and_to_the_beginning(tmp_path):
    steps = make_steps(3, 40)
    recorder = record(tmp_path / "recording", cut(steps, BORDERS))
    before = read_all(tmp_path / "recording")
    recorder.rewind(10)
    assert read_all(tmp_path / "recording") == before
    recorder.rewind(0)
    assert (recorder.num_rows, list(recorder.parts(SPEC, "made", {}))) == (0, [])
    Recorder(tmp_path / "other").rewind(0)
    for update, chunk in enumerate(cut(steps, BORDERS), 1):
        recorder.append(update, chunk)
    assert read_all(tmp_path / "recording") == before


def test_rewinding_to_what_was_never_recorded(tmp_path):
    recorder = record(tmp_path / "recording", cut(make_steps(3, 40), BORDERS))
    before = read_all(tmp_path / "recording")
    for update in (11, -1):
        with pytest.raises(OryxError, match=rf"no segment of update {update}.*begin again"):
            recorder.rewind(update)
    assert read_all(tmp_path / "recording") == before


def change(name: str, change_array: object) -> Steps:
    """Steps like the others, but for one array; None removes it."""
    steps = make_steps(3, 4, seed=5)
    if change_array is None:
        del steps[name]
    else:
        assert callable(change_array)
        steps[name] = change_array(steps.get(name))
    return steps


@pytest.mark.parametrize(
    ("name", "change_array", "what"),
    [
        ("truncations", None, r"missing are \['truncations'\]"),
        ("returns", lambda _: np.zeros((3, 4, 2)), r"unknown are \['returns'\]"),
        ("legal", None, "legal of one step must be"),
        ("rewards", lambda array: array.astype(float), "rewards of one step must be .*float64"),
        ("observations", lambda array: array[..., :2], "final_observations has shape"),
        ("state", lambda array: array[..., :1], "state of one step must be"),
        ("actions", lambda array: array[:, :3], r"actions has shape \(3, 3, 2\)"),
        ("rewards", lambda array: array[..., 0], r"rewards has shape \(3, 4\)"),
        ("terminals", lambda array: array.astype(int), "terminals has type int64"),
        ("observations", lambda array: array.astype(object), "observations has type object"),
        ("state", lambda array: array.astype(ml_dtypes.bfloat16), "state has type bfloat16"),
    ],
)
def test_steps_that_do_not_fit_are_refused(name, change_array, what, tmp_path):
    recorder = record(tmp_path / "recording", [make_steps(3, 4)])
    before = read_all(tmp_path / "recording")
    with pytest.raises(OryxError, match=what):
        recorder.append(2, change(name, change_array))
    assert read_all(tmp_path / "recording") == before
    recorder.append(2, make_steps(3, 9))


def test_final_observations_are_of_the_type_of_observations(tmp_path):
    steps = make_steps(3, 4)
    steps["final_observations"] = steps["final_observations"].astype(np.int32)
    with pytest.raises(OryxError, match=r"final_observations of one step must be .*int16"):
        Recorder(tmp_path / "recording").append(1, steps)


def test_other_numbers_of_environments_and_earlier_updates_are_refused(tmp_path):
    record(tmp_path / "recording", [make_steps(3, 4)], first=5)
    recorder = Recorder(tmp_path / "recording")
    with pytest.raises(OryxError, match=r"steps of 4 environments .* so far there were 3"):
        recorder.append(6, make_steps(4, 4))
    for update in (5, 4, 0):
        with pytest.raises(OryxError, match=f"update {update} cannot .* up to update 5"):
            recorder.append(update, make_steps(3, 4))
    with pytest.raises(OryxError, match="update 0 cannot"):
        Recorder(tmp_path / "other").append(0, make_steps(3, 4))


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
    """Starts a program that uses this file in a process of its own."""
    paths = [str(Path(vault.__file__).parents[2]), str(Path(__file__).parent)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", program, str(folder)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


FULL = """
import resource, signal, sys
from pathlib import Path
from test_recorder import Recorder, make_steps
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
    assert "--resume" in output
    record(tmp_path / "plain", [make_steps(5, 20), make_steps(5, 30, seed=2)])
    assert read_all(tmp_path / "full") == read_all(tmp_path / "plain")


KILLED = """
import sys
from pathlib import Path
from test_recorder import Recorder, make_long_chunk

recorder = Recorder(Path(sys.argv[1]))
print("ready", flush=True)
for update in range(1, 10_000):
    recorder.append(update, make_long_chunk(update))
"""


def make_long_chunk(update: int) -> Steps:
    return make_steps(50, 200, seed=update, ends=0.01)


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
