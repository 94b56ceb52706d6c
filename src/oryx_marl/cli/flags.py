"""The flags of a command as names and types, and their values as words and as TOML."""

import dataclasses
import json
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import tyro

from oryx_marl.errors import OryxError
from oryx_marl.texts import shorten

WORDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    Path: "a path",
}


class Flag(NamedTuple):
    """A flag, or a word of a command without one."""

    name: str
    """As in files: with underscores; of a word without a flag what the help calls it."""
    field: str
    """Of the command's class."""
    kind: Any
    is_positional: bool

    @property
    def is_switch(self) -> bool:
        """Whether no value follows it."""
        return self.kind is bool

    @property
    def is_list(self) -> bool:
        """Whether several values may follow it."""
        return any(typing.get_origin(kind) is tuple for kind in _alternatives(self.kind))

    @property
    def option(self) -> str:
        return f"--{self.name.replace('_', '-')}"


def find(command: type) -> dict[str, Flag]:
    """The flags of a command's class by name, those of the groups of settings in it too."""
    return {flag.name: flag for flag, _ in _walk(command, None)}


def values(command: Any) -> dict[str, Any]:
    """What a command was asked for, by the names of its flags."""
    return {flag.name: value for flag, value in _walk(type(command), command)}


def _walk(kind: Any, instance: Any) -> Iterator[tuple[Flag, Any]]:
    hints = typing.get_type_hints(kind, include_extras=True)
    for entry in dataclasses.fields(kind):
        value = getattr(instance, entry.name, None)
        inner, *marks = (
            typing.get_args(hints[entry.name])
            if typing.get_origin(hints[entry.name]) is typing.Annotated
            else (hints[entry.name],)
        )
        made = [each() for mark in marks if (each := getattr(mark, "constructor_factory", None))]
        inner = made[0] if made else inner
        if dataclasses.is_dataclass(inner):
            yield from _walk(inner, value)
            continue
        is_positional = tyro.conf.Positional in marks
        shown = next((name for mark in marks if (name := getattr(mark, "metavar", None))), None)
        name = shown.rstrip(".").lower() if is_positional and shown else entry.name
        yield Flag(name, entry.name, inner, is_positional), value


def to_words(flag: Flag, value: Any, where: str) -> list[str]:
    """The words of a command line that say the same as a value of a file."""
    found = _convert(flag.kind, value)
    if found is None:
        raise OryxError(
            f"{where}: {flag.name} must be {_describe(flag.kind)}, got {shorten(_show(value))}"
        )
    texts = [_text(each) for each in found] if isinstance(found, list) else [_text(found)]
    if odd := [text for text in texts if "\0" in text]:
        raise OryxError(f"{where}: {flag.name} has a NUL character in {shorten(odd[0])!r}")
    if flag.is_positional:
        if odd := [text for text in texts if text.startswith("-") or not text]:
            raise OryxError(f"{where}: {flag.name} is {odd[0]!r}, which looks like a flag")
        return texts
    if flag.is_switch:
        return [flag.option if found else flag.option.replace("--", "--no-", 1)]
    return [flag.option, *texts] if isinstance(found, list) else [f"{flag.option}={texts[0]}"]


def _alternatives(kind: Any) -> list[Any]:
    """The types that a value may have, but None."""
    is_union = typing.get_origin(kind) in (typing.Union, types.UnionType)
    found = typing.get_args(kind) if is_union else (kind,)
    return [each for each in found if each is not type(None)]


def _convert(kind: Any, value: Any) -> Any:
    """A value of a file as its type wants it, or None if it has another."""
    for each in _alternatives(kind):
        if (found := _convert_one(each, value)) is not None:
            return found
    return None


def _convert_one(kind: Any, value: Any) -> Any:
    if typing.get_origin(kind) is tuple:
        return _convert_list(typing.get_args(kind), value)
    if typing.get_origin(kind) is Literal:
        return value if isinstance(value, str) and value in typing.get_args(kind) else None
    if kind is bool or isinstance(value, bool):
        return value if kind is bool and isinstance(value, bool) else None
    if kind is int and isinstance(value, float) and value.is_integer():
        return int(value)
    known = {int: int, float: int | float, str: str, Path: str}
    return value if kind in known and isinstance(value, known[kind]) else None


def _convert_list(kinds: Sequence[Any], value: Any) -> list[Any] | None:
    """A list whose entries fit; one entry may stand without the brackets."""
    is_any_length = kinds[-1] is ...
    given = [value] if is_any_length and not isinstance(value, list) else value
    if not isinstance(given, list) or (not is_any_length and len(given) != len(kinds)):
        return None
    wanted = [kinds[0]] * len(given) if is_any_length else kinds
    found = [_convert(kind, each) for kind, each in zip(wanted, given, strict=True)]
    return None if None in found else found


def _describe(kind: Any) -> str:
    """A type for people."""
    return " or ".join(_describe_one(each) for each in _alternatives(kind))


def _describe_one(kind: Any) -> str:
    if typing.get_origin(kind) is Literal:
        return f"one of {', '.join(typing.get_args(kind))}"
    if typing.get_origin(kind) is tuple:
        inner = typing.get_args(kind)
        count = "" if inner[-1] is ... else f" of {len(inner)}"
        return f"a list{count}, each {_describe(inner[0])}"
    return WORDS.get(kind, "something else")


def _show(value: Any) -> str:
    """A value for a message; tables may be nested deeper than can be written."""
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, list) and any(isinstance(each, list | Mapping) for each in value):
        return "a list of lists or tables"
    return repr(value)


def _text(value: Any) -> str:
    return repr(value) if isinstance(value, float) else str(value)


def to_toml(named: Mapping[str, Any]) -> str:
    """Lines of TOML; what is None is left out, as it is on the command line."""
    lines = [f"{name} = {_write(value)}" for name, value in named.items() if value is not None]
    return "\n".join(lines) + "\n"


def _write(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple | list):
        return f"[{', '.join(_write(each) for each in value)}]"
    if isinstance(value, int | float):
        return repr(value)
    text = json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise OryxError(f"{text!r} is not UTF-8, so that no TOML file can hold it")
    return text
