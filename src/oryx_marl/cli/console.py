"""Where all commands print, and how they write what is common to them."""

import json
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import tyro
from rich.console import Console

console = Console()
"""For results."""
errors = Console(stderr=True)
"""For progress, warnings and errors."""

FLAGS = (tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes)
"""Flags are called as the settings are, without the name of the group they belong to."""
DatasetName: TypeAlias = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="DATASET")]
RunFolder: TypeAlias = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]


def default_is(what: str) -> Any:
    """For the help of a flag whose default is found when the command runs, not None."""

    def hint(shown: str) -> str:
        return f"(default: {what if shown in ('None', '') else shown})"

    return tyro.conf.arg(help_behavior_hint=hint)


DatasetRoot: TypeAlias = Annotated[Path | None, default_is("$ORYX_DATA, or datasets/ here")]


def say(message: str) -> None:
    """Prints a line as it is, however long."""
    console.print(message, highlight=False, markup=False, soft_wrap=True)


def say_aside(message: str) -> None:
    """The same, where it does not get between the results."""
    errors.print(message, highlight=False, markup=False, soft_wrap=True)


def print_json(value: Any) -> None:
    """Prints what a script reads."""
    print(json.dumps(value))  # noqa: T201
