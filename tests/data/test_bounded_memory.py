"""Logs that are larger than the memory that they are worked on with."""

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HELPER = ROOT / "tests" / "helpers" / "bounded.py"
BENCHMARK = ROOT / "benchmarks" / "bounded_memory.py"
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")


def anonymous_bytes(process: int) -> int:
    """Anonymous resident memory of a process; 0 once it has ended."""
    found = re.findall(r"RssAnon:\s+(\d+)", Path(f"/proc/{process}/status").read_text())
    return 1024 * int(found[0]) if found else 0


@on_linux
@pytest.mark.slow
def test_everything_is_done_with_a_fraction_of_a_log_in_memory(tmp_path: Path) -> None:
    """205 MB are checked, described, split, exported and subsampled, as 26 MB were before."""
    folder = tmp_path / "large"
    subprocess.run([sys.executable, HELPER, "write", folder], check=True, timeout=300)
    command = [sys.executable, HELPER, "all", folder]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        before, peak = 1024 * int(process.stdout.readline()), 0
        while process.poll() is None:
            peak = max(peak, anonymous_bytes(process.pid))
            time.sleep(0.01)
    assert process.returncode == 0
    assert before < peak < before + 100e6
    made = sorted(path.name for path in (tmp_path / "made of large").iterdir())
    assert made == ["best", "half", "log.parquet", "vault"]


@on_linux
@pytest.mark.slow
@pytest.mark.parametrize("shape", [("4", "100"), ("50", "100"), ("1", "4")])
def test_two_gigabytes_take_less_than_one(shape: tuple[str, str], tmp_path: Path) -> None:
    """As the commands do it, with the usual sizes of chunks, blocks and caches."""
    agents, features = shape
    size = "0.2" if features == "4" else "2"  # many small rows take longer
    options = ["--gigabytes", size, "--agents", agents, "--features", features, "--json"]
    done = subprocess.run(
        [sys.executable, BENCHMARK, tmp_path, *options],
        capture_output=True,
        text=True,
        timeout=3_000,
        check=True,
    )
    peaks = {each["operation"]: each["peak"] for each in json.loads(done.stdout)}
    assert len(peaks) == 8
    assert max(peaks.values()) < 1e9, peaks
