"""Wide tables: one row per step, with columns of each agent's own; Parquet, CSV or JSON Lines.

Columns are named by patterns such as `{agent}_action` or `obs_{agent}`, in which `{agent}` stands
for the name of each agent; a pattern without it names what all agents share. An agent whose
observation and action are empty in a row is absent in that step.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from oryx_marl.data.dataset import Dataset
from oryx_marl.data.sources._columns import (
    USUAL,
    ColumnOptions,
    Columns,
    listed,
    matches,
    names_told,
    require_columns,
    to_flag,
)
from oryx_marl.data.sources._frame import FILE_ROW
from oryx_marl.data.sources._long import LongTable, read_long
from oryx_marl.data.sources._mask_columns import in_order
from oryx_marl.data.sources._table_file import TableFile, open_table
from oryx_marl.data.sources.base import natural, require
from oryx_marl.errors import OryxError

AGENT = "{agent}"
SHARED = ("episode", "step")
"""What no agent has of its own."""
EITHER = ("reward", "terminal", "truncated", "state")
"""What may be shared by all agents where nothing is told."""
USUAL_PATTERNS = ("{agent}_%s", "%s_{agent}", "{agent}.%s", "%s.{agent}")
"""Where the name of an agent stands in that of a column; with a point in nested JSON."""


@dataclass(frozen=True)
class Options(ColumnOptions):
    """Of tables in which each agent has columns of its own, `{agent}_action` or `obs_{agent}`."""


def recognises(path: Path) -> bool:
    """Never: the name of a file does not say so, and columns such as obs_0 mean either."""
    return False


def read(path: Path, name: str, options: Options) -> Iterator[Dataset]:
    """The episodes, in parts of a few MiB."""
    file = open_table(path)
    agents = _find_agents(file.names, options)
    layouts = _find_layouts(file.names, agents, options)
    columns = _long_columns(layouts)
    renamed = {agent: _long_names(layout, columns) for agent, layout in layouts.items()}
    masks = _find_masks(file.names, agents, options)
    if len(masks) > 1 and _has_words(file, layouts):
        columns["action_mask"] = in_order(list(masks))
        for agent, names in renamed.items():
            gone = layouts[agent]["action_mask"]
            own = {masks[mask][agent]: mask for mask in masks if agent in masks[mask]}
            renamed[agent] = {old: new for old, new in names.items() if old not in gone} | own

    def batches() -> Iterator[Any]:
        first_row = 1
        for batch in file.batches(list(layouts.values())):
            yield _to_long(batch, layouts, renamed, first_row)
            first_row += batch.num_rows

    yield from read_long(LongTable(columns, batches, options.sort), name, options)


def _find_agents(columns: Sequence[str], options: Options) -> tuple[str, ...]:
    """Those told, or those whose columns fit the pattern of the actions."""
    if options.agents:
        return options.agents
    patterns = [name for name in options.action if AGENT in name]
    if not patterns:
        raise OryxError(
            "say who the agents are: --agents red blue, or --action '{agent}_action' if columns "
            f"tell; the columns are: {listed(columns)}"
        )
    before, after = (re.escape(part) for part in patterns[0].split(AGENT, 1))
    found = (re.fullmatch(f"{before}(.+){after}", column) for column in columns)
    agents = {match[1] for match in found if match is not None}
    if not agents:
        raise OryxError(f"no column fits {patterns[0]}; the columns are: {listed(columns)}")
    return tuple(sorted(agents, key=natural))


def _find_layouts(
    columns: Sequence[str], agents: tuple[str, ...], options: Options
) -> dict[str, Columns]:
    """The columns of each meaning, for each agent."""
    layouts: dict[str, Columns] = {agent: {} for agent in agents}
    for meaning in USUAL:
        if meaning == "agent":
            continue
        told = names_told(options, meaning)
        patterns = told or _usual_patterns(columns, meaning, agents)
        for pattern in told:
            if not any(_fit(pattern, columns, meaning, agent, agents) for agent in agents):
                raise OryxError(
                    f"no column fits {pattern} for the {meaning}; the agents are "
                    f"{', '.join(agents[:20])}, the columns: {listed(columns)}"
                )
        for agent in agents:
            fits = [_fit(pattern, columns, meaning, agent, agents) for pattern in patterns]
            if found := tuple(name for names in fits for name in names):
                layouts[agent][meaning] = found
            elif patterns:
                raise OryxError(
                    f"agent {agent} has no column for the {meaning} "
                    f"({' or '.join(pattern.replace(AGENT, agent) for pattern in patterns)}), but "
                    "others have"
                )
    for layout in layouts.values():
        require_columns(layout, columns, is_wide=True)
    _require_own(layouts)
    return layouts


def _usual_patterns(
    columns: Sequence[str], meaning: str, agents: tuple[str, ...]
) -> tuple[str, ...]:
    """The pattern of a meaning that some agent's columns fit, where nothing is told."""
    own = [place % name for name in USUAL[meaning] for place in USUAL_PATTERNS]
    patterns = [] if meaning in SHARED else own
    if meaning in (*SHARED, *EITHER):
        patterns += USUAL[meaning]
    fitting = [
        pattern
        for pattern in patterns
        if any(_fit(pattern, columns, meaning, agent, agents) for agent in agents)
    ]
    if len(fitting) > 1:
        raise OryxError(
            f"the columns {' and '.join(fitting)} could both be the {meaning}; "
            f"say which: {to_flag(meaning)} '{fitting[0]}'"
        )
    return tuple(fitting)


