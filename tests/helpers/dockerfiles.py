"""Dockerfiles in steps, and their steps done in a folder, where no Docker is.

    python tests/helpers/dockerfiles.py Dockerfile FOLDER

copies and runs what the file says, as the user who asks and in that folder. What changes the system
(apt-get, useradd) is told and left out.
"""

import fnmatch
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
SYSTEM = ("apt-get", "useradd")


class Step(NamedTuple):
    """An instruction and the words after it."""

    name: str
    rest: str


def parse(text: str) -> list[Step]:
    """The instructions of a Dockerfile."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [Step(*line.split(maxsplit=1)) for line in joined.splitlines()]


def sources(step: Step) -> tuple[list[str], str]:
    """What a COPY copies, and where to."""
    *found, target = [word for word in shlex.split(step.rest) if not word.startswith("--")]
    return found, target


def ignored() -> list[str]:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def is_ignored(path: str) -> bool:
    """Whether a file of the repository is not sent to Docker."""
    parts = Path(path).parts
    starts = ["/".join(parts[: count + 1]) for count in range(len(parts))]
    for pattern in ignored():
        own = pattern.removeprefix("/")
        if own.startswith("**/"):
            if any(fnmatch.fnmatchcase(part, own[3:]) for part in parts):
                return True
        elif any(fnmatch.fnmatchcase(start, own) for start in starts):
            return True
    return False


def copy(step: Step, folder: Path, files: list[str]) -> list[Path]:
    """Does a COPY, of these files of the repository; those that were copied."""
    named, target = sources(step)
    found = []
    for source in named:
        chosen = [
            path
            for path in files
            if source == "." or path == source or path.startswith(f"{source}/")
        ]
        for path in chosen:
            if is_ignored(path):
                continue
            is_folder = target.endswith("/") or target == "."
            place = folder / target / path if source == "." or is_folder else folder / target
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / path, place)
            found.append(place)
    return found


def list_files() -> list[str]:
    """The files of the repository that git knows."""
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def command(step: Step) -> str:
    """What a CMD runs."""
    return shlex.join(json.loads(step.rest))


def play(file: Path, folder: Path) -> None:
    """Does what a Dockerfile says in a folder, and runs its command."""
    for step in parse(file.read_text()):
        if step.name == "COPY":
            copied = copy(step, folder, list_files())
            _tell(f"COPY {step.rest}: {len(copied)} files")
        elif step.name == "RUN" and not any(
            re.search(rf"\b{each}\b", step.rest) for each in SYSTEM
        ):
            _tell(f"RUN {step.rest}")
            subprocess.run(step.rest, shell=True, cwd=folder, check=True)
        elif step.name == "CMD":
            _tell(f"CMD {command(step)}")
            subprocess.run(command(step), shell=True, cwd=folder, check=True)
        else:
            _tell(f"left out: {step.name} {step.rest}")


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    play(Path(sys.argv[1]), Path(sys.argv[2]))
