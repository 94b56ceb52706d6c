"""Small versions of the campaigns, all in one process; `make torture` has the long ones."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = ROOT / "src"
LEAST = {
    "kill": {"killed": 1, "ended equal": 1},
    "crashpoints": {"calls": 50, "ended equal": 12},
    "mutate": {"tried": 60, "refused": 20},
    "archives": {"tried": 15, "refused": 8},
    "disk": {"tried": 2, "refused": 1},
    "writers": {"tried": 2, "refused": 2},
}
"""What each must at least have counted, or it has tried nothing."""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Counts and failures by campaign."""
    folder = tmp_path_factory.mktemp("campaigns")
    words = [sys.executable, "-m", "tests.campaigns", "all", "--small", "--seed", "1"]
    paths = os.pathsep.join([str(SOURCES), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [*words, "--folder", str(folder), "--out", str(folder / "told.json")],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    return {each["campaign"]: each for each in json.loads((folder / "told.json").read_text())}


@pytest.mark.parametrize("name", LEAST)
def test_nothing_is_lost_and_nobody_is_let_in(told: dict[str, Any], name: str) -> None:
    found = told[name]
    assert found["failures"] == []
    few = {what: found["counts"].get(what, 0) for what in LEAST[name]}
    assert all(few[what] >= least for what, least in LEAST[name].items()), found["counts"]
