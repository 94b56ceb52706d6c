"""Frames of a long table become Datasets: first what they say together, then their arrays."""

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from oryx_marl.data._derive import ActionFacts, to_ids
from oryx_marl.data.dataset import Dataset
from oryx_marl.data.sources._frame import ALONE, Frame
from oryx_marl.data.sources.base import require
from oryx_marl.errors import OryxError
from oryx_marl.types import Spec

MOST_AGENTS = 10_000
MOST_WORDS = 10_000
SPARSEST = 64
"""One in so many agents is there on average, or memory would be filled with absent ones."""


@dataclass
class InferredSchema:
    """What all frames of a table say together."""

    widths: dict[str, int] = field(default_factory=dict)
    """Features that each agent sees."""
    action: ActionFacts = field(default_factory=ActionFacts)
    words: set[str] = field(default_factory=set)
    action_mask_size: int = 0
    state_size: int = 0
    shared_reward: bool = True
    every_episode_has_final: bool = True
    fewest_agents: int = np.iinfo(np.int64).max
    """In any step."""

    def add(self, frame: Frame) -> None:
        """Learns from a frame."""
        seen = frame.cells["observation"]
        names = frame.agent.dictionary_encode()
        used = np.where(seen.valid, np.arange(1, seen.valid.shape[1] + 1), 0).max(axis=1, initial=0)
        widest = np.zeros(len(names.dictionary), np.int64)
        np.maximum.at(widest, np.asarray(names.indices), used)
        for agent, width in zip(names.dictionary.to_pylist(), widest.tolist(), strict=True):
            self.widths[agent] = max(self.widths.get(agent, 0), width)
        if len(self.widths) > MOST_AGENTS:
            raise OryxError(
                f"there are more than {MOST_AGENTS:,} agents; is this the column of the agents?"
            )
        self._add_actions(frame)
        for name, size in (("action_mask", "action_mask_size"), ("state", "state_size")):
            if name in frame.cells:
                here = frame.cells[name].values.shape[1]
                setattr(self, size, max(getattr(self, size), here))
        self.shared_reward &= _has_shared_rewards(frame)
        self.every_episode_has_final &= bool(frame.has_final.all())
        count = np.bincount(frame.row[~frame.is_final])
        self.fewest_agents = min(self.fewest_agents, int(count[count > 0].min()))

    def _add_actions(self, frame: Frame) -> None:
        if frame.words is not None:
            self.words.update(frame.words.unique().to_pylist())
            self.words.discard(None)
            if len(self.words) > MOST_WORDS:
                raise OryxError(
                    f"the actions are more than {MOST_WORDS:,} different words; is this the column "
                    "of the actions?"
                )
            return
        cells = frame.cells["action"]
        here = ~frame.is_final & cells.valid.reshape(len(cells.valid), -1).all(axis=1)
        self.action.add(cells.values[here][:, None])


class GivenSchema(NamedTuple):
    """What must be known of a table before its first dataset can be built."""

    spec: Spec
    words: tuple[str, ...]
    """The actions, where they are words."""
    has_final: bool
    """Every episode tells what was seen after its end."""
    has_agent_mask: bool
    """Agents come and go."""
    origin: dict[str, Any]


def _has_shared_rewards(frame: Frame) -> bool:
    """Whether all agents of a step always get the same."""
    here = ~frame.is_final
    if "agent_mask" in frame.cells:
        here &= frame.cells["agent_mask"].values
    rewards, rows = frame.cells["reward"].values[here], frame.row[here]
    some = np.zeros(frame.num_steps, rewards.dtype)
    some[rows] = rewards
    return bool((some[rows] == rewards).all())


def build(frame: Frame, told: GivenSchema) -> Dataset:
    """The arrays of a frame."""
    compute, pa = require("pyarrow.compute"), require("pyarrow")
    spec = told.spec
    names = pa.array(spec.agents if frame.has_agents else (ALONE,), pa.string())
    places = compute.index_in(frame.agent, names)
    if places.null_count:
        odd = int(np.flatnonzero(np.asarray(places.is_null()))[0])
        raise OryxError(f"{frame.place(odd)} has an agent that is none of {', '.join(spec.agents)}")
    agent = np.asarray(places)
    # Steps without an action are no rows of a dataset.
    is_step = np.ones(frame.num_steps, bool)
    is_step[frame.row[frame.is_final]] = False
    number = np.cumsum(is_step) - 1
    here = ~frame.is_final
    at = (number[frame.row[here]], agent[here])
    step = (int(is_step.sum()), spec.num_agents)
    if step[0] * step[1] > SPARSEST * len(agent) + 2**16:
        raise OryxError(
            f"there are {spec.num_agents:,} agents, but hardly any of them in a step; is this the "
            "column of the agents, and is that of the steps right?"
        )

    features = _features(frame, agent, spec)
    observations = np.zeros((*step, spec.observation_size), features.dtype)
    observations[at] = features[here]
    arrays = {"observations": observations}
    if told.has_final:
        final = np.zeros((len(frame.starts), *observations.shape[1:]), features.dtype)
        episode = np.searchsorted(frame.starts, frame.row[frame.is_final], side="right") - 1
        final[episode, agent[frame.is_final]] = features[frame.is_final]
        arrays["final_observations"] = final
    arrays["actions"] = _place(step, at, _actions(frame, spec, told.words)[here])
    arrays["rewards"] = _place(step, at, frame.cells["reward"].values[here])
    logged = _place(step, at, np.ones(int(here.sum()), bool))
    starts = number[frame.starts]
    ends = np.append(starts[1:], step[0]) - 1
    arrays |= _ends(frame, at, logged, ends)
    if told.has_agent_mask:
        agent_mask = frame.cells.get("agent_mask")
        arrays["agent_mask"] = (
            logged if agent_mask is None else _place(step, at, agent_mask.values[here])
        )
    elif not logged.all():
        raise OryxError("it says that all agents are always there, but some rows are missing")
    if "action_mask" in frame.cells:
        action_mask = np.zeros((len(agent), spec.action.size), bool)
        found = frame.cells["action_mask"].values[:, : spec.action.size]
        action_mask[:, : found.shape[1]] = found
        arrays["action_mask"] = _place(step, at, action_mask[here])
    if spec.state_size:
        arrays["state"] = _state(frame, number, step[0], spec.state_size)
    values: dict[str, Any] = dict(arrays)
    return Dataset(spec=spec, episode_starts=starts, **values)


