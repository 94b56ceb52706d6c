"""The Spec of logs that carry none: what their arrays say, in one pass, applied in a second.

Logs of any length are handled part by part. Arrays of a part are flat over its steps, `[R, ...]`,
by the names of a Dataset.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Int

from oryx_marl.data.dataset import Dataset
from oryx_marl.errors import OryxError
from oryx_marl.types import ActionSpace, Spec

Arrays = dict[str, np.ndarray]
ActionKind = Literal["auto", "discrete", "box"]
FLAGS = ("terminals", "truncations", "agent_mask")
MOST_ACTIONS = 100_000
"""More than this is rather a column that holds something else."""


@dataclass(frozen=True)
class ToldActions:
    """What the user says of the actions; what is left out is inferred."""

    kind: ActionKind = "auto"
    low: tuple[float, ...] = ()
    """Lower bounds of a box: one for all dimensions, or one each."""
    high: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        for side in ("low", "high"):
            if not np.isfinite(getattr(self, side)).all():
                raise OryxError(f"action_{side} must be finite, got {list(getattr(self, side))}")
        if self.has_bounds and self.kind == "discrete":
            raise OryxError(
                "bounds (action_low, action_high) are of continuous actions, but action_kind is "
                "discrete; leave one of them out"
            )

    @property
    def has_bounds(self) -> bool:
        return bool(self.low or self.high)

    @property
    def known_kind(self) -> ActionKind:
        """Box if there are bounds: only continuous actions have some."""
        return "box" if self.has_bounds else self.kind

    def apply(self, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Bounds, those that were told in the place of inferred ones."""
        found = {"low": low, "high": high}
        for side, inferred in found.items():
            told = getattr(self, side)
            if told and len(told) not in (1, len(inferred)):
                raise OryxError(
                    f"action_{side} has {len(told)} numbers, but actions have {len(inferred)} "
                    "dimensions; give one for all, or one each"
                )
            found[side] = np.broadcast_to(told, inferred.shape) if told else inferred
        if self.has_bounds and not (found["low"] < found["high"]).all():
            place = int(np.argmin(found["low"] < found["high"]))
            raise OryxError(
                f"in dimension {place} the lower bound {found['low'][place]:g} is not below the "
                f"upper one, {found['high'][place]:g}; tell both (action_low, action_high)"
            )
        return found["low"], found["high"]


NOTHING_TOLD = ToldActions()


class Derivation:
    """What the parts of a log say together: `add` them all, then `finish` each."""

    def __init__(self, name: str, origin: dict[str, Any], told: ToldActions = NOTHING_TOLD) -> None:
        self._name, self._origin, self._told = name, origin, told
        self._is_padding: np.ndarray | None = None  # [N, O]
        self._facts = ActionFacts()
        self._action_mask_size = 0
        self._state_size = 0
        self._shared_reward = True
        self._shapes: dict[str, tuple[int, ...]] = {}

    def add(self, raw: Arrays) -> None:
        """Learns from a part."""
        arrays = _tidy(raw)
        self._require_same_shapes(arrays)
        observations, rewards = arrays["observations"], arrays["rewards"]
        # OG-MARL fills agents that see less with -inf.
        is_padding = np.isneginf(observations).all(axis=0) if observations.dtype.kind == "f" else 0
        is_padding = np.broadcast_to(is_padding, observations.shape[1:])
        before = self._is_padding
        self._is_padding = is_padding if before is None else before & is_padding
        self._facts.add(arrays["actions"])
        agent_mask = arrays.get("agent_mask", np.ones(rewards.shape, bool))
        lowest = np.where(agent_mask, rewards, np.inf).min(axis=1, keepdims=True)
        self._shared_reward &= bool(((rewards == lowest) | ~agent_mask).all())
        if "action_mask" in arrays:
            self._action_mask_size = arrays["action_mask"].shape[-1]
        if "state" in arrays:
            self._state_size = arrays["state"].shape[-1]

    @property
    def spec(self) -> Spec:
        """What all parts so far have in common."""
        if self._is_padding is None:
            raise OryxError(f"'{self._name}' is empty: it has no logged step")
        return Spec(
            environment="",
            agents=tuple(f"agent_{index}" for index in range(len(self._is_padding))),
            observation_sizes=tuple(_width(is_padding) for is_padding in self._is_padding),
            action=self._facts.space(self._told, self._action_mask_size),
            state_size=self._state_size,
            shared_reward=self._shared_reward,
        )

    def finish(self, raw: Arrays, episode_starts: Int[np.ndarray, "E"]) -> Dataset:
        """The dataset of a part that was added before."""
        spec, arrays = self.spec, _tidy(raw)
        for name in ("observations", "final_observations"):
            if name in arrays:
                arrays[name] = self._without_padding(arrays[name], spec.observation_size)
        if spec.action.kind == "box":
            arrays.pop("action_mask", None)  # masks of box actions mean nothing
            if arrays["actions"].ndim == 2:
                arrays["actions"] = arrays["actions"][..., None]
            if arrays["actions"].dtype.kind in "iu":
                arrays["actions"] = arrays["actions"].astype(np.float32)
        else:
            arrays["actions"] = to_ids(arrays["actions"])
        values: dict[str, Any] = {**arrays, "name": self._name, "origin": self._origin}
        return Dataset(spec=spec, episode_starts=episode_starts, **values)

    def _without_padding(self, values: np.ndarray, width: int) -> np.ndarray:
        assert self._is_padding is not None
        if not self._is_padding.any():
            return values
        return np.where(self._is_padding, 0, values)[..., :width].astype(values.dtype)

    def _require_same_shapes(self, arrays: Arrays) -> None:
        """Raises unless a part looks like those before."""
        shapes = {name: array.shape[1:] for name, array in arrays.items()}
        if self._shapes and shapes != self._shapes:
            raise OryxError(f"parts of '{self._name}' differ: {shapes} against {self._shapes}")
        self._shapes = shapes