def _fit(
    pattern: str, columns: Sequence[str], meaning: str, agent: str, agents: tuple[str, ...]
) -> tuple[str, ...]:
    """The columns that a pattern names for an agent; those of red_2 are none of red's."""
    name = pattern.replace(AGENT, agent)
    others = [pattern.replace(AGENT, other) for other in agents if other != agent]
    usual = [name for other, names in USUAL.items() if other != meaning for name in names]
    others += [(place % name).replace(AGENT, agent) for name in usual for place in USUAL_PATTERNS]
    return matches(name, columns, meaning, others)


def _require_own(layouts: dict[str, Columns]) -> None:
    """Raises if two agents act by the same column, or the shared columns are several."""
    acted = [layout["action"] for layout in layouts.values()]
    if len(acted) > 1 and len(set(acted)) < len(acted):
        raise OryxError(
            f"the agents share the action in {', '.join(acted[0])}; name a column for each with "
            "{agent}, such as --action '{agent}_action'"
        )
    for meaning in SHARED:
        names = {layout[meaning] for layout in layouts.values()}
        if len(names) > 1:
            raise OryxError(f"the {meaning} is one column for all agents, without {AGENT}")


def _long_columns(layouts: dict[str, Columns]) -> Columns:
    """The columns of the long table: as many of each meaning as the agent with most has."""
    meanings = dict.fromkeys(meaning for layout in layouts.values() for meaning in layout)
    columns: Columns = {"agent": ("agent",)}
    for meaning in meanings:
        most = max(len(layout.get(meaning, ())) for layout in layouts.values())
        several = tuple(f"{meaning}_{place}" for place in range(most))
        columns[meaning] = (meaning,) if most == 1 else several
    return columns


def _long_names(layout: Columns, columns: Columns) -> dict[str, str]:
    """What an agent's columns are called in the long table."""
    pairs = (zip(layout[meaning], columns[meaning], strict=False) for meaning in layout)
    return {name: new for each in pairs for name, new in each}


def _find_masks(
    columns: Sequence[str], agents: tuple[str, ...], options: Options
) -> dict[str, dict[str, str]]:
    """The columns of the action masks: by what they are called with {agent}, and by agent."""
    meaning = "action_mask"
    masks: dict[str, dict[str, str]] = {}
    for pattern in options.action_mask or _usual_patterns(columns, meaning, agents):
        for agent in agents:
            begin = len(pattern.replace(AGENT, agent))
            for name in _fit(pattern, columns, meaning, agent, agents):
                masks.setdefault(f"{pattern}{name[begin:]}", {})[agent] = name
    return masks


def _has_words(file: TableFile, layouts: dict[str, Columns]) -> bool:
    """Whether actions are words: a column has the same type from start to end."""
    pa = require("pyarrow")
    first = next(file.batches(list(layouts.values())), None)
    acted = [layout["action"] for layout in layouts.values()]
    kinds = [first[names[0]].type for names in acted if first is not None and len(names) == 1]
    return any(pa.types.is_string(kind) or pa.types.is_dictionary(kind) for kind in kinds)


def _to_long(
    table: Any, layouts: dict[str, Columns], renamed: dict[str, dict[str, str]], first_row: int
) -> Any:
    """A row for each agent that is there, those of a step one after another."""
    pa = require("pyarrow")
    rows = table.num_rows
    tables, is_there = [], []
    for agent, layout in layouts.items():
        found = {"agent": pa.repeat(pa.scalar(agent), rows)}
        found |= {new: table[name] for name, new in renamed[agent].items()}
        found[FILE_ROW] = pa.array(np.arange(first_row, first_row + rows))
        tables.append(pa.table(found))
        own = [name for meaning in ("observation", "action") for name in layout[meaning]]
        is_there.append(np.any([np.asarray(table[name].is_valid()) for name in own], axis=0))
    whole = pa.concat_tables(tables, promote_options="permissive")
    order = np.arange(rows * len(tables)).reshape(len(tables), rows).T.reshape(-1)
    return whole.take(order[np.stack(is_there, axis=1).reshape(-1)])
