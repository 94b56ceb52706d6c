"""The folder of one run: the one place that writes and reads each of its documents, so that a kill
loses nothing and an altered file is not taken for the truth."""

import json
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np

from oryx_marl import config as configs
from oryx_marl import files, locks, reading, registry
from oryx_marl.algorithms._making import make_algorithm
from oryx_marl.algorithms.base import Algorithm
from oryx_marl.errors import OryxError, OryxWarning, UnknownNameError
from oryx_marl.policy import artifact
from oryx_marl.policy.artifact import PolicyArtifact
from oryx_marl.runs import checkpoint, replay, sealed
from oryx_marl.runs.checkpoint import Checkpoint
from oryx_marl.runs.documents import (
    WEIGHTS,
    Checksums,
    Evaluation,
    MetricRow,
    Row,
    RunConfig,
    SpecDocument,
    hash_spec,
)
from oryx_marl.runs.sealed import Document, DocumentError, require_object
from oryx_marl.trees import unflatten
from oryx_marl.types import Spec

D = TypeVar("D", bound=Document)
R = TypeVar("R", bound=Row)

_MUST_MATCH = (
    "algorithm",
    "dataset",
    "fingerprint",
    "spec_sha256",
    "seeds",
    "log_every",
    "config",
    "drop_invalid",
)
"""Settings that a resumed run may not change; the number of updates may grow."""


LOCK = ".lock"
"""File in the folder of a run while it is written."""
LONGEST_LIST = 10
"""Entries that a message shows."""


class NoBestError(OryxError):
    """A run whose weights were never evaluated, so that none of them are the best."""


