"""The tutorial: what is stored was executed from its source, and its claims hold when run again."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from docs_pages import DOCS, ROOT, anchors, commands, links, load_hook

from oryx_marl.cli import main as cli

HOOK = load_hook("notebooks")
UNWANTED = re.compile(r"(?<![\w.:/])/(?:[a-z][\w.-]*/)+|[A-Z]:\\|\x1b|(?i:warning:|traceback)")


def read(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def printed(notebook: dict[str, Any]) -> str:
    """All that the cells print; anything else, such as errors, has no text here."""
    outputs = [output for cell in code_cells(notebook) for output in cell["outputs"]]
    assert {(each["output_type"], each["name"]) for each in outputs} == {("stream", "stdout")}
    return "".join("".join(each["text"]) for each in outputs)


class Row(NamedTuple):
    """What the table of truth and estimates says of a policy, or of the logs."""

    points: float
    error: float
    blocked: float
    estimate: float
    low: float
    high: float


def find_row(name: str, text: str) -> Row:
    number = r"([\d.]+)"
    behind = rf" ± {number} +{number} +{number} \[{number}, {number}\]$"
    found = re.search(rf"^{name}-depot-first +{number}{behind}", text, re.MULTILINE)
    assert found is not None, text
    return Row(*map(float, found.groups()))


def check_claims(notebook: dict[str, Any]) -> None:
    """What the text says of what is printed."""
    text = printed(notebook)
    oryx, bc = find_row("oryx", text), find_row("bc", text)
    logs = re.search(r"^logs +([\d.]+) +([\d.]+)$", text, re.MULTILINE)
    assert logs is not None
    logged, blocked = map(float, logs.groups())
    assert oryx.points - oryx.error > logged + 3
    assert bc.points + bc.error < logged
    assert oryx.blocked < 0.7 * blocked < blocked < bc.blocked
    assert bc.estimate < oryx.estimate
    assert "oryx-depot-first: better than the logs" in text
    assert "bc-depot-first: better" not in text
    assert "0 errors, 0 warnings, 2 notes" in text
    assert "ONNX: the same orders in 120 of 120 minutes" in text
    assert "served: the same orders in 120 of 120 minutes" in text
    assert "stopped with exit code 0" in text


def test_stored_notebook_was_executed_from_its_source() -> None:
    stored = read(HOOK.NOTEBOOK)
    made = HOOK.to_notebook(HOOK.split(HOOK.SOURCE.read_text()))
    for cell, source in zip(stored["cells"], made["cells"], strict=True):
        assert {**cell, "outputs": [], "execution_count": None} == {
            **source,
            "outputs": [],
            "execution_count": None,
        }, "run `make notebook`"
    counts = [cell["execution_count"] for cell in code_cells(stored)]
    assert counts == list(range(1, len(counts) + 1))
    assert stored["metadata"] == made["metadata"]
    check_claims(stored)
    oryx, bc = find_row("oryx", printed(stored)), find_row("bc", printed(stored))
    assert oryx.low < oryx.points < oryx.estimate < oryx.high
    assert bc.points + bc.error < bc.low


def test_stored_notebook_names_no_machine_and_is_small() -> None:
    assert UNWANTED.search("saved in /home/somebody/runs") is not None
    assert UNWANTED.search(printed(read(HOOK.NOTEBOOK))) is None
    assert HOOK.NOTEBOOK.stat().st_size < 40_000


def test_cells_are_split_by_kind() -> None:
    source = "# %% [markdown]\n# # Title\n#\n# Text.\n\n# %%\nx = 1  # %% no mark\n\n\n# %%\nx\n"
    cells = HOOK.split(source)
    assert [cell.kind for cell in cells] == ["markdown", "code", "code"]
    assert [cell.text for cell in cells] == ["# Title\n\nText.", "x = 1  # %% no mark", "x"]


def test_page_has_text_code_and_outputs() -> None:
    page = HOOK.render()
    assert page.startswith("# From your own logs")
    assert page.count("```python\n") == len(code_cells(read(HOOK.NOTEBOOK)))
    assert "```text\nONNX" not in page
    assert "\nONNX: the same orders in 120 of 120 minutes\n```\n" in page


def test_links_and_commands_of_the_page_are_right() -> None:
    page = HOOK.render()
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (DOCS / "tutorials" / path).resolve()
        assert target.is_file(), link
        assert not anchor or anchor in anchors(target.relative_to(ROOT).as_posix()), link
    shown = commands(page)
    assert shown
    for command in shown:
        assert callable(cli.read(command.split()).run)


def test_links_to_the_notebook_lead_to_its_page() -> None:
    class Page:
        class file:  # noqa: N801
            src_uri = "index.md"

    seen = "[a](tutorials/own-logs.ipynb) [b](own-logs.ipynb#1-a-log) [c](https://x.org/n.ipynb)"
    led = "[a](tutorials/own-logs.md) [b](own-logs.md#1-a-log) [c](https://x.org/n.ipynb)"
    assert HOOK.on_page_markdown(seen, Page, None, None) == led
    Page.file.src_uri = HOOK.PAGE
    assert HOOK.on_page_markdown(seen, Page, None, None) == seen


@pytest.mark.slow
def test_notebook_runs_from_start_to_end(tmp_path: Path) -> None:
    pytest.importorskip("nbclient", reason="the extra `dev` is not installed")
    pytest.importorskip("ipykernel", reason="the extra `dev` is not installed")
    command = [sys.executable, str(DOCS / "hooks" / "notebooks.py"), str(tmp_path / "again.ipynb")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["again.ipynb"]
    again = read(tmp_path / "again.ipynb")
    assert len(code_cells(again)) == len(code_cells(read(HOOK.NOTEBOOK)))
    check_claims(again)
    assert UNWANTED.search(printed(again)) is None
