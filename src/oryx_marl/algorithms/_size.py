"""The size of a network where none is given: by how much there is to see and to learn from."""

from dataclasses import fields, replace
from typing import Any, NamedTuple, TypeVar

from oryx_marl.types import Spec

T = TypeVar("T")


class Size(NamedTuple):
    """Of a network: features per token, and blocks."""

    width: int
    num_blocks: int


SMALL, MIDDLE, LARGE = Size(64, 1), Size(128, 1), Size(256, 2)
MANY_FEATURES = {MIDDLE: 64, LARGE: 256}
"""Features of an observation above which a network of this size is taken."""
ENOUGH_STEPS = {MIDDLE: 100_000, LARGE: 500_000}
"""Logged steps, counted for each agent, below which it is not: it would learn them by heart."""
WIDTHS = ("width", "linear_width", "recurrent_width")
"""Fields of the networks' settings that are filled in where they are 0."""


def choose_size(spec: Spec, num_rows: int | None = None) -> Size:
    """The size for data of this Spec with `num_rows` logged steps; None: enough of them."""
    for size in (LARGE, MIDDLE):
        enough = num_rows is None or num_rows * spec.num_agents >= ENOUGH_STEPS[size]
        if spec.observation_size > MANY_FEATURES[size] and enough:
            return size
    return SMALL


def fill_size(config: T, spec: Spec, num_rows: int | None = None) -> T:
    """The config with a size for its network, wherever none was given."""
    network: Any = getattr(config, "network", None)
    if network is None:
        return config
    size = choose_size(spec, num_rows)
    unset = [each.name for each in fields(network) if each.name in WIDTHS]
    found: dict[str, int] = {name: size.width for name in unset if getattr(network, name) == 0}
    if "width" in found:
        found["num_blocks"] = max(size.num_blocks, network.num_blocks)
    return replace(config, network=replace(network, **found)) if found else config  # type: ignore[type-var]