@dataclass(frozen=True)
class Run:
    """`runs/<name>/`: documents (documents.py), replay.npz, checkpoints/ and policy/."""

    folder: Path

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    def lock(self) -> AbstractContextManager[None]:
        """For whoever trains or scores it: nobody else writes meanwhile. Reading needs no lock."""
        return locks.hold(self.folder / LOCK, f"the run {self.folder}")

    def begin(self, config: RunConfig, resume: bool, beside: Iterable[Document] = ()) -> None:
        """Makes the folder and writes `config`, or with `resume` checks that it is the same.

        Documents that resuming needs beside it are written before: with `config` it is a run.
        """
        if self.has(RunConfig):
            if not resume:
                raise OryxError(
                    f"{self.folder} holds a run already; continue it (`oryx train --resume "
                    f"{self.folder}`, or oryx_marl.resume in Python), or choose another folder "
                    "with out"
                )
            if differing := self.compare(config):
                raise OryxError(
                    f"{self.folder} was begun with {', '.join(differing)}; leave that out to "
                    "continue the run as it is, or choose another folder for a new one"
                )
        elif self.newest_update() is not None:
            raise OryxError(
                f"{self.checkpoints} holds checkpoints of a run whose {RunConfig.file} is gone; "
                "restore that from a copy, or choose another folder with out"
            )
        for document in (*beside, config):
            self.write(document)

    def compare(self, config: RunConfig) -> list[str]:
        """What a run that goes on may not change, and `config` does: names with both values."""
        before, now = (_complete(each).to_json() for each in (self.read(RunConfig), config))
        return _differences(before, json.loads(json.dumps(now)), _MUST_MATCH)

    def require(self) -> None:
        """Raises unless this is the folder of a run."""
        if self.has(RunConfig):
            return
        if self.folder.is_file():
            raise UnknownNameError(f"{self.folder} is a file; name the folder of a run")
        if not self.folder.is_dir():
            raise UnknownNameError(f"there is no run at {self.folder}")
        policies = [self.folder / f"{which}.npz" for which in WEIGHTS]
        if names := " or ".join(str(path) for path in policies if path.is_file()):
            raise UnknownNameError(
                f"{self.folder} is not the folder of a run, but holds policies: name {names}, or "
                f"the run's folder, {self.folder.parent}"
            )
        raise UnknownNameError(
            f"{self.folder / RunConfig.file} is missing, so {self.folder} is not the folder of a "
            "run; name one that `oryx train` has written"
        )

    def has(self, kind: type[Document]) -> bool:
        """Whether there is such a document."""
        return (self.folder / kind.file).is_file()

    def write(self, document: Document) -> None:
        """Replaces a document in one go."""
        values = document.to_json()
        if document.is_sealed:
            values = sealed.seal(values)
        else:
            self._note_checksum(document.file, values)
        files.write_json(self.folder / document.file, values)

    def read(self, kind: type[D]) -> D:
        """A document of the run, checked."""
        path = self.folder / kind.file
        with sealed.explain(path):
            values = reading.read_json(path)
            if kind.is_sealed:
                values = sealed.unseal(values, path)
            elif not self._is_noted(kind.file, values):
                raise DocumentError(path, f"its checksum differs from that in {Checksums.file}")
            return kind.from_json(values)

    def _note_checksum(self, file: str, values: Any) -> None:
        """Before the file is replaced; that of the one there so far counts until it is."""
        noted = {}
        if self.has(Checksums):
            with suppress(DocumentError):  # a damaged one is written anew
                noted = self.read(Checksums).files
        now = sealed.compute_checksum(values)
        before = [each for each in noted.get(file, ())[:1] if each != now]
        self.write(Checksums({**noted, file: (now, *before)}))

    def _is_noted(self, file: str, values: Any) -> bool:
        """Whether a document is one that was written; older runs do not tell."""
        noted = self.read(Checksums).files.get(file) if self.has(Checksums) else None
        return noted is None or sealed.compute_checksum(require_object(values)) in noted

    def append(self, row: Row) -> None:
        """Adds a line to a log; it is on the disk once a checkpoint is, which relies on it."""
        path = self.folder / row.file
        with files.explain(path), path.open("ab") as file:
            file.write(json.dumps(sealed.seal(row.to_json())).encode() + b"\n")

    def rows(self, kind: type[R]) -> Iterator[R]:
        """Lines of a log. Damaged ones are told and left out, and no others; nothing is told of a
        last one that was cut off by a kill."""
        damaged: dict[int, Exception] = {}
        for number, _, row in self._lines(kind):
            if isinstance(row, Exception):
                damaged[number] = row
            else:
                yield row
        if damaged:
            numbers = _shorten(list(damaged)).replace("[", "").replace("]", "")
            warnings.warn(
                f"{self.folder / kind.file} has damaged lines, which are left out: {numbers} "
                f"({sealed.tell_why(next(iter(damaged.values())))})",
                OryxWarning,
                stacklevel=2,
            )

    def _lines(self, kind: type[R]) -> Iterator[tuple[int, bytes, R | Exception]]:
        """Number and bytes of each line of a log, and what it says or why it cannot be read."""
        path = self.folder / kind.file
        if not path.exists():
            return
        with sealed.explain(path):
            lines = path.read_bytes().split(b"\n")
        for number, line in enumerate(lines, 1):
            if not line:
                continue
            try:
                row = kind.from_json(sealed.unseal(reading.parse_json(line), path))
            except (*sealed.DAMAGE, DocumentError) as error:
                if number < len(lines):  # else no line's end follows: it was cut off
                    yield number, line, error
            else:
                yield number, line, row

    def rewind(self, kind: type[Row], update: int) -> None:
        """Drops the lines after `update`: training is about to write them again.

        The others stay as they are, damaged ones too: they tell that something was there.
        """
        kept: list[bytes] = []
        is_past = False
        for _, line, row in self._lines(kind):
            is_kept = not is_past if isinstance(row, Exception) else row.update <= update
            is_past |= not is_kept
            kept += [line + b"\n"] if is_kept else []
        files.write_bytes(self.folder / kind.file, b"".join(kept))

    def write_replay(self, episodes: Sequence[replay.Episode]) -> None:
        """Replaces the recorded episodes."""
        replay.write(self.folder / replay.FILE, episodes)

    def read_replay(self) -> tuple[replay.Episode, ...]:
        """The recorded episodes."""
        return replay.read(self.folder / replay.FILE)

    def newest_update(self) -> int | None:
        """Update of the newest checkpoint, if there is one."""
        return max(checkpoint.updates(self.checkpoints), default=None)

    def save_checkpoint(self, found: Checkpoint) -> None:
        """Adds a checkpoint; policy files of another update are outdated by it and go."""
        logs = [self.folder / kind.file for kind in (MetricRow, Evaluation)]
        for path in filter(Path.exists, logs):  # a run that goes on from here has these lines
            with files.explain(path):
                files.sync(path)
        checkpoint.save(self.checkpoints, found)
        for path in map(self._policy_path, WEIGHTS):
            if path.exists() and not _is_of_update(path, found.update):
                path.unlink()

    def write_policy(self, which: str, algorithm: Algorithm, weights: Any) -> None:
        """Writes policy/last.npz or policy/best.npz: weights [S, ...] of the newest checkpoint."""
        self._require_which(which)
        config, spec = self.read(RunConfig), self.read(SpecDocument).spec
        origin = _describe_origin(config, which, self.newest_update())
        found = PolicyArtifact(config.algorithm, algorithm, spec, weights, config.seeds, origin)
        artifact.save(self._policy_path(which), found)

    def policy(self, which: str = "last") -> PolicyArtifact:
        """The final weights, or those of the best evaluation, with all that is needed to act.

        From the policy file if it belongs to the newest checkpoint, else from that checkpoint.
        Neither needs the environment.
        """
        self._require_which(which)
        self.require()
        config, spec = self.read(RunConfig), self.read(SpecDocument).spec
        if config.spec_sha256 != hash_spec(spec):
            raise OryxError(
                f"{self.folder / SpecDocument.file} does not fit this run: it was altered"
            )
        path, newest = self._policy_path(which), self.newest_update()
        if path.is_file():
            try:
                found = artifact.load(path)
            except UnknownNameError:  # of an algorithm, which the checkpoint needs as well
                raise
            except OryxError as error:
                if newest is None:
                    raise
                raise OryxError(
                    f"{error}. (If it is the file that is at fault, remove {path}: then the "
                    "checkpoint is used)"
                ) from error
            if newest in (None, found.origin.get("update")) and found.spec == spec:
                return found
        return self._restore_policy(which, config, spec)

    def _restore_policy(self, which: str, config: RunConfig, spec: Spec) -> PolicyArtifact:
        """From the newest checkpoint, of which only the arrays of the policy are read."""
        module = registry.load("algorithms", config.algorithm)
        settings = configs.from_stored(module.Config, config.config)
        algorithm = make_algorithm(config.algorithm, settings, spec)
        part = "learners" if which == "last" else "best"
        found = checkpoint.read(self.checkpoints, (part, "best_return"))
        best_return = found.tree.pop("best_return")
        if which == "best" and not np.all(np.isfinite(best_return)):
            raise NoBestError(
                f"{self.folder} has no best weights, since none were evaluated while it was "
                'trained; use the last ones: which="last"'
            )
        like = jax.eval_shape(algorithm.init, jax.random.key(0))
        if which == "best":
            like = jax.eval_shape(algorithm.weights, like)
        stacked = {part: artifact.over_seeds(like, len(config.seeds))}
        tree = unflatten(found.tree, stacked, self.checkpoints / str(found.update))[part]
        weights = algorithm.weights(tree) if which == "last" else tree
        origin = _describe_origin(config, which, found.update)
        return PolicyArtifact(config.algorithm, algorithm, spec, weights, config.seeds, origin)

    def _policy_path(self, which: str) -> Path:
        return self.folder / "policy" / f"{which}.npz"

    def _require_which(self, which: str) -> None:
        if which not in WEIGHTS:
            raise OryxError(f"which must be 'last' or 'best', got {which!r}")


