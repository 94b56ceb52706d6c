"""How a policy acts: the temperature at which its actions are drawn, by the name it has for people.

Actions are drawn from softmax(logits / temperature); of continuous ones the standard deviation is
multiplied by it. At 1 the policy is sampled as it was trained to be, at 0 it takes the likeliest
action, and between them it acts with less chance.

Where nobody says how, the action space does (`default_for`): ids are sampled, vectors are the mode.
Scores, roll-outs, recipes and loaded policies all ask here.
"""

import math
import warnings
from collections.abc import Iterable
from typing import Literal, TypeAlias

from oryx_marl.errors import OryxError, OryxWarning
from oryx_marl.types import ActionSpace

Act: TypeAlias = Literal["sampled", "greedy"] | float
"""`sampled`, `greedy`, or a temperature."""
SAMPLED: Literal["sampled"] = "sampled"
GREEDY: Literal["greedy"] = "greedy"
TEMPERATURES = {SAMPLED: 1.0, GREEDY: 0.0}
HIGHEST = 1000.0
"""The highest temperature: far above it, rounding would hide the logits behind the noise."""


def default_for(space: ActionSpace) -> Literal["sampled", "greedy"]:
    """How policies act in a space where nothing else is said."""
    from oryx_marl.networks.heads import family  # brings JAX, which names of acting do not need

    return GREEDY if family(space).acts_by_mode else SAMPLED


def scored_in(space: ActionSpace) -> tuple[Act, ...]:
    """Ways of acting that are scored where nothing else is said; the first is the headline."""
    return (SAMPLED, GREEDY) if default_for(space) == SAMPLED else (GREEDY, SAMPLED)


def resolve(act: str | float | None, space: ActionSpace) -> str | float:
    """A way of acting, that of the space if none is named."""
    return default_for(space) if act is None else act


def ways_in(
    acts: str | float | Iterable[str | float] | None, space: ActionSpace
) -> dict[str, float]:
    """`by_name` of what is named, or of what is scored in the space if nothing is."""
    return by_name(scored_in(space) if acts is None else acts)


def temperature_of(act: str | float) -> float:
    """The temperature of a way of acting; raises if it is none."""
    try:
        found = TEMPERATURES[act] if act in TEMPERATURES else float(act)
    except (TypeError, ValueError):
        found = math.nan
    if isinstance(act, bool) or not 0 <= found <= HIGHEST:
        raise OryxError(
            f"act must be sampled, greedy or a temperature from 0 (greedy) to {HIGHEST:g}, such as "
            f"0.25 (1 is sampled); got {act!r}"
        )
    return found


def name_of(act: str | float) -> str:
    """Its name in tables and documents: `sampled`, `greedy`, or the temperature as a number."""
    found = temperature_of(act)
    for name, temperature in TEMPERATURES.items():
        if found == temperature:
            return name
    return f"{found:g}" if float(f"{found:g}") == found else repr(found)


def by_name(acts: str | float | Iterable[str | float]) -> dict[str, float]:
    """Temperatures of one or several ways of acting by name, in their order, each once."""
    given = [acts] if isinstance(acts, str | int | float) else list(acts)
    if not given:
        raise OryxError("name at least one way of acting: sampled, greedy or a temperature")
    return {name_of(act): temperature_of(act) for act in given}


def from_greedy(greedy: bool) -> Act:
    """What the argument `greedy` of before `act` meant, with a hint."""
    new = GREEDY if greedy else SAMPLED
    hint = f'greedy={greedy} is called act="{new}" now; the old name goes with the next release'
    warnings.warn(hint, OryxWarning, stacklevel=3)
    return new
