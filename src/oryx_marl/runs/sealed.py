"""What every JSON document of a run has in common: a format version, a checksum, and errors that
name the file."""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
from jaxtyping import Float

from oryx_marl.errors import OryxError

FORMAT_VERSION = 1
"""Documents of version 0.1.0 of the package have neither version nor checksum."""
VERSION, CHECKSUM = "format_version", "checksum"
"""Keys that are added to a document; `version` in config.json is that of the package."""
DAMAGE = (
    KeyError,
    TypeError,
    ValueError,
    AttributeError,
    IndexError,
    OSError,
    OverflowError,  # of a number such as 1e999 that must be whole
    RecursionError,
    MemoryError,
)
"""What reading a file of the wrong form raises."""


class DocumentError(OryxError):
    """A document that cannot be read; `why` is the reason alone, without file and advice."""

    def __init__(self, path: Path, why: str, advice: str = "") -> None:
        advice = advice or "restore it from a copy, or make the run again with `oryx train`"
        super().__init__(f"{path} is damaged: {why}; {advice}")
        self.why = why


class NewerError(DocumentError):
    """A document of a version that this package does not know."""

    def __init__(self, path: Path, version: Any) -> None:
        why = (
            f"it was written by a newer oryx-marl (format {version}; this one reads up to "
            f"{FORMAT_VERSION})"
        )
        OryxError.__init__(self, f"{path} cannot be read: {why}; update oryx-marl to open it")
        self.why = why


class MissingError(OryxError):
    """A document that is not there."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} is missing; is {path.parent} the folder of a run? "
            "`oryx train` writes the file, and `oryx train --resume RUN` completes a run that was "
            "stopped"
        )


D = TypeVar("D", bound="Document")


@dataclass(frozen=True)
class Document:
    """A JSON file of a run."""

    file: ClassVar[str]
    is_sealed: ClassVar[bool] = True
    """Whether it carries version and checksum; not where others prescribe the layout."""

    def to_json(self) -> dict[str, Any]:
        """The content as it is written, without version and checksum."""
        raise NotImplementedError

    @classmethod
    def from_json(cls: type[D], values: Any) -> D:
        """The document with that content; what is wrong raises one of `DAMAGE`."""
        raise NotImplementedError


def seal(values: Mapping[str, Any]) -> dict[str, Any]:
    """The content with its version and checksum."""
    versioned = {**values, VERSION: FORMAT_VERSION}
    return {**versioned, CHECKSUM: compute_checksum(versioned)}


def unseal(values: Any, path: Path) -> Any:
    """The content without version and checksum, after both were checked."""
    if not isinstance(values, dict) or not {VERSION, CHECKSUM} & set(values):
        return values  # of version 0.1.0
    version = values.get(VERSION)
    if isinstance(version, int) and version > FORMAT_VERSION:
        raise NewerError(path, version)
    versioned = {name: value for name, value in values.items() if name != CHECKSUM}
    if values.get(CHECKSUM) != compute_checksum(versioned):
        raise DocumentError(path, "its checksum differs, so it was altered")
    del versioned[VERSION]
    return versioned


def compute_checksum(values: Mapping[str, Any]) -> str:
    """SHA-256 of a content, however it is spaced and ordered in the file."""
    read_back = json.loads(json.dumps(values))  # keys become text
    return hashlib.sha256(json.dumps(read_back, sort_keys=True).encode()).hexdigest()


@contextmanager
def explain(path: Path) -> Iterator[None]:
    """Turns what a file of the wrong form raises into an error that names it."""
    try:
        yield
    except FileNotFoundError as error:
        raise MissingError(path) from error
    except DAMAGE as error:
        raise DocumentError(path, tell_why(error)) from error


def tell_why(error: Exception) -> str:
    """An exception in words."""
    if isinstance(error, DocumentError):
        return error.why
    if isinstance(error, KeyError):
        return f"the entry {error} is missing"
    return str(error) or type(error).__name__


def require_object(values: Any) -> dict[str, Any]:
    """The values of a JSON object, or an error if it is something else."""
    if not isinstance(values, dict):
        raise ValueError(f"it holds a {type(values).__name__}, not an object")
    return values


def to_floats(values: Any) -> Float[np.ndarray, "values"]:
    """Numbers of JSON as a flat array; null is NaN."""
    flat = values if isinstance(values, list) else [values]
    return np.array([math.nan if value is None else float(value) for value in flat], np.float64)


def rest_of(kind: type[Document], values: Mapping[str, Any]) -> dict[str, Any]:
    """Entries that a document has no field for: they are kept as they are."""
    names = [field.name for field in fields(kind)]
    return {name: value for name, value in values.items() if name not in names}