def load_policy(path: Path, which: str = "last") -> PolicyArtifact:
    """The policy of a run's folder, or of a policy file."""
    if not path.is_file():
        return Run(path).policy(which)
    if which != "last":
        raise OryxError(
            f"{path} is a policy file, with one set of weights; leave out which={which!r}"
        )
    return artifact.load(path)


def _describe_origin(config: RunConfig, which: str, update: int | None) -> dict[str, Any]:
    """Where a run's policy comes from; the same for a policy file and for its checkpoint."""
    return {
        "learned_from": config.dataset,
        "fingerprint": config.rest.get("fingerprint"),
        "which": which,
        "update": update,
        "action_names": config.action_names,
        "version": config.version,
    }


def _is_of_update(path: Path, update: int) -> bool:
    try:
        return artifact.read_origin(path).get("update") == update
    except OryxError:
        return False


def _complete(config: RunConfig) -> RunConfig:
    """With settings that older versions did not have, as they were then."""
    try:
        kind = registry.load("algorithms", config.algorithm).Config
    except UnknownNameError:  # a plug-in that is not loaded
        return config
    return replace(config, config=configs.to_dict(configs.from_stored(kind, config.config)))


def _differences(before: Any, now: Any, names: Iterable[str]) -> list[str]:
    """The innermost settings that differ, with both values."""
    found = []
    for name in names:
        old, new = before.get(name), now.get(name)
        if isinstance(old, dict) and isinstance(new, dict):
            found += _differences(old, new, new)
        elif old != new:
            found.append(f"{name} {_shorten(old)}, not {_shorten(new)}")
    return found


def _shorten(value: Any) -> str:
    """A value for a message, long lists and texts by their beginning."""
    if isinstance(value, list) and len(value) > LONGEST_LIST:
        return f"{value[:LONGEST_LIST]} and {len(value) - LONGEST_LIST:,} more"
    return str(value)
