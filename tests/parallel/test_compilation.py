"""The compilation cache: in its folder, bounded, and never in the way."""

import os
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from oryx_marl.errors import OryxWarning
from oryx_marl.parallel import compilation

PROGRAM = """
import jax, jax.numpy as jnp, time, sys
from oryx_marl.parallel import compilation
compilation.MIN_COMPILE_SECONDS = 0.0
print(compilation.use_cache())
print(float(jax.jit(lambda x: jnp.linalg.cholesky(x @ x.T + 4 * jnp.eye(3)).sum())(jnp.eye(3))))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of the cache, which is switched off again after the test."""
    monkeypatch.setenv(compilation.VARIABLE, str(tmp_path / "compiled"))
    monkeypatch.setattr(compilation.jax.config, "update", lambda *_: None)
    return tmp_path / "compiled"


def run(folder: Path) -> tuple[str, str]:
    """What a new process prints that compiles something."""
    environ = {**os.environ, compilation.VARIABLE: str(folder), "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    return done.stdout, done.stderr


def test_what_is_compiled_is_kept_and_damage_is_removed(tmp_path: Path) -> None:
    folder = tmp_path / "compiled"
    first, _ = run(folder)
    (entries,) = [path for path in folder.iterdir() if path.is_dir()]
    found = {path: path.read_bytes() for path in entries.glob("*-cache")}
    assert found
    largest = max(found, key=lambda path: len(found[path]))
    largest.write_bytes(found[largest][:-20])  # as a killed process leaves it
    again, told = run(folder)
    assert again == first
    assert "Error" not in told
    assert largest.read_bytes()[:2] == found[largest][:2]
    assert compilation._is_whole(largest.read_bytes())


def test_it_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(compilation.VARIABLE, "0")
    assert compilation.use_cache() is None


def test_folders_of_others_are_not_trusted(folder: Path) -> None:
    found = compilation.use_cache()
    assert found is not None
    assert found.parent == folder
    assert found.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o777)
    with pytest.warns(OryxWarning, match="can be written by other users"):
        assert compilation.use_cache() is None


def test_a_place_that_cannot_be_written_is_not_used(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.write_text("a file, where a folder should be")
    assert compilation.use_cache() is None
    monkeypatch.setenv(compilation.VARIABLE, "/proc/nowhere")
    assert compilation.use_cache() is None


def test_it_is_bounded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = compilation.use_cache()
    assert found is not None
    for age, name in enumerate(["new", "middle", "old"]):
        path = found / f"{name}-cache"
        path.write_bytes(zlib.compress(os.urandom(1000)))
        os.utime(path, (2_000_000_000 - age,) * 2)
    monkeypatch.setattr(compilation, "MAX_BYTES", 2_100)
    compilation.use_cache()
    assert sorted(path.name for path in found.glob("*-cache")) == ["middle-cache", "new-cache"]
