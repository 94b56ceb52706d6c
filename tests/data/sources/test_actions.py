"""Bounds and kinds of imported actions, and actions that cannot be."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oryx_marl.data.dataset import Dataset
from oryx_marl.data.sources import base
from oryx_marl.errors import OryxError

FLAT = {
    "observations": np.arange(24, dtype=np.float32).reshape(6, 2, 2),
    "rewards": np.ones((6, 2), np.float32),
    "episode_starts": np.array([0, 3]),
}


def write_table(folder: Path, actions: list[Any]) -> Path:
    """Two episodes of two agents; one action for each row, or several columns."""
    path = folder / "log.csv"
    first = actions[0]
    names = [f"action_{place}" for place in range(len(first))] if isinstance(first, tuple) else []
    lines = [",".join(["episode,step,agent,obs_0,reward", *(names or ["action"])])]
    for number, action in enumerate(actions):
        episode, step, agent = number // 4, number % 4 // 2, "ab"[number % 2]
        told = ",".join(map(str, action if isinstance(action, tuple) else (action,)))
        lines.append(f"e{episode},{step},{agent},0.5,1,{told}")
    path.write_text("\n".join(lines))
    return path


def write_arrays(folder: Path, actions: np.ndarray, **more: np.ndarray) -> Path:
    path = folder / "log.npz"
    np.savez(path, actions=actions, **FLAT, **more)
    return path


def read(path: Path, **told: Any) -> Dataset:
    """The first part, after all were read."""
    first, *_ = base.read(path, "a/b", base.make_options(base.find(path), told))
    return first


def test_bounds_that_are_told_are_those_of_the_spec(tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).uniform(0, 1, (6, 2, 3)).astype(np.float32)
    path = write_arrays(tmp_path, vectors)
    assert read(path).spec.action.low == (-1, -1, -1)
    found = read(path, action_low=0, action_high=[1, 2, 100.5]).spec.action
    assert (found.low, found.high) == ((0, 0, 0), (1, 2, 100.5))
    assert read(path, action_low=-5).spec.action.high == (1, 1, 1), "the other side is inferred"
    table = write_table(tmp_path, [(0.5, 3.0), (0.25, 4.0)] * 4)
    found = read(table, action_low=(0.0, 2), action_high=(1, 10.0)).spec.action
    assert (found.low, found.high) == ((0, 2), (1, 10))


def test_whole_numbers_are_of_a_box_if_told(tmp_path: Path) -> None:
    ids = np.arange(12, dtype=np.int64).reshape(6, 2)
    table = write_table(tmp_path, [3, 5, 4, 7, 3, 5, 4, 7])
    for path, told in (
        (write_arrays(tmp_path, ids), {"action_kind": "box"}),
        (write_arrays(tmp_path, ids), {"action_low": 0, "action_high": 20}),
        (table, {"action_kind": "box"}),
        (table, {"action_low": 0, "action_high": 20}),
    ):
        found = read(path, **told)
        assert found.spec.action.kind == "box", told
        assert found.actions.dtype == np.float32
        assert found.actions.shape[1:] == (2, 1)
    vectors = write_arrays(tmp_path, np.stack([ids, ids], axis=-1))
    assert read(vectors, action_kind="box").spec.action.high == (11, 11)
    with pytest.raises(OryxError, match=r"several discrete actions.*--action-kind box"):
        read(vectors)
    assert read(table).spec.action.kind == "discrete"


@pytest.mark.parametrize("kind", ["arrays", "table"])
def test_actions_outside_of_told_bounds_are_located(kind: str, tmp_path: Path) -> None:
    """Up to 0.1% of the width is rounding, and learned as at the bound."""
    actions = np.zeros((4, 2), np.float32)
    for far, is_refused in ((1.0019, False), (1.0021, True)):
        actions[3, 1] = far
        if kind == "table":
            path = write_table(tmp_path, actions.reshape(-1).tolist())
        else:
            path = write_arrays(tmp_path, np.concatenate([actions, actions[:2]])[..., None])
        if not is_refused:
            assert read(path, action_low=-1, action_high=1).spec.action.high == (1,)
            continue
        name, step = ("b", 1) if kind == "table" else ("agent_1", 0)
        place = rf"episode 1, step {step}, agent {name}: the action \[1\.002\d*\] is outside of the"
        with pytest.raises(OryxError, match=rf"{place} bounds -1 to 1.*Give wider ones"):
            read(path, action_low=-1, action_high=1)


@pytest.mark.parametrize("kind", ["arrays", "table"])
def test_ids_below_zero_are_located(kind: str, tmp_path: Path) -> None:
    ids = np.zeros((6, 2), np.int32)
    ids[3, 1] = -2
    if kind == "table":
        path, place = write_table(tmp_path, ids[:4].reshape(-1).tolist()), "step 1, agent b"
    else:
        path, place = write_arrays(tmp_path, ids), "step 0, agent agent_1"
    with pytest.raises(OryxError, match=rf"episode 1, {place}: the action -2 is below 0: ids"):
        read(path)
    assert read(path, action_kind="box").spec.action.low == (-2,)


def test_absent_agents_may_have_any_id(tmp_path: Path) -> None:
    ids, mask = np.zeros((6, 2), np.int32), np.ones((6, 2), bool)
    ids[3, 1], mask[3, 1] = -1, False
    assert read(write_arrays(tmp_path, ids, agent_mask=mask)).spec.action.size == 1


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"action_low": (0, 0)}, r"action_low has 2 numbers, but actions have 1 dimensions"),
        ({"action_low": 3, "action_high": 2}, r"dimension 0 the lower bound 3 is not below"),
        ({"action_low": float("nan")}, r"action_low must be finite"),
        ({"action_low": 0, "action_kind": "discrete"}, r"are of continuous actions"),
        ({"action_low": "0"}, r"action_low = '0' is not understood"),
        ({"action_high": True}, r"action_high = True is not understood"),
    ],
)
def test_bounds_that_cannot_be(told: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = write_arrays(tmp_path, np.full((6, 2, 1), 0.5, np.float32))
    with pytest.raises(OryxError, match=message):
        read(path, **told)


def test_words_have_no_bounds(tmp_path: Path) -> None:
    path = write_table(tmp_path, ["go", "stay"] * 4)
    with pytest.raises(OryxError, match=r"the actions are words \(go, stay\)"):
        read(path, action_low=0)
