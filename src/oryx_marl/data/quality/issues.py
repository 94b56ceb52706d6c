"""The vocabulary of `oryx data check`: kinds of issue, how bad each is, and what to do about it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool

from oryx_marl.data.quality.screen import REMEDIES
from oryx_marl.data.view import Chunk, View

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
MOST_PLACES = 3
"""Places that are named of each kind; all are counted."""


class Kind(NamedTuple):
    """What is known about an issue before it is found."""

    severity: Severity
    """error: training on it goes wrong; warning: often a mistake; note: good to know."""
    remedy: str
    is_mended: bool = False
    """Whether `--fix` repairs it."""


KINDS: dict[str, Kind] = {
    **{kind: Kind("error", remedy, kind != "illegal action") for kind, remedy in REMEDIES.items()},
    "non-finite state": Kind("error", "repair or drop the step where the log is made"),
    "non-finite final observation": Kind("error", "repair it where the log is made"),
    "infinite padding": Kind("error", "fill it with zeros; --fix does", True),
    "padding not empty": Kind(
        "warning", "is the Spec's observation size right? --fix empties", True
    ),
    "action outside its bounds": Kind(
        "warning",
        "it is learned as if it were at the bound: import again with wider --action-low and "
        "--action-high, or clip it",
    ),
    "first action never taken": Kind("warning", "do ids begin at 1? they must begin at 0"),
    "agent has one action": Kind("note", "nothing about its choices can be learned from this log"),
    "constant action": Kind(
        "warning",
        "nothing can be learned about it, and the policy becomes a spike there: was it meant to "
        "vary? else leave this dimension out of the log",
    ),
    "episode without an end": Kind(
        "warning", "was the log cut? --fix marks the last step as a truncation", True
    ),
    "steps after the end": Kind(
        "error", "every agent has ended, but the episode goes on: start a new one, or drop padding"
    ),
    "agent acts after its end": Kind("warning", "mark it as absent there, or move its end"),
    "terminal and truncated": Kind(
        "warning", "a step is one or the other; --fix keeps terminal", True
    ),
    "no flag is set": Kind(
        "warning", "were terminals and truncations lost? ends are then known by episodes alone"
    ),
    "no terminal": Kind("note", "right for a task without end, otherwise terminals were lost"),
    "terminals at one length": Kind(
        "warning", "time-outs are truncations; right only if the limit is part of the task"
    ),
    "terminals at the limit": Kind(
        "warning", "time-outs are truncations; right only if the limit is part of the task"
    ),
    "longer than the limit": Kind(
        "warning", "compare the limit in the Spec; are two episodes glued?"
    ),
    "episode of one step": Kind("note", "nothing follows its step; was the episode cut?"),
    "time goes backwards": Kind(
        "warning", "sort the log by time; right only if this clock wraps round"
    ),
    "time stands still": Kind("warning", "was a step logged twice?"),
    "time jumps": Kind("warning", "are steps missing here?"),
    "row occurs twice in a row": Kind(
        "warning", "was a step logged twice? right if the task changes unseen, by itself"
    ),
    "episode occurs twice": Kind("warning", "was a file read twice? it counts double"),
    "few different episodes": Kind("note", "right in a deterministic task with few starts"),
    "constant feature": Kind("note", "it carries nothing; was it meant to vary?"),
    "duplicated feature": Kind("note", "two columns are always equal; one would do"),
    "agents see the same": Kind(
        "note", "right for shared observations; otherwise a copy in the log"
    ),
    "blank observation": Kind("note", "all zeros: mark the agent as absent there if it was"),
    "agent never there": Kind("warning", "leave it out of the Spec, or find its part of the log"),
    "agent missing from an episode": Kind("warning", "find its part of the log, if there is one"),
    "nobody there": Kind("warning", "drop the step"),
    "reward of an absent agent": Kind(
        "warning", "it is not learned from; give it to the last step"
    ),
    "no reward": Kind("warning", "there is nothing to learn from but imitation"),
    "reward far out": Kind("warning", "a slip in the log? clip or repair it"),
    "reward scale": Kind("warning", "scale rewards to about 1, or choose temperatures to match"),
    "rewards differ": Kind(
        "warning", "the Spec says that reward is shared; --fix says it is not", True
    ),
    "simulator differs": Kind(
        "warning",
        "scores in it say little about policies of this log: score them where it was recorded, or "
        "record anew",
    ),
    "simulator agrees": Kind("note", "scores in it mean what they say for policies of this log"),
    "simulator not compared": Kind(
        "note", "whether scores in it mean anything for this log is not known"
    ),
    "row after the last step": Kind(
        "note",
        "the last row holds what was seen at last, no step: a terminal there is the time limit's",
    ),
    "action beyond the simulator's box": Kind("note", "the simulator clips what is beyond"),
}
"""All kinds of issue."""


@dataclass(frozen=True)
class Finding:
    """One place where the log is wrong, or looks so; None where all of them are meant."""

    kind: str
    severity: Severity
    episode: int | None
    step: int | None
    agent: str | None
    column: str | None
    what: str
    """What stands there."""
    remedy: str
    count: int
    """How many places of this kind there are."""
    share: float | None = None
    """Of all steps, agent-steps or episodes, where these are counted."""

    @property
    def times(self) -> str:
        """How often the kind was found, in words."""
        if self.count == 1:
            return "once"
        share = "" if self.share is None else f" ({max(self.share, 0.0001):.2%} of all)"
        return f"{self.count:,} times{share}"

    def __str__(self) -> str:
        named = {name: getattr(self, name) for name in ("episode", "step", "agent", "column")}
        place = ", ".join(f"{name} {value}" for name, value in named.items() if value is not None)
        return f"{place}: {self.what}" if place else self.what


class Place(NamedTuple):
    """Where, and what stands there."""

    what: str
    episode: int | None = None
    step: int | None = None
    agent: str | None = None
    column: str | None = None


class Places:
    """The first places of each kind, and how many there are."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.totals: dict[str, int] = {}
        """Steps, agent-steps or episodes among which the places of a kind were counted."""
        self._places: dict[str, list[Place]] = {}

    def add(self, kind: str, place: Place, count: int = 1) -> None:
        """One place, which stands for `count`."""
        self.counts[kind] = self.counts.get(kind, 0) + count
        places = self._places.setdefault(kind, [])
        if len(places) < MOST_PLACES:
            places.append(place)

    def add_mask(
        self,
        kind: str,
        chunk: Chunk,
        mask: Bool[np.ndarray, "R"] | Bool[np.ndarray, "R N"],
        tell: Callable[[int, int], tuple[str | None, str]],
        agent: str | None = None,
    ) -> None:
        """The rows, or agent-steps, of a mask.

        `tell(row, agent)` names the column and what is there; `agent` is whose the rows are.
        """
        self.totals[kind] = self.totals.get(kind, 0) + mask.size
        count = int(np.count_nonzero(mask))
        if not count:
            return
        listed = np.flatnonzero(mask)[: MOST_PLACES - len(self._places.get(kind, []))]
        for index in listed:
            row, *agents = (int(part) for part in np.unravel_index(index, mask.shape))
            name = chunk.data.spec.agents[agents[0]] if agents else agent
            column, what = tell(row, agents[0] if agents else 0)
            self.add(kind, Place(what, *chunk.locate(row), name, column))
        self.counts[kind] += count - len(listed)

    def forget(self, kind: str) -> None:
        """Drops a kind that turned out to be none."""
        self.counts.pop(kind, None)
        self._places.pop(kind, None)

    def findings(self) -> Iterator[Finding]:
        """All of them."""
        for kind, places in self._places.items():
            severity, remedy, _ = KINDS[kind]
            count, total = self.counts[kind], self.totals.get(kind, 0)
            share = count / total if total else None
            for place in places:
                known = place._asdict()
                yield Finding(kind, severity, remedy=remedy, count=count, share=share, **known)


@runtime_checkable
class Check(Protocol):
    """Looks for some kinds of issue; one per file in `checks/`, made by its `make(view)`."""

    places: Places

    def see(self, chunk: Chunk) -> None:
        """Takes in the next rows."""

    def end(self) -> None:
        """Adds what can be told only once all rows were seen."""


Make = Callable[[View], Check]
