"""The settings of a run as those of `oryx train`, for another run that begins like it."""

from pathlib import Path
from typing import Any

from oryx_marl import resuming
from oryx_marl.cli import flags, train


def read(folder: Path, has_env: bool) -> tuple[str, dict[str, Any]]:
    """The algorithm and the values of its flags, but for the folder of the run.

    Where the command line names the environment to score in (`has_env`), the run's is not looked
    for.
    """
    begun = resuming.read(folder)
    name = begun.config.algorithm
    values = train.values_of(begun)
    if not begun.config.online and not has_env:
        values["env"] = resuming.name_env(begun)
    command = train.make_command(name)(**values)
    found = {key: _plain(value) for key, value in flags.values(command).items()}
    return name, {key: value for key, value in found.items() if value is not None}


def _plain(value: Any) -> Any:
    """As a file would have it."""
    return (
        [*value] if isinstance(value, tuple) else str(value) if isinstance(value, Path) else value
    )
