"""Config dataclasses to plain values and back."""

import dataclasses
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

from oryx_marl.errors import OryxError

T = TypeVar("T")


def to_dict(config: Any) -> dict[str, Any]:
    """Plain values of a config, nested ones included."""
    return dataclasses.asdict(config)


def from_dict(kind: type[T], values: Mapping[str, Any]) -> T:
    """The config that `to_dict` wrote; unknown names are refused."""
    types = typing.get_type_hints(kind)
    if unknown := sorted(set(values) - set(types)):
        raise OryxError(f"unknown settings {', '.join(unknown)}; known: {', '.join(types)}")
    nested = {
        name: from_dict(types[name], value) if dataclasses.is_dataclass(types[name]) else value
        for name, value in values.items()
    }
    return kind(**nested)
