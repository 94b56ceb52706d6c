"""The folder of one run: settings, logs and checkpoints, written so that a kill loses nothing."""

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oryx_marl.errors import OryxError

_MUST_MATCH = (
    "algorithm",
    "dataset",
    "fingerprint",
    "spec_sha256",
    "seeds",
    "log_every",
    "config",
    "leave_out_bad_rows",
)
"""Settings that a resumed run may not change; the number of updates may grow."""


@dataclass(frozen=True)
class Run:
    """`runs/<name>/`: config.json, spec.json, metrics.jsonl, evaluations.jsonl, checkpoints/."""

    folder: Path

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    def begin(self, config: dict[str, Any], resume: bool) -> None:
        """Makes the folder and writes `config`, or with `resume` checks that it is the same."""
        if (self.folder / "config.json").exists():
            if not resume:
                raise OryxError(
                    f"{self.folder} holds a run already; continue it with --resume, or name "
                    "another folder with --out"
                )
            before, now = self.read("config.json"), json.loads(json.dumps(config))
            if differing := _differences(before, now, _MUST_MATCH):
                raise OryxError(
                    f"{self.folder} was begun with another {', another '.join(differing)}; "
                    "resume with the same settings or use another --out"
                )
        with _explain(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        self.write("config.json", config)

    def write(self, name: str, value: Any) -> None:
        """Replaces a JSON file in one go."""
        self._replace(name, json.dumps(value, indent=1))

    def read(self, name: str) -> Any:
        """A JSON file of the run."""
        path = self.folder / name
        try:
            return json.loads(path.read_text())
        except FileNotFoundError as error:
            raise OryxError(f"{self.folder} is not a run: it has no {name}") from error
        except (OSError, ValueError) as error:
            raise OryxError(f"{path} cannot be read: {error}") from error

    def append(self, name: str, row: dict[str, Any]) -> None:
        """Adds a line to a JSONL file."""
        path = self.folder / name
        with _explain(path), path.open("a") as file:
            file.write(json.dumps(row) + "\n")

    def rows(self, name: str) -> Iterator[dict[str, Any]]:
        """Complete lines of a JSONL file; a line cut off by a kill ends it."""
        path = self.folder / name
        if not path.exists():
            return
        with path.open() as file:
            for line in file:
                try:
                    yield json.loads(line)
                except ValueError:
                    return

    def rewind(self, name: str, update: int) -> None:
        """Drops the lines after `update`: training is about to write them again."""
        kept = [json.dumps(row) + "\n" for row in self.rows(name) if row["update"] <= update]
        self._replace(name, "".join(kept))

    def _replace(self, name: str, text: str) -> None:
        path = self.folder / name
        draft = path.with_name(f"{name}.partial")
        with _explain(path):
            with draft.open("w") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)


def _differences(before: Any, now: Any, names: Iterable[str]) -> list[str]:
    """The innermost settings that differ, with both values."""
    found = []
    for name in names:
        old, new = before.get(name), now[name]
        if isinstance(old, dict) and isinstance(new, dict):
            found += _differences(old, new, new)
        elif old != new:
            found.append(f"{name} ({old} against {new})")
    return found


@contextmanager
def _explain(path: Path) -> Iterator[None]:
    """Turns a failed write into an error that says what to do."""
    try:
        yield
    except OSError as error:
        raise OryxError(
            f"cannot write {path}: {error.strerror or error}; what was saved before is untouched. "
            "Make room or choose another folder with --out; a begun run continues with --resume"
        ) from error
