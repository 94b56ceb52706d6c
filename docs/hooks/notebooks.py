"""The tutorial: a Python file in cells (`# %%`), executed into a notebook, and its page.

`make notebook` executes it. As a hook of MkDocs this file makes a page of what was executed, and
leads links to the notebook there.
"""

import json
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "docs" / "tutorials" / "own-logs.py"
NOTEBOOK = SOURCE.with_suffix(".ipynb")
PAGE = "tutorials/own-logs.md"
LINK = re.compile(r"(\]\([^)#:\s]+)\.ipynb(?=[)#])")
MARK = re.compile(r"^# %%( \[markdown\])?\n", re.MULTILINE)


class Cell(NamedTuple):
    """Text, or code."""

    kind: str
    text: str


def split(source: str) -> list[Cell]:
    """The cells of a Python file: comments below `# %% [markdown]`, code below `# %%`."""
    _, *parts = MARK.split(source)
    cells = []
    for mark, text in zip(parts[::2], parts[1::2], strict=True):
        if mark:
            lines = [line.removeprefix("#").removeprefix(" ") for line in text.strip().split("\n")]
            cells.append(Cell("markdown", "\n".join(lines)))
        else:
            cells.append(Cell("code", text.strip()))
    return cells


def to_notebook(cells: list[Cell]) -> dict[str, Any]:
    """A notebook that was not executed, in Jupyter's format 4.5."""
    made = []
    for number, cell in enumerate(cells):
        lines = cell.text.splitlines(keepends=True)
        about: dict[str, Any] = {"cell_type": cell.kind, "id": f"cell-{number}", "metadata": {}}
        if cell.kind == "code":
            about |= {"execution_count": None, "outputs": []}
        made.append({**about, "source": lines})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"cells": made, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def execute(notebook: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The notebook with what its cells print, run in a kernel that writes below `folder` only."""
    import nbformat
    from nbclient import NotebookClient

    paths = [str(ROOT / "src"), str(ROOT / "runtime" / "src"), os.environ.get("PYTHONPATH", "")]
    environment = {
        **{name: value for name, value in os.environ.items() if name != "ORYX_DATA"},
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "TMPDIR": str(folder),
        "IPYTHONDIR": str(folder / "ipython"),
        "ORYX_CLONES": str(folder / "clones"),
    }
    client = NotebookClient(
        nbformat.reads(json.dumps(notebook), as_version=4),
        timeout=500,
        extra_arguments=["--IPKernelApp.log_level=ERROR"],  # its sockets are on this machine alone
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": str(folder)}},
    )
    found: dict[str, Any] = json.loads(nbformat.writes(client.execute(env=environment)))
    return {**found, "metadata": notebook["metadata"]}


def render() -> str:
    """The page: text, code, and below it what it printed."""
    parts = []
    for cell in json.loads(NOTEBOOK.read_text())["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(text)
            continue
        parts.append(f"```python\n{text}\n```")
        printed = "".join("".join(output["text"]) for output in cell["outputs"])
        if printed:
            parts.append(f"```text\n{printed.rstrip()}\n```")
    last = f"This page is an executed notebook: [{NOTEBOOK.name}]({NOTEBOOK.name})."
    return "\n\n".join([*parts, last, ""])


def on_files(files: Any, config: Any) -> Any:
    """Adds the page."""
    from mkdocs.structure.files import File

    files.append(File.generated(config, PAGE, content=render()))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Links to the notebook lead to its page, but for the page's own, which is for download."""
    return markdown if page.file.src_uri == PAGE else LINK.sub(r"\1.md", markdown)


def main(out: Path) -> None:
    """Executes the source and writes the notebook."""
    with tempfile.TemporaryDirectory() as folder:
        done = execute(to_notebook(split(SOURCE.read_text())), Path(folder))
    out.write_text(json.dumps(done, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else NOTEBOOK)
