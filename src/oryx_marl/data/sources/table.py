"""Long tables in Parquet or CSV: one row per episode, step and agent, read as a stream.

The rows of an episode stand together, in any order. A last step without actions is what was seen
after the end. Each part holds whole episodes; the table is read twice, first for its facts.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from oryx_marl.data.dataset import Dataset
from oryx_marl.data.sources._columns import read_texts, resolve
from oryx_marl.data.sources._csv import BLOCK_BYTES, read_csv, read_header
from oryx_marl.data.sources._frame import Columns, make_frame
from oryx_marl.data.sources._rows import GivenSchema, InferredSchema, build
from oryx_marl.data.sources._to_table import METADATA, to_tables
from oryx_marl.data.sources.base import Options, require
from oryx_marl.errors import OryxError
from oryx_marl.types import ActionSpace, Spec

PARQUET = (".parquet", ".pq")
CSV = (".csv", ".tsv", ".csv.gz", ".tsv.gz")


def recognises(path: Path) -> bool:
    """Whether the name says so."""
    return path.is_file() and path.name.lower().endswith((*PARQUET, *CSV))


def read(path: Path, name: str, options: Options) -> Iterator[Dataset]:
    """The episodes, in parts of a few MiB."""
    table = _Table(path, options)
    if table.metadata is None:
        told = infer_schema(table, options)
    else:
        about = table.metadata
        has = (bool(about["has_final_observations"]), bool(about["has_present"]))
        told = GivenSchema(Spec.from_dict(about["spec"]), (), *has, dict(about["origin"]))
    for first_row, chunk in table.chunks():
        frame = make_frame(chunk, table.columns, first_row, options.action_kind)
        yield replace(build(frame, told), name=name, origin=told.origin)


def write(parts: Iterable[Dataset], path: Path) -> None:
    """A Parquet file, from which `read` makes the same dataset again."""
    parquet = require("pyarrow.parquet")
    writer, episode = None, 0
    try:
        for part in parts:
            for table in to_tables(part, episode):
                writer = writer or parquet.ParquetWriter(path, table.schema, compression="zstd")
                writer.write_table(table)
            episode += part.num_episodes
    finally:
        if writer is not None:
            writer.close()
    if writer is None:
        raise OryxError("there is nothing to write: no part was given")


class _Table:
    """A table on disk."""

    def __init__(self, path: Path, options: Options) -> None:
        self._path, self._options = path, options
        self._is_parquet = path.name.lower().endswith(PARQUET)
        self.metadata: dict[str, Any] | None = None
        if self._is_parquet:
            schema = self._open_parquet().schema_arrow
            names = schema.names
            if METADATA in (schema.metadata or {}):
                self.metadata = json.loads(schema.metadata[METADATA])
        else:
            names = read_header(path)
        if twice := [name for name, count in Counter(names).items() if count > 1]:
            raise OryxError(f"the column {twice[0]} is there twice")
        self.columns: Columns = resolve(names, options)

    def chunks(self) -> Iterator[tuple[int, Any]]:
        """(number of its first row, rows) of whole episodes, a few MiB at a time."""
        pa = require("pyarrow")
        column = self.columns["episode"][0]
        seen: set[str] = set()
        held: list[Any] = []
        current, first_row = None, 1
        for batch in self._batches():
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

    def _batches(self) -> Iterator[Any]:
        """The table in the order of its rows, or sorted by episode if asked to."""
        if self._is_parquet:
            batches = self._parquet_batches()
        else:
            batches = read_csv(self._path, self.columns)
        if not self._options.sort:
            yield from batches
            return
        table = require("pyarrow").concat_tables(list(batches))
        codes = read_texts(table[self.columns["episode"][0]]).dictionary_encode().indices
        yield table.take(np.argsort(np.asarray(codes.fill_null(-1)), kind="stable"))

    def _open_parquet(self) -> Any:
        return require("pyarrow.parquet").ParquetFile(
            self._path, buffer_size=2**20, pre_buffer=False
        )

    def _parquet_batches(self) -> Iterator[Any]:
        pa = require("pyarrow")
        wanted = [name for found in self.columns.values() for name in found]
        with self._open_parquet() as file:
            groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
            size = sum(group.total_byte_size for group in groups) / max(file.metadata.num_rows, 1)
            rows = int(min(max(BLOCK_BYTES / max(size, 1), 64), 65_536))
            for batch in file.iter_batches(rows, columns=wanted, use_threads=False):
                yield _with_plain_texts(pa.Table.from_batches([batch]))


def _with_plain_texts(table: Any) -> Any:
    """Texts of all Arrow's types as the one type that is known elsewhere."""
    pa = require("pyarrow")
    for index, column in enumerate(table.schema):
        kinds = (pa.types.is_large_string, pa.types.is_string_view, pa.types.is_binary)
        if any(is_kind(column.type) for is_kind in kinds):
            texts = table[column.name].cast(pa.string())
            table = table.set_column(index, column.name, texts)
    return table


def infer_schema(table: _Table, options: Options) -> GivenSchema:
    """What a table says that does not tell by itself."""
    facts = InferredSchema()
    for first_row, chunk in table.chunks():
        facts.add(make_frame(chunk, table.columns, first_row, options.action_kind))
    spec, words = _derive(facts, options)
    origin: dict[str, Any] = {
        "columns": {key: list(found)[:50] for key, found in table.columns.items()}
    }
    if words:
        origin["action_names"] = list(words)
    has_agent_mask = "agent_mask" in table.columns or facts.fewest_agents < spec.num_agents
    return GivenSchema(spec, words, facts.every_episode_has_final, has_agent_mask, origin)


def _derive(facts: InferredSchema, options: Options) -> tuple[Spec, tuple[str, ...]]:
    """The Spec that the facts of a table make, and the words for its actions."""
    agents = options.agents or tuple(sorted(facts.widths, key=_natural))
    if unknown := sorted(set(agents) ^ set(facts.widths)):
        raise OryxError(
            f"the agents {', '.join(unknown)} are in the table or in --agents, but not in both"
        )
    words: tuple[str, ...] = ()
    if facts.words:
        words = options.action_names or tuple(sorted(facts.words))
        if 0 < facts.action_mask_size < len(words):
            raise OryxError(
                f"there are {len(words)} actions ({', '.join(words[:20])}), but only "
                f"{facts.action_mask_size} entries in each list of legal ones"
            )
        action = ActionSpace("discrete", facts.action_mask_size or len(words))
    else:
        action = facts.action.space(options.action_kind, facts.action_mask_size)
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


def _natural(name: str) -> list[tuple[int, int, str]]:
    """So that agent_10 comes after agent_9."""
    pieces = re.findall(r"\d+|\D+", name)
    return [(0, int(piece), "") if piece.isdecimal() else (1, 0, piece) for piece in pieces]
