"""The folder of one run: settings, logs and checkpoints, written so that a kill loses nothing."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oryx_marl.errors import OryxError


@dataclass(frozen=True)
class Run:
    """`runs/<name>/` with config.json, spec.json, metrics.jsonl, evaluations.jsonl, checkpoints/."""

    folder: Path

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    def begin(self, config: dict[str, Any], resume: bool) -> None:
        """Makes the folder and writes `config`, or with `resume` checks that it is the same."""
        path = self.folder / "config.json"
        if path.exists() and not resume:
            raise OryxError(
                f"{self.folder} holds a run already; continue it with --resume, or name another "
                "folder with --out"
            )
        if path.exists():
            before = {k: v for k, v in self.read("config.json").items() if k in config}
            now = json.loads(json.dumps(config))
            changed = [k for k in now if k in _MUST_MATCH and now[k] != before.get(k)]
            if changed:
                raise OryxError(
                    f"{self.folder} was begun with another {changed[0]} ({before.get(changed[0])} "
                    f"against {now[changed[0]]}); resume with the same settings or use another --out"
                )
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.write("config.json", config)
        except OSError as error:
            raise OryxError(
                f"cannot write into {self.folder}: {error.strerror or error}; choose another "
                "folder with --out"
            ) from error

    def write(self, name: str, value: Any) -> None:
        """Replaces a JSON file in one go."""
        path = self.folder / name
        partial = path.with_suffix(".partial")
        with partial.open("w") as file:
            json.dump(value, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)

    def read(self, name: str) -> Any:
        """A JSON file of the run."""
        path = self.folder / name
        try:
            return json.loads(path.read_text())
        except FileNotFoundError as error:
            raise OryxError(f"{self.folder} is not a finished run: it has no {name}") from error
        except (OSError, ValueError) as error:
            raise OryxError(f"{path} cannot be read: {error}") from error

    def append(self, name: str, row: dict[str, Any]) -> None:
        """Adds a line to a JSONL file."""
        with (self.folder / name).open("a") as file:
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
        path = self.folder / name
        partial = path.with_suffix(".partial")
        partial.write_text("".join(kept))
        partial.replace(path)


_MUST_MATCH = ("algorithm", "dataset", "fingerprint", "seeds", "log_every", "config")
"""Settings that a resumed run may not change; the number of updates may grow."""
