"""Files are replaced whole or not at all."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from oryx_marl import files
from oryx_marl.errors import OryxError


def test_files_are_replaced_and_no_draft_stays(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file.json"
    files.write_json(path, {"a": 1})
    files.write_json(path, {"a": [2, "ü"]}, draft_per_process=True)
    assert json.loads(path.read_text()) == {"a": [2, "ü"]}
    files.write_text(tmp_path / "new" / "text", "grün")
    assert (tmp_path / "new" / "text").read_bytes() == "grün".encode()
    files.write_arrays(tmp_path / "new" / "arrays.npz", {"x": np.arange(3)})
    with np.load(tmp_path / "new" / "arrays.npz") as found:
        np.testing.assert_array_equal(found["x"], [0, 1, 2])
    assert not list(tmp_path.rglob("*.partial"))


def test_a_failed_write_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    files.write_text(path, "before")

    def full(descriptor: int) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OryxError, match=r"cannot write .*file: No space left.*resume the run"):
        files.write_text(path, "after")
    assert path.read_text() == "before"
    assert not list(tmp_path.glob("*.partial"))


def test_what_to_do_depends_on_what_is_written(tmp_path: Path) -> None:
    (tmp_path / "a-file").touch()
    with pytest.raises(OryxError, match=r"cannot write .*; what was saved .* Somewhere else"):
        files.write_text(tmp_path / "a-file" / "x", "", advice="Somewhere else, please")


def test_each_process_has_its_own_draft(tmp_path: Path) -> None:
    """The draft of another process that writes the same file is neither taken nor removed."""
    other = tmp_path / "table.md.partial"
    other.write_text("half")
    files.write_text(tmp_path / "table.md", "whole", draft_per_process=True)
    assert (tmp_path / "table.md").read_text() == "whole"
    assert other.read_text() == "half"
