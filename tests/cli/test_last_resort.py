"""What nobody foresaw ends in a sentence, and names out of files do nothing to a terminal."""

import io
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from oryx_marl import limits
from oryx_marl.cli import console, main
from oryx_marl.data import catalog, vault

ODD = "[/b][red]\x1b[31m\x07\u202e:smile:"
SHOWN = r"[/b][red]\x1b[31m\x07\u202e:smile:"


@pytest.fixture(autouse=True)
def plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv(limits.VARIABLE, raising=False)


@pytest.fixture(scope="module")
def odd_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of datasets with one whose names are odd everywhere."""
    root = tmp_path_factory.mktemp("root")
    dataset = catalog.open("tmaze/planner-expert")
    spec = replace(dataset.spec, agents=(ODD, "b"), environment="")
    origin = {"description": ODD, "action_names": [f"{ODD}{index}" for index in range(7)]}
    odd = replace(dataset, name=ODD, spec=spec, origin=origin)
    vault.write(odd, root / "a.vlt" / "b")
    shutil.copytree(root / "a.vlt" / "b", root / "a.vlt" / "[b]\x1b")
    return root


def test_odd_names_in_lists_and_tables(
    odd_root: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORYX_DATA", str(odd_root))
    main.main(["data", "list"])
    main.main(["data", "info", "a/b"])
    shown = capsys.readouterr().out
    assert SHOWN in shown
    assert r"a/[b]\x1b" in shown
    assert not {"\x1b", "\x07", "\u202e"} & set(shown)


def test_every_stream_can_be_written_to(odd_root: Path) -> None:
    for encoding in ("ascii", "ascii:strict", "latin-1"):
        done = subprocess.run(
            [sys.executable, "-m", "oryx_marl", "data", "list"],
            env={
                "PYTHONIOENCODING": encoding,
                "PYTHONPATH": ":".join(sys.path),
                "COLUMNS": "200",
                "ORYX_DATA": str(odd_root),
            },
            capture_output=True,
        )
        assert done.returncode == 0, done.stderr
        assert b"planner-expert" in done.stdout


def test_unexpected_errors_are_a_sentence_and_a_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, tmp_path: Path
) -> None:
    def fail(words: list[str]) -> None:
        raise RecursionError(f"deep {ODD}")

    monkeypatch.setattr(main, "read", fail)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(SystemExit) as left:
        main.main(["data", "list"])
    assert left.value.code == main.UNEXPECTED == 70
    told = capsys.readouterr().err
    (file,) = tmp_path.iterdir()
    assert told.startswith("error: something unexpected happened (RecursionError: deep [/b]")
    assert str(file) in told
    assert "Traceback" not in told
    assert "in fail" in file.read_text()
    with pytest.raises(RecursionError):
        main.main(["data", "list", "--debug"])


def test_no_memory_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    def fail(words: list[str]) -> None:
        raise MemoryError

    monkeypatch.setattr(main, "read", fail)
    with pytest.raises(SystemExit) as left:
        main.main([])
    assert left.value.code == 1
    assert "error: there is not enough memory. Give smaller settings" in capsys.readouterr().err


def test_limits_are_lifted_by_a_flag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(limits, "LINE_BYTES", 10)
    monkeypatch.setenv(limits.VARIABLE, "")  # put back after the test
    row = {"episode": 0, "step": 0, "obs": 0.5, "action": 0, "reward": 0, "terminal": True}
    (tmp_path / "a.jsonl").write_text(json.dumps(row))
    words = ["data", "import", str(tmp_path / "a.jsonl"), "a/b", "--root", str(tmp_path)]
    with pytest.raises(SystemExit):
        main.main([*words, "--kind", "jsonl"])
    assert "--allow-large" in capsys.readouterr().err
    main.main([*words, "--kind", "jsonl", "--allow-large"])
    assert catalog.open("a/b", tmp_path).num_rows == 1


def test_a_console_shows_texts_as_they_are() -> None:
    shown = console.PlainConsole()
    shown.file = io.StringIO()
    shown.width = 100
    shown.print(ODD)
    assert shown.file.getvalue() == f"{SHOWN}\n"
