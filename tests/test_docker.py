"""What the Dockerfiles name is there; that their steps work is tried by hand (CONTRIBUTING.md)."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from dockerfiles import ROOT, command, copy, is_ignored, parse, sources

FILES = ["Dockerfile", "Dockerfile.gpu"]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def all_files() -> list[str]:
    """What would be sent to Docker, without asking git, which may not be there."""
    apart = {".git", ".venv", "node_modules", "__pycache__"}
    found = (path for path in ROOT.rglob("*") if path.is_file() and not {*path.parts} & apart)
    return [path.relative_to(ROOT).as_posix() for path in found]


@pytest.mark.parametrize("name", FILES)
def test_what_is_named_is_there(name: str) -> None:
    steps = parse((ROOT / name).read_text())
    for step in steps:
        if step.name == "COPY":
            for source in sources(step)[0]:
                assert (ROOT / source).exists(), source
                assert not is_ignored(source), source
    targets = set(re.findall(r"^(?:\$\(VENV\)|([a-z-]+))(/\.ready)?:", makefile(), re.MULTILINE))
    assert ("demo", "") in targets
    run = " ".join(step.rest for step in steps if step.name == "RUN")
    for target in re.findall(r"\bmake (\S+)", run):
        assert target == ".venv/.ready"
        assert "$(VENV)/.ready:" in makefile()
    head = "\n".join(line for line in (ROOT / name).read_text().splitlines() if line[:1] == "#")
    assert {*re.findall(r"\bmake ([a-z-]+)", head)} == {"demo", "test"}
    assert command(steps[-1]) == "make demo"
    extras = re.findall(r"'\.\[(\w+)\]'", run)
    assert extras == (["cuda"] if name.endswith("gpu") else [])
    assert {*extras} <= {*PROJECT["optional-dependencies"]}


def makefile() -> str:
    return (ROOT / "Makefile").read_text()


@pytest.mark.parametrize("name", FILES)
def test_the_image_fits(name: str) -> None:
    """Its Python is new enough, and nobody works as root."""
    steps = parse((ROOT / name).read_text())
    image = re.fullmatch(r"python:(\d+)\.(\d+)-slim", steps[0].rest)
    assert steps[0].name == "FROM"
    assert image is not None
    wanted = re.fullmatch(r">=(\d+)\.(\d+)", PROJECT["requires-python"])
    assert wanted is not None
    assert [int(part) for part in image.groups()] >= [int(part) for part in wanted.groups()]
    users = [step.rest for step in steps if step.name == "USER"]
    assert users == ["oryx"]
    names = [step.name for step in steps]
    assert names.index("USER") < names.index("COPY")


@pytest.mark.skipif(not shutil.which("make"), reason="make is not installed")
def test_the_copied_files_are_enough(tmp_path: Path) -> None:
    """Those before the installation for the package's metadata, and all for the two commands."""
    steps = [step for step in parse((ROOT / "Dockerfile").read_text()) if step.name == "COPY"]
    files = all_files()
    for step in steps[:-1]:
        assert copy(step, tmp_path, files)
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / ".ready").touch()
    for path in ("pyproject.toml", "README.md", "hatch_build.py", "src/oryx_marl/__init__.py"):
        assert (tmp_path / path).is_file()
    copied = {path.relative_to(tmp_path).as_posix() for path in copy(steps[-1], tmp_path, files)}
    assert {"src/oryx_marl/cli/main.py", "tests/conftest.py", "docs/index.md"} <= copied
    assert not [path for path in copied if path.startswith((".git/", "runs/")) or ".pyc" in path]
    for target in ("demo", "test"):
        done = subprocess.run(
            ["make", "--dry-run", target], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert "pip install" not in done.stdout  # the installation counts as done
