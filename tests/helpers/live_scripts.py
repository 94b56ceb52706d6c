"""Runs the scripts of the live page in Node, which has no document."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from oryx_marl.report import document

NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="there is no node here to run JavaScript")
MAIN = """
const given = JSON.parse(require("fs").readFileSync(0, "utf8"));
process.stdout.write(JSON.stringify((%s)(given)));
"""


def script(name: str) -> str:
    """A script of the report, such as graph.js."""
    return document.package_file(f"live/{name}")


def run_node(folder: Path, scripts: list[str], function: str, given: Any) -> Any:
    """What a JavaScript function returns for a JSON value, after the scripts have run."""
    assert NODE is not None
    path = folder / "tried.js"
    path.write_text("\n".join([*scripts, MAIN % function]), encoding="utf-8")
    done = subprocess.run(
        [NODE, str(path)], input=json.dumps(given), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)
