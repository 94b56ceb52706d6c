"""The records in results/: one schema, nothing twice, and commands that still exist."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oryx_marl import registry
from oryx_marl.bench import suite as suites
from oryx_marl.bench import tuning
from oryx_marl.bench.record import read_cell
from oryx_marl.bench.runner import Bench
from oryx_marl.cli import main as cli

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
SUITES = sorted(path.name for path in (RESULTS / "bench").iterdir())


@pytest.mark.parametrize("name", SUITES)
def test_every_record_is_a_cell_of_its_suite(name: str) -> None:
    """With the settings of the suite, or with those that were tuned."""
    assert name in registry.names("bench.suites")
    folder, main = RESULTS / "bench" / name, suites.load(name)
    benches = [Bench(each, folder, Path("runs")) for each in (main, tuning.use(main, folder))]
    cells = {bench._path(*cell): (bench, cell) for bench in benches for cell in main.cells()}
    paths = list((folder / "cells").iterdir())
    assert {*paths} <= {*cells}
    for path in paths:
        bench, (variant, dataset) = cells[path]
        record = read_cell(path)
        assert (record["variant"], record["dataset"]) == (variant, dataset)
        chosen = bench.suite.variants[variant]
        assert record["algorithm"] == chosen.algorithm
        assert len(record["seeds"]) == (chosen.seeds or bench.suite.seeds)
        assert record["device"]
        assert re.match(r"[0-9a-f]{7,40}", record["commit"])
        words = ["oryx", "bench", name, "--only", variant, dataset]
        assert shlex.split(record["command"]) == words
        if chosen.steps is None:
            assert record["updates"] == bench.suite.updates
        for scores in (record["scores"], *record["acting"].values()):
            for acting in ("sampled", "greedy"):
                assert len(scores["last"][acting]["per_seed"]) == len(record["seeds"])


def test_no_record_stands_twice() -> None:
    cells = [read_cell(path) for path in RESULTS.glob("bench/*/cells/*.json")]
    results = {json.dumps({**cell, "command": "", "original_command": ""}) for cell in cells}
    assert len(results) == len(cells)


def test_merged_files_are_made_again_from_the_cells(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cells").symlink_to(RESULTS / "bench" / "connector" / "cells")
    cli.main(["bench", "connector", "--write-tables", "--out", str(tmp_path)])
    assert "con-25x25x50a/snapshots" in capsys.readouterr().out
    made = {path.name for path in tmp_path.iterdir()}
    assert made == {"cells", "table.md", "table.csv", "marl_eval.json", "figure.svg"}
    figure = (RESULTS / "bench" / "connector" / "figure.svg").read_text()
    assert (tmp_path / "figure.svg").read_text() == figure
    scores = json.loads((tmp_path / "marl_eval.json").read_text())
    assert set(scores["connector"]["con-5x5x3a/snapshots"]) == {"Oryx", "MAICQ", "I-ICQ", "BC"}


def commands(value: Any) -> Iterator[str]:
    """All commands anywhere in a record."""
    if isinstance(value, dict):
        for name, each in value.items():
            if name == "command" and each is not None:
                yield each
            else:
                yield from commands(each)
    elif isinstance(value, list):
        for each in value:
            yield from commands(each)


def test_every_command_exists() -> None:
    """Those of suites are parsed once each: all but the cell is the same."""
    found = {
        command
        for path in RESULTS.rglob("*.json")
        for command in commands(json.loads(path.read_text()))
    }
    scripts = {command.split()[1] for command in found if command.startswith("python ")}
    assert scripts
    for script in scripts:
        assert (ROOT / script).is_file(), script
    ours = sorted(command for command in found if command.startswith("oryx "))
    assert len(ours) + sum(command.startswith("python ") for command in found) == len(found)
    shapes = {re.sub(r"(?<=[ .])[\d.e-]+(?= |$)|\S+/\S+|'.*'", "?", each): each for each in ours}
    for command in shapes.values():
        parsed = cli.read(cli._rename_flags(shlex.split(command)[1:]))
        assert callable(parsed.run)


def test_scripts_and_records_of_the_documents_are_there() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    text = "\n".join(page.read_text() for page in pages)
    named = {*re.findall(r"benchmarks/\w+\.py", text), *re.findall(r"results/[\w./-]+\w", text)}
    assert len(named) >= 10
    for path in named:
        assert (ROOT / path).exists() or (ROOT / "docs" / path).exists(), path