class ActionFacts:
    """What was seen of the logged actions."""

    def __init__(self) -> None:
        self._low: np.ndarray | None = None
        self._high: np.ndarray | None = None
        self._is_whole = True
        self._is_integer = True
        self._shape: tuple[int, ...] = ()

    def add(self, actions: np.ndarray) -> None:
        """Learns from actions [R, N] or [R, N, A]; those that are not finite tell nothing."""
        if actions.size == 0:
            return
        self._shape, self._is_integer = actions.shape[2:], actions.dtype.kind in "iu"
        axes = tuple(range(2)) if actions.ndim == 3 else None
        if self._is_integer:
            low, high = actions.min(axis=axes), actions.max(axis=axes)
        else:
            is_finite = np.isfinite(actions)
            low = np.min(actions, axis=axes, where=is_finite, initial=np.inf)
            high = np.max(actions, axis=axes, where=is_finite, initial=-np.inf)
            self._is_whole &= bool((np.floor(actions) == actions).all())
        self._low = low if self._low is None else np.minimum(self._low, low)
        self._high = high if self._high is None else np.maximum(self._high, high)

    def space(self, told: ToldActions, action_mask_size: int) -> ActionSpace:
        """The action space of all actions seen, with what was told of it."""
        if self._low is None or self._high is None:
            raise OryxError("there is no logged action")
        is_vector, kind = len(self._shape) == 1, told.known_kind
        if kind == "auto":
            kind = "box" if is_vector or not (self._is_integer or self._is_whole) else "discrete"
        if kind == "discrete":
            if is_vector or not (self._is_integer or self._is_whole):
                raise OryxError("actions are not whole numbers, so they cannot be discrete")
            # With masks, a larger id is a fault of the log, which the check of the data names.
            size = action_mask_size or max(int(self._high) + 1, 1)
            if size > MOST_ACTIONS:
                raise OryxError(
                    f"the largest action is {size - 1:,}; action ids count from 0, at most to "
                    f"{MOST_ACTIONS - 1:,}. Number them from 0, or say that action_kind is box"
                )
            return ActionSpace("discrete", size)
        if is_vector and self._is_integer and told.known_kind != "box":
            raise OryxError(
                f"actions have {self._shape[0]} whole numbers each: several discrete actions per "
                "agent and step are not supported. If they are continuous, say so: --action-kind "
                "box, action_kind in Python"
            )
        seen = np.atleast_1d(self._low), np.atleast_1d(self._high)
        low, high = told.apply(*_infer_bounds(*seen))
        return ActionSpace("box", len(low), tuple(map(float, low)), tuple(map(float, high)))


