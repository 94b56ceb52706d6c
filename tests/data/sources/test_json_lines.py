"""JSON Lines: the objects of a log as the rows of a table."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from oryx_marl.data import vault
from oryx_marl.data.dataset import Dataset
from oryx_marl.data.sources import base
from oryx_marl.data.sources.jsonl import Options
from oryx_marl.errors import OryxError

ROW = {"episode": 0, "step": 0, "agent": "a", "obs": [0.5, 1], "action": 1, "reward": 2}


def write(folder: Path, *rows: Any, name: str = "log.jsonl") -> Path:
    """A file with these objects, or texts, one per line."""
    lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
    text = "\n".join(lines) + "\n"
    if name.endswith(".gz"):
        with gzip.open(folder / name, "wt") as file:
            file.write(text)
    else:
        (folder / name).write_text(text)
    return folder / name


def read(path: Path, options: Options | None = None) -> Dataset:
    count = len(list(path.parent.iterdir()))
    return vault.read(vault.write_parts(base.read(path, "a/b", options), path.parent / f"v{count}"))


@pytest.mark.parametrize("name", ["log.jsonl", "log.ndjson", "log.jsonl.gz"])
def test_objects_are_rows(name: str, tmp_path: Path) -> None:
    """Lists, masks and flags as JSON has them; the last object tells what was seen at the end."""
    path = write(
        tmp_path,
        {**ROW, "action_mask": [True, True, False], "terminal": False},
        "",
        {**ROW, "step": 1, "obs": [1, 0], "action": 0, "action_mask": [1, 1, 0], "terminal": True},
        {"episode": 0, "step": 2, "agent": "a", "obs": [9, 9]},
        name=name,
    )
    assert base.find(path) == "jsonl"
    dataset = read(path)
    assert dataset.observations.dtype == np.float32
    assert dataset.observations.tolist() == [[[0.5, 1]], [[1, 0]]]
    assert dataset.actions.tolist() == [[1], [0]]
    assert dataset.actions.dtype == np.int32
    assert dataset.spec.action.size == 3
    assert dataset.action_mask is not None
    assert dataset.action_mask.tolist() == [[[True, True, False]]] * 2
    assert dataset.terminals.tolist() == [[False], [True]]
    assert dataset.final_observations is not None
    assert dataset.final_observations.tolist() == [[[9, 9]]]
    assert dataset.origin["kind"] == "jsonl"


def test_objects_within_objects_words_and_times(tmp_path: Path) -> None:
    rows = [
        {
            "shift": shift,
            "when": f"2024-05-01T08:0{minute}:00Z",
            "truck": truck,
            "seen": {"far": minute, "load": truck / 2},
            "order": "wait" if minute else "drive",
            "pay": minute,
        }
        for shift in ("x", 7)
        for minute in (1, 0)
        for truck in (0, 1)
    ]
    told = Options(
        episode="shift",
        step="when",
        agent="truck",
        observation=("seen",),
        action=("order",),
        reward="pay",
    )
    dataset = read(write(tmp_path, *rows), told)
    assert dataset.origin["columns"]["observation"] == ["seen.far", "seen.load"]
    assert dataset.observations[:2].tolist() == [[[0, 0], [0, 0.5]], [[1, 0], [1, 0.5]]]
    assert dataset.origin["action_names"] == ["drive", "wait"]
    assert dataset.num_episodes == 2


def test_a_column_has_one_type_from_start_to_end(tmp_path: Path, monkeypatch) -> None:
    """Whole numbers in the first blocks and others in the last, numbers and words as names."""
    monkeypatch.setattr("oryx_marl.data.sources._json_lines.BLOCK_BYTES", 200)
    rows = [{**ROW, "episode": i, "reward": i, "obs": [i]} for i in range(30)]
    rows.append({**ROW, "episode": "last", "reward": 0.5, "obs": [0.25]})
    parts = list(base.read(write(tmp_path, *rows), "a/b"))
    assert len(parts) > 5
    rewards = np.concatenate([part.rewards[:, 0] for part in parts])
    assert rewards.tolist() == [*range(30), 0.5]


def test_memory_does_not_grow_with_the_file(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("oryx_marl.data.sources._json_lines.BLOCK_BYTES", 2_000)

    def most_held(episodes: int) -> int:
        rows = ({**ROW, "episode": i // 20, "step": i % 20} for i in range(20 * episodes))
        path, before = write(tmp_path, *rows), pa.total_allocated_bytes()
        return max(pa.total_allocated_bytes() - before for _ in base.read(path, "a/b"))

    assert most_held(400) < 1.5 * most_held(50)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2 is no JSON"),
        ("[1, 2]", r'line 2 is no object.*"episode": 0'),
        ("[" * 100_000, "line 2 is no JSON"),
        ('{"episode": 0, "step": "soon"}', "step has a value that is not understood"),
        ('{"episode": 0, "step": 1, "agent": "a", "reward": 1, "action": 0}', r"has 0 features"),
        ('{"episode": 0, "step": 1, "agent": "a", "obs": [1, null], "action": 0}', "empty entry"),
        ('{"episode": 0, "step": 1, "agent": "a", "obs": "far", "action": 0}', "no list of num"),
    ],
)
def test_what_is_wrong_is_said(line: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(OryxError, match=message) as caught:
        read(write(tmp_path, ROW, line))
    assert "log.jsonl" in str(caught.value)


def test_a_document_is_not_read_into_memory(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("oryx_marl.limits.LINE_BYTES", 1_000)
    with pytest.raises(OryxError, match=r"line 1 has .* more than the 1,000"):
        read(write(tmp_path, json.dumps([ROW] * 100_000)))
    monkeypatch.setattr("oryx_marl.data.sources._json_lines.MOST_COLUMNS", 50)
    with pytest.raises(OryxError, match="more than 50 different names"):
        read(write(tmp_path, *({f"name {number}": 1} for number in range(60))))
