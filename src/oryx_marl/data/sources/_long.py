"""Tables with one row per episode, step and agent become Datasets, as a stream.

The rows of an episode stand together, in any order. Each part holds whole episodes; the table is
read twice, first to infer its schema.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from oryx_marl.data.dataset import Dataset
from oryx_marl.data.sources._columns import ColumnOptions, Columns, read_texts
from oryx_marl.data.sources._frame import ALONE, make_frame
from oryx_marl.data.sources._mask_columns import match_words
from oryx_marl.data.sources._rows import GivenSchema, InferredSchema, build
from oryx_marl.data.sources.base import natural, require
from oryx_marl.errors import OryxError
from oryx_marl.types import ActionSpace, Spec


@dataclass(frozen=True)
class LongTable:
    """A table with one row per episode, step and agent."""

    columns: Columns
    batches: Callable[[], Iterator[Any]]
    """Arrow tables of a few MiB, in the order of the rows."""
    sort: bool = False
    """The rows of an episode do not stand together."""

    def chunks(self) -> Iterator[tuple[int, Any]]:
        """(number of its first row, rows) of whole episodes, a few MiB at a time."""
        pa = require("pyarrow")
        column = self.columns["episode"][0]
        seen: set[str] = set()
        held: list[Any] = []
        current, first_row = None, 1
        for batch in self._in_order():
            names = read_texts(batch[column])
            if names.null_count:
                raise OryxError(f"column {column} has an empty cell; every row needs an episode")
            codes = np.asarray(names.dictionary_encode().indices)
            begins = [0, *(np.flatnonzero(np.diff(codes)) + 1)] if len(codes) else []
            begins = begins[1:] if begins and names[0].as_py() == current else begins
            for place in begins:
                current = names[place].as_py()
                if current in seen:
                    raise OryxError(
                        f"the rows of episode {current} do not stand together; sort the table by "
                        f"{column}, or import it with --sort"
                    )
                seen.add(current)
            if begins:  # what stands before the last beginning is whole
                whole = pa.concat_tables([*held, batch.slice(0, begins[-1])])
                held, batch = [], batch.slice(begins[-1])
                if whole.num_rows:
                    yield first_row, whole
                first_row += whole.num_rows
                del whole
            held.append(batch)
        if current is None:
            raise OryxError("it has no row")
        yield first_row, pa.concat_tables(held)

    def _in_order(self) -> Iterator[Any]:
        """The table in the order of its rows, or sorted by episode if asked to."""
        if not self.sort:
            yield from self.batches()
            return
        table = require("pyarrow").concat_tables(list(self.batches()))
        codes = read_texts(table[self.columns["episode"][0]]).dictionary_encode().indices
        yield table.take(np.argsort(np.asarray(codes.fill_null(-1)), kind="stable"))


def read_long(
    table: LongTable, name: str, options: ColumnOptions, metadata: dict[str, Any] | None = None
) -> Iterator[Dataset]:
    """The episodes, in parts of a few MiB; `metadata` is what our own export says of a table."""
    if metadata is None:
        table, told = _infer_schema(table, options)
    else:
        has = (bool(metadata["has_final_observations"]), bool(metadata["has_present"]))
        told = GivenSchema(Spec.from_dict(metadata["spec"]), (), *has, dict(metadata["origin"]))
    for first_row, chunk in table.chunks():
        frame = make_frame(chunk, table.columns, first_row, options.actions.known_kind)
        yield replace(build(frame, told), name=name, origin=told.origin)


def _infer_schema(table: LongTable, options: ColumnOptions) -> tuple[LongTable, GivenSchema]:
    """What a table says that does not tell by itself; the columns of its mask by their ids."""
    facts = InferredSchema()
    for first_row, chunk in table.chunks():
        facts.add(make_frame(chunk, table.columns, first_row, options.actions.known_kind))
    if "agent" not in table.columns:
        facts.widths = {_name_alone(options): facts.widths[ALONE]}
    mask = table.columns.get("action_mask", ())
    if facts.words and len(mask) > 1:
        is_order_told = len(options.action_mask) == len(mask)
        mask, words = match_words(mask, facts.words, options.action_names, is_order_told)
        table = replace(table, columns={**table.columns, "action_mask": mask})
        options = replace(options, action_names=words)
    spec, words = _derive(facts, options)
    origin: dict[str, Any] = {
        "columns": {key: list(found)[:50] for key, found in table.columns.items()}
    }
    if words:
        origin["action_names"] = list(words)
    has_mask = "agent_mask" in table.columns or facts.fewest_agents < spec.num_agents
    told = GivenSchema(spec, words, facts.every_episode_has_final, has_mask, origin)
    return table, told


def _name_alone(options: ColumnOptions) -> str:
    """What the one agent of a table without a column of agents is called."""
    if len(options.agents) > 1:
        raise OryxError(
            f"--agents names {len(options.agents)} agents, but no column says whose a row is: "
            "--agent COLUMN, or --kind wide if each agent has columns of its own"
        )
    return options.agents[0] if options.agents else ALONE


def _derive(facts: InferredSchema, options: ColumnOptions) -> tuple[Spec, tuple[str, ...]]:
    """The Spec that the facts of a table make, and the words for its actions."""
    agents = options.agents or tuple(sorted(facts.widths, key=natural))
    if unknown := sorted(set(agents) ^ set(facts.widths)):
        raise OryxError(
            f"the agents {', '.join(unknown)} are in the table or in --agents, but not in both"
        )
    words: tuple[str, ...] = ()
    if facts.words:
        if options.actions.known_kind == "box":
            raise OryxError(
                f"the actions are words ({', '.join(sorted(facts.words)[:5])}), so they have no "
                "bounds and are of no box; leave out action_kind, action_low and action_high"
            )
        words = options.action_names or tuple(sorted(facts.words))
        if 0 < facts.action_mask_size < len(words):
            raise OryxError(
                f"there are {len(words)} actions ({', '.join(words[:20])}), but only "
                f"{facts.action_mask_size} entries in each action mask"
            )
        action = ActionSpace("discrete", facts.action_mask_size or len(words))
    else:
        action = facts.action.space(options.actions, facts.action_mask_size)
    sizes = tuple(facts.widths[agent] for agent in agents)
    if max(sizes) == 0:
        raise OryxError("no agent ever sees anything: all observations are empty")
    spec = Spec(
        environment="",
        agents=agents,
        observation_sizes=sizes,
        action=action,
        state_size=facts.state_size,
        shared_reward=facts.shared_reward,
    )
    return spec, words
