"""JSON of strangers: every request is one object of known entries, each with its type."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from oryx_marl import reading, texts
from oryx_marl.errors import OryxError
from oryx_marl.policy.acting import name_of
from oryx_marl.serve import refusals
from oryx_marl.serve.packages import orjson

MOST_SEED = 2**64 - 1
MOST_EPISODE = 2**32 - 1


def parse(body: bytes, known: Mapping[str, Callable[[str, Any], Any]]) -> dict[str, Any]:
    """The entries of a request, each read by its reader; null is as if left out."""
    found = parse_object(body) if body else {}
    for name in found:
        if name not in known:
            told = texts.shorten(texts.plain(name), 40)
            raise refusals.invalid(f"there is no entry {told!r}; there are: {', '.join(known)}")
    return {
        name: read(name, value)
        for name, read in known.items()
        if (value := found.get(name)) is not None
    }


def parse_object(body: bytes) -> dict[str, Any]:
    """An object of strict JSON: numbers are finite, no name is there twice, nothing is too deep."""
    try:
        found = orjson.loads(body)
        if isinstance(found, dict) and body.count(b":") != _count_names(found):
            # A name is there twice, or a text has a colon: the slow parser knows.
            found = reading.parse_json(body)
    except ValueError as error:  # also that of either library
        raise refusals.invalid(f"the body is no valid JSON: {_explain(error)}") from None
    if not isinstance(found, dict):
        raise refusals.invalid('the body must be a JSON object, such as {"observations": ...}')
    return found


def _count_names(value: Any) -> int:
    """Names in objects, those within lists of lists left out."""
    if isinstance(value, dict):
        return len(value) + sum(map(_count_names, value.values()))
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return sum(map(_count_names, value))
    return 0


def _explain(error: ValueError) -> str:
    """Where it is wrong; of what the body says nothing is repeated."""
    if isinstance(error, json.JSONDecodeError):
        return texts.plain(texts.shorten(f"{error.msg} at character {error.pos}", 120))
    if isinstance(error, UnicodeError):
        return "it is no UTF-8"
    return texts.plain(texts.shorten(str(error), 120))


def per_agent(name: str, value: Any) -> Any:
    """One entry for each agent."""
    if not isinstance(value, list | dict):
        raise refusals.invalid(f"{name} must be a list in the order of the agents, or an object")
    return value


def text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise refusals.invalid(f"{name} must be a text")
    return value


def whole(most: int) -> Callable[[str, Any], int]:
    """A reader of whole numbers from 0 on."""

    def read(name: str, value: Any) -> int:
        if type(value) is not int or not 0 <= value <= most:
            raise refusals.invalid(f"{name} must be a whole number from 0 to {most}")
        return value

    return read


def act(name: str, value: Any) -> str:
    """A way of acting, by its name."""
    try:
        if isinstance(value, str | int | float):
            return name_of(value)
    except (OryxError, OverflowError):
        pass
    raise refusals.invalid(
        f'{name} must be "sampled", "greedy" or a temperature from 0 (greedy) to 1000, such as 0.25'
    )


def noise(name: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise refusals.invalid(f"{name} must be a list of lists: [agents][actions]")
    return value
