"""Where all commands print, and how they write what is common to them."""

import dataclasses
import functools
import json
import operator
from pathlib import Path
from typing import Annotated, Any, TypeAlias, get_args

import tyro
from rich.console import Console
from rich.text import Text
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from oryx_marl import texts


class PlainConsole(Console):
    """Shows texts as they are: names out of files are neither markup nor escape sequences."""

    def __init__(self, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, markup=False, emoji=False)

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(texts.plain(text), **options)


console = PlainConsole()
"""For results."""
errors = PlainConsole(stderr=True)
"""For progress, warnings and errors."""
NONE = "unset"
"""How the default None of a flag is shown."""

FLAGS = (tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes)
"""Flags are called as the settings are, without the name of the group they belong to."""
OPTIONAL = ConstructorRegistry()
"""How flags that may be left out are read and shown."""
DatasetName: TypeAlias = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="DATASET")]
RunFolder: TypeAlias = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]


@OPTIONAL.primitive_rule
def _show_plainly(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec | None:
    """A flag of `X | None` is shown as X: to say None it is left out."""
    kinds = [kind for kind in get_args(info.type) if kind is not type(None)]
    if type(None) not in get_args(info.type) or not kinds:
        return None
    kind = functools.reduce(operator.or_, kinds)
    spec = ConstructorRegistry.get_primitive_spec(PrimitiveTypeInfo.make(kind, info.markers))
    if not isinstance(spec, PrimitiveConstructorSpec):
        return None
    write, is_instance = spec.str_from_instance, spec.is_instance
    return dataclasses.replace(
        spec,
        is_instance=lambda value: value is None or is_instance(value),
        str_from_instance=lambda value: [NONE] if value is None else write(value),
    )


def default_is(what: str) -> Any:
    """For the help of a flag whose default is found when the command runs, not None."""

    def hint(shown: str) -> str:
        return f"(default: {what if shown in (NONE, '') else shown})"

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
