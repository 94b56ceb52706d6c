"""A Dataset as a long table: one row per episode, step and agent."""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from oryx_marl.data.dataset import Dataset
from oryx_marl.data.sources.base import require
from oryx_marl.data.subsample import in_parts

METADATA = b"oryx_marl"
"""Key under which the table carries its Spec."""
SEAL = b"oryx_marl_seal"
"""Key of the file under which it carries its checksums, which are known only at its end."""
SCALARS = {
    "reward": "rewards",
    "terminal": "terminals",
    "truncated": "truncations",
    "present": "agent_mask",
}
"""Columns with one value per agent and step, and our names for them."""


def to_tables(part: Dataset, episode: int) -> Iterator[Any]:
    """The rows of a part, portion by portion; its episodes are numbered from `episode` on."""
    for portion in in_parts(part, max(1, 65_536 // part.spec.num_agents)):
        yield _to_table(portion, episode)
        episode += portion.num_episodes


class _Rows:
    """Where episodes stand in the table: a row per step and agent, then what was seen last."""

    def __init__(self, part: Dataset) -> None:
        self.agents = part.spec.num_agents
        lengths = part.episode_lengths
        places = lengths + (part.final_observations is not None)
        starts = np.append(0, np.cumsum(places)[:-1])
        self.episode = np.repeat(np.arange(part.num_episodes), places)
        self.step = np.arange(places.sum()) - np.repeat(starts, places)
        self.is_step = self.step < np.repeat(lengths, places)
        self.lacking = np.repeat(~self.is_step, self.agents)
        """[rows] which rows only tell what was seen after the end."""

    def spread(self, values: np.ndarray) -> np.ndarray:
        """[R, ...] with 0 after the end of each episode."""
        wide = np.zeros((len(self.step), *values.shape[1:]), values.dtype)
        wide[self.is_step] = values
        return wide

    def lists(self, values: np.ndarray, lacking: np.ndarray | None = None) -> Any:
        """A column of lists out of [R, N, W]."""
        flat = self.spread(values).reshape(-1, values.shape[-1])
        lacking = self.lacking if lacking is None else lacking
        return _to_lists(flat, np.where(lacking, 0, values.shape[-1]), lacking)


def _to_table(part: Dataset, episode: int) -> Any:
    """All rows, agents of a step one after another."""
    pa = require("pyarrow")
    spec, rows = part.spec, _Rows(part)
    seen = rows.spread(part.observations)
    if part.final_observations is not None:
        seen[~rows.is_step] = part.final_observations
    places = len(rows.step)
    names = np.array(spec.agents, object)
    columns = {
        "episode": pa.array(np.repeat(rows.episode + episode, rows.agents)),
        "step": pa.array(np.repeat(rows.step, rows.agents).astype(np.int32)),
        "agent": pa.array(np.tile(names, places), pa.string()),
        "obs": _to_lists(
            seen.reshape(-1, seen.shape[2]), np.tile(spec.observation_sizes, places), None
        ),
    }
    if spec.action.kind == "box":
        columns["action"] = rows.lists(part.actions)
    else:
        columns["action"] = pa.array(rows.spread(part.actions).reshape(-1), mask=rows.lacking)
    for column, name in SCALARS.items():
        if name in part.arrays():
            values = rows.spread(part.arrays()[name]).reshape(-1)
            columns[column] = pa.array(values, mask=rows.lacking)
    if part.action_mask is not None:
        columns["legal"] = rows.lists(part.action_mask)
    if part.state is not None:  # once per step, in the row of the first agent
        others = np.arange(len(rows.lacking)) % rows.agents != 0
        state = np.repeat(part.state[:, None], rows.agents, axis=1)
        columns["state"] = rows.lists(state, rows.lacking | others)
    about = json.dumps(describe(part)).encode()
    return pa.table(columns).replace_schema_metadata({METADATA: about})


def describe(part: Dataset) -> dict[str, Any]:
    """What the table tells about itself."""
    return {
        "spec": part.spec.to_dict(),
        "origin": part.origin,
        "has_final_observations": part.final_observations is not None,
        "has_present": part.agent_mask is not None,
        "sealed": True,
    }


def _to_lists(values: np.ndarray, widths: np.ndarray, lacking: np.ndarray | None) -> Any:
    """A column of lists: the first entries of each row, or no list at all."""
    pa = require("pyarrow")
    kept = values[np.arange(values.shape[1]) < widths[:, None]]
    offsets = np.append(0, np.cumsum(widths)).astype(np.int32)
    mask = None if lacking is None else pa.array(lacking)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(kept), mask=mask)
