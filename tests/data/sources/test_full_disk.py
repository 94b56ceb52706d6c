"""Exports on a full disk: an error, nothing left, and the process lives."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("h5py")
pytest.importorskip("pyarrow")

EXPORT = """
import resource, sys
from pathlib import Path
from oryx_marl.data import catalog
from oryx_marl.data.sources import base
from oryx_marl.data.subsample import in_parts
from oryx_marl.errors import OryxError

folder, kind = Path(sys.argv[1]), sys.argv[2]
part = next(iter(in_parts(catalog.open("tmaze/planner-expert"), 300)))
base.write([part], folder / "whole", kind)
files = [file for file in folder.rglob("*") if file.is_file()]
size, limits = max(file.stat().st_size for file in files), resource.getrlimit(resource.RLIMIT_FSIZE)
for allowed in range(0, size, max(1, size // 24)):
    resource.setrlimit(resource.RLIMIT_FSIZE, (allowed, limits[1]))
    try:
        base.write([part], folder / "cut", kind)
    except OryxError as error:
        assert "could not be written" in str(error), error
    else:
        raise AssertionError(allowed)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [file.name for file in folder.iterdir()] == ["whole"]
base.write([part], folder / "again", kind)
print("all refused")
"""


@pytest.mark.parametrize("kind", ["minari", "table"])
def test_exports_on_a_full_disk(kind: str, tmp_path: Path) -> None:
    """HDF5 ended the process with a segmentation fault, and `.partial` stayed."""
    done = subprocess.run(
        [sys.executable, "-c", EXPORT, str(tmp_path), kind], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "all refused\n"), done.stderr