def _infer_bounds(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bounds are nowhere written: the usual -1 and 1 where they hold all that was logged in a
    dimension, else its lowest and highest value; one that never changes gets room of 1 around."""
    is_usual = (low >= -1) & (high <= 1)
    room = np.where(low == high, 1.0, 0.0)
    return np.where(is_usual, -1.0, low - room), np.where(is_usual, 1.0, high + room)


def to_ids(actions: np.ndarray) -> np.ndarray:
    """Action ids as integers; those logged as floats become int32."""
    if actions.dtype.kind in "iu":
        return actions
    return np.where(np.isfinite(actions), actions, -1).astype(np.int32)


class EpisodeBorders:
    """Where episodes begin, from the flags of all rows, which may come in pieces.

    At row 0, and at each row after one at which the last agent of an episode has ended. An agent
    that ends early does not end the episode, whether its flag is then set once or in all rows that
    follow: the episode goes on until every agent's flag was set at least once since it began. So
    agents that come back to life within an episode cannot be told from two episodes.
    """

    def __init__(self) -> None:
        self._starts = [np.zeros(1, np.int64)]
        self._seen: np.ndarray | None = None
        self._num_rows = 0

    def add(self, ended: Bool[np.ndarray, "R N"]) -> None:
        """Takes in the next rows."""
        seen = np.zeros(ended.shape[1], bool) if self._seen is None else self._seen
        starts = []
        for row in np.flatnonzero(ended.any(axis=1)):
            seen |= ended[row]
            if seen.all():
                starts.append(self._num_rows + int(row) + 1)
                seen[:] = False
        self._starts.append(np.array(starts, np.int64))
        self._seen, self._num_rows = seen, self._num_rows + len(ended)

    def starts(self) -> Int[np.ndarray, "E"]:
        """The first row of each episode."""
        starts = np.concatenate(self._starts)
        return starts[starts < self._num_rows]


def derive_episode_starts(ended: Bool[np.ndarray, "R N"]) -> Int[np.ndarray, "E"]:
    """The first row of each episode, as EpisodeBorders finds it."""
    borders = EpisodeBorders()
    borders.add(ended)
    return borders.starts()


def per_agent(values: np.ndarray, step: tuple[int, ...]) -> np.ndarray:
    """[R, N] out of [R], [R, 1], [R, N] or [R, N, 1]; one value for all is given to each."""
    while values.ndim > 2 and values.shape[-1] == 1:
        values = values[..., 0]
    if values.ndim == 1:
        values = values[:, None]
    if values.shape not in (step, (step[0], 1)):
        raise OryxError(f"there is an array of shape {values.shape} where {step} is needed")
    return np.broadcast_to(values, step).copy()


def _tidy(raw: Arrays) -> Arrays:
    """The arrays of a part with a Dataset's axes and types; `truncations` are there afterwards."""
    for name, array in raw.items():
        if array.dtype.kind not in "biuf":
            raise OryxError(f"{name} has type {array.dtype}; only plain numbers can be used")
    observations = raw["observations"]
    if observations.ndim < 3:
        raise OryxError(
            f"observations have shape {observations.shape}, not that of steps, agents, features"
        )
    step = observations.shape[:2]
    arrays = {name: array for name, array in raw.items() if name not in ("action_mask", "state")}
    for name in ("observations", "final_observations"):
        if name in arrays:
            values = arrays[name].reshape(*arrays[name].shape[:2], -1)
            arrays[name] = values.astype(np.int8) if values.dtype.kind == "b" else values
    arrays["actions"] = _tidy_actions(raw, step)
    rewards = per_agent(raw["rewards"], step)
    arrays["rewards"] = rewards.astype(np.float32) if rewards.dtype.kind == "b" else rewards
    for name in FLAGS:
        if name in raw:
            arrays[name] = per_agent(raw[name] != 0, step)
    arrays.setdefault("truncations", np.zeros(step, bool))
    if "action_mask" in raw:
        action_mask = raw["action_mask"] != 0
        if action_mask.ndim != 3 or action_mask.shape[:2] != step:
            raise OryxError(
                f"action masks have shape {action_mask.shape}, not {(*step, 'actions')}"
            )
        arrays["action_mask"] = action_mask
    if "state" in raw and raw["state"].ndim > 1:  # one per agent: side by side
        state = raw["state"].reshape(len(raw["state"]), -1)
        arrays["state"] = state.astype(np.int8) if state.dtype.kind == "b" else state
    return arrays


def _tidy_actions(raw: Arrays, step: tuple[int, ...]) -> np.ndarray:
    """[R, N] ids, or [R, N, A] where they are vectors."""
    actions = raw["actions"]
    if actions.dtype.kind == "b":
        actions = actions.astype(np.int8)
    if actions.shape[:2] != step or actions.ndim > 3:
        raise OryxError(f"actions have shape {actions.shape}, but observations begin with {step}")
    if actions.ndim == 3 and actions.shape[-1] == 1:
        has_choice = "action_mask" in raw and raw["action_mask"].shape[-1] > 1
        if actions.dtype.kind in "iu" or has_choice:  # ids with an axis of their own, as in RWARE
            return actions[..., 0]
    return actions


def _width(is_padding: np.ndarray) -> int:
    """Entries of an observation before its padding."""
    used = np.flatnonzero(~is_padding)
    return int(used[-1]) + 1 if used.size else 0