def _place(step: tuple[int, int], at: tuple[np.ndarray, ...], values: np.ndarray) -> np.ndarray:
    """[R, N, ...] with values where a row of the table has them, else 0."""
    array = np.zeros((*step, *values.shape[1:]), values.dtype)
    array[at] = values
    return array


def _features(frame: Frame, agent: np.ndarray, spec: Spec) -> np.ndarray:
    """[n, O]: what each row's agent saw, filled up with 0 where others see more."""
    seen, width = frame.cells["observation"], spec.observation_size
    if seen.values.shape[1] > width:
        if seen.valid[:, width:].any():
            odd = int(np.flatnonzero(seen.valid[:, width:].any(axis=1))[0])
            raise OryxError(f"{frame.place(odd)} sees more than {width} features")
        seen = replace(seen, values=seen.values[:, :width], valid=seen.valid[:, :width])
    missing = width - seen.values.shape[1]
    values = np.pad(seen.values, ((0, 0), (0, missing)))
    valid = np.pad(seen.valid, ((0, 0), (0, missing)))
    own = np.arange(width) < np.array(spec.observation_sizes)[agent][:, None]
    lacking = own & ~valid
    absent = (
        ~frame.cells["agent_mask"].values
        if "agent_mask" in frame.cells
        else np.zeros(len(agent), bool)
    )
    lacking[absent] = False
    if lacking.any():
        odd = int(np.flatnonzero(lacking.any(axis=1))[0])
        if seen.is_list:
            raise OryxError(
                f"{frame.place(odd)} has {int(valid[odd].sum())} features, but elsewhere this "
                f"agent has {int(own[odd].sum())}"
            )
        if values.dtype.kind != "f":
            raise OryxError(f"{frame.place(odd)} has an empty cell among whole numbers")
        values[lacking] = np.nan
    values[~own] = 0
    return values


def _actions(frame: Frame, spec: Spec, words: tuple[str, ...]) -> np.ndarray:
    """[n] ids, or [n, A]."""
    if frame.words is not None:
        compute, pa = require("pyarrow.compute"), require("pyarrow")
        ids = compute.index_in(frame.words, pa.array(words, pa.string()))
        unknown = np.asarray(compute.and_(compute.is_valid(frame.words), compute.is_null(ids)))
        if unknown.any():
            odd = int(np.flatnonzero(unknown)[0])
            raise OryxError(
                f"{frame.place(odd)} has the action '{frame.words[odd].as_py()}', which is none of "
                f"{', '.join(words[:20])}"
            )
        return np.asarray(compute.fill_null(ids, 0)).astype(np.int32)
    values = frame.cells["action"].values
    if spec.action.kind == "discrete":
        return to_ids(values.reshape(len(values)))
    values = values.reshape(len(values), -1)
    if values.shape[1] != spec.action.size:
        raise OryxError(f"there are actions of {values.shape[1]} numbers, not {spec.action.size}")
    return values.astype(np.float32) if values.dtype.kind in "iu" else values


def _ends(
    frame: Frame, at: tuple[np.ndarray, ...], logged: np.ndarray, ends: np.ndarray
) -> dict[str, np.ndarray]:
    """Terminals and truncations; who is not there at the end of an episode ends as the others."""
    here, step = ~frame.is_final, logged.shape

    def flags(meaning: str) -> np.ndarray:
        if meaning not in frame.cells:
            return np.zeros(step, bool)
        found = _place((step[0], step[1]), at, frame.cells[meaning].values[here])
        found[ends] |= ~logged[ends] & (found | ~logged)[ends].all(axis=1, keepdims=True)
        return found

    terminals, truncations = flags("terminal"), flags("truncated")
    if "truncated" not in frame.cells:  # where no end was logged, the recording ended
        truncations[ends] = ~terminals[ends]
    return {"terminals": terminals, "truncations": truncations}


def _state(frame: Frame, number: np.ndarray, rows: int, size: int) -> np.ndarray:
    """[R, S]: that of the first row of a step that has one."""
    cells = frame.cells["state"]
    has_state = cells.valid.all(axis=1) & ~frame.is_final & (cells.values.shape[1] == size)
    state = np.zeros((rows, size), cells.values.dtype)
    known = np.zeros(rows, bool)
    with_state = np.flatnonzero(has_state)[::-1]  # so that the first row is written last
    places = number[frame.row[with_state]]
    state[places], known[places] = cells.values[with_state], True
    if not known.all():
        step = int(np.flatnonzero(~known)[0])
        odd = int(np.flatnonzero((number[frame.row] == step) & ~frame.is_final)[0])
        raise OryxError(
            f"{frame.place(odd)} has no state of {size} numbers, nor have its neighbours"
        )
    return state
