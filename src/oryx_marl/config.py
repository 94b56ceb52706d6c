"""Config dataclasses to plain values and back."""

import dataclasses
import numbers
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

from oryx_marl.errors import OryxError

T = TypeVar("T")
BEFORE = "before"
"""Key of a field's metadata: the value that stands for it where it is not stored."""


def to_dict(config: Any) -> dict[str, Any]:
    """Plain values of a config, nested ones included."""
    return dataclasses.asdict(config)


def flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Plain values without nesting: those of an inner config are called `outer/inner`."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        inner = isinstance(value, Mapping)
        found |= flatten(value, f"{prefix}{name}/") if inner else {f"{prefix}{name}": value}
    return found


def coerce(config: Any, name: str, value: Any) -> Any:
    """A value for a setting of a config, checked against its type; 1e3 is a whole number too."""
    return _coerce(typing.get_type_hints(type(config))[name], name, value)


def _coerce(kind: Any, name: str, value: Any) -> Any:
    if type(None) in typing.get_args(kind):
        if value is None:
            return None
        kinds = [each for each in typing.get_args(kind) if each is not type(None)]
        kind = kinds[0] if len(kinds) == 1 else Any
    choices = typing.get_args(kind) if typing.get_origin(kind) is typing.Literal else ()
    if kind is int and isinstance(value, float) and value.is_integer():
        return int(value)
    fits = {
        int: isinstance(value, numbers.Integral) and not isinstance(value, bool),
        float: isinstance(value, numbers.Real) and not isinstance(value, bool),
        bool: isinstance(value, bool),
        str: isinstance(value, str),
    }.get(kind, value in choices if choices else True)
    if fits:
        return value
    words = {int: "a whole number", float: "a number", bool: "True or False", str: "a text"}
    wanted = words.get(kind, f"one of {', '.join(map(str, choices))}")
    raise OryxError(f"{name} must be {wanted}, got {value!r}")


def added(default: Any, before: Any) -> Any:
    """A field of a Config that older versions did not have; they did as `before` says."""
    return dataclasses.field(default=default, metadata={BEFORE: before})


def from_stored(kind: type[T], values: Mapping[str, Any]) -> T:
    """The config of a run or policy of this version or an older one."""
    return from_dict(kind, _complete(kind, values))


def _complete(kind: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    types, found = typing.get_type_hints(kind), dict(values)
    for entry in dataclasses.fields(kind):
        if BEFORE in entry.metadata:
            found.setdefault(entry.name, entry.metadata[BEFORE])
        elif dataclasses.is_dataclass(types[entry.name]):
            inner = values.get(entry.name, {})
            if isinstance(inner, Mapping):  # else `from_dict` refuses it
                found[entry.name] = _complete(types[entry.name], inner)
    return found


def from_dict(kind: type[T], values: Mapping[str, Any]) -> T:
    """The config that `to_dict` wrote; unknown names are refused, and values of another type."""
    types = typing.get_type_hints(kind)
    if unknown := sorted(set(values) - set(types)):
        raise OryxError(f"unknown settings {', '.join(unknown)}; known: {', '.join(types)}")
    return kind(**{name: _read(types[name], name, value) for name, value in values.items()})


def _read(kind: Any, name: str, value: Any) -> Any:
    """A setting as its type says; JSON has lists for tuples."""
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        if not isinstance(value, Mapping):
            raise OryxError(f"{name} must be a table of settings, got {value!r}")
        return from_dict(kind, value)
    kinds = (kind, *typing.get_args(kind))  # an optional tuple too
    if isinstance(value, list) and any(typing.get_origin(each) is tuple for each in kinds):
        return tuple(value)
    if typing.get_origin(kind) is tuple:
        return value
    return _coerce(kind, name, value)


def replace_by_name(config: Any, given: dict[str, Any]) -> tuple[Any, set[str]]:
    """A config with some settings, also those of the configs inside it; names that it lacks."""
    left, changes = set(given), {}
    for entry in dataclasses.fields(config):
        value = getattr(config, entry.name)
        if entry.name in given:
            changes[entry.name] = coerce(config, entry.name, given[entry.name])
            left.discard(entry.name)
        elif dataclasses.is_dataclass(value):
            changes[entry.name], missing = replace_by_name(value, given)
            left &= missing
    return dataclasses.replace(config, **changes), left


def setting_names(config: Any) -> list[str]:
    """All settings of a config, those of the configs inside it too."""
    found: list[str] = []
    for entry in dataclasses.fields(config):
        value = getattr(config, entry.name)
        found += setting_names(value) if dataclasses.is_dataclass(value) else [entry.name]
    return found
