"""The record of a cell: what was run, the command that runs it again, and its scores."""

from pathlib import Path
from typing import Any

from oryx_marl import files, reading
from oryx_marl.errors import OryxError
from oryx_marl.runs import sealed

CellRecord = dict[str, Any]
FIELDS = (
    "variant",
    "command",
    "commit",
    "algorithm",
    "online",
    "steps_per_update",
    "dataset",
    "fingerprint",
    "updates",
    "seeds",
    "config",
    "evaluation",
    "version",
    "jax",
    "device",
    "wall_seconds",
    "curve",
    "scores",
    "acting",
    "marl_eval",
)
"""What every record has. `original_command` is that of a script which is no more, of records that
it made at their commit."""


def read_cell(path: Path) -> CellRecord:
    """The record in a file; an OryxError if it is damaged."""
    found = read_json(path, "remove it to run the cell again")
    if missing := [name for name in FIELDS if name not in found]:
        raise OryxError(
            f"{path} is no record of a cell: {', '.join(missing)} are missing; remove it to run "
            "the cell again"
        )
    return found


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Replaces a JSON file; several processes may run different cells of one suite."""
    files.write_json(path, sealed.seal(value), draft_per_process=True)


def read_json(path: Path, advice: str) -> dict[str, Any]:
    """What `write_json` wrote, or what was written before it had checksums."""
    try:
        return sealed.require_object(sealed.unseal(reading.read_json(path), path))
    except (*sealed.DAMAGE, sealed.DocumentError) as error:
        raise OryxError(f"{path} is damaged ({sealed.tell_why(error)}); {advice}") from error
