"""What is recorded step by step is what a plain loop over environments finds."""

from pathlib import Path
from tempfile import TemporaryDirectory

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recording import (
    BORDERS,
    OPTIONAL,
    SPEC,
    Steps,
    assert_holds,
    cut,
    join,
    make_steps,
    read_all,
    record,
)

from oryx_marl.data.record.segments import Recorder
from oryx_marl.errors import OryxError
from oryx_marl.types import ActionSpace, Spec


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
        parts = recorder.parts(SPEC, "made", {})
        for lengths, part in zip(recorder.lengths(), parts, strict=True):
            np.testing.assert_array_equal(lengths, part.episode_lengths)


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
    assert [each.tolist() for each in recorder.lengths()] == [[1], [3, 1]]


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
        ("action_mask", None, "action_mask of one step must be"),
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
