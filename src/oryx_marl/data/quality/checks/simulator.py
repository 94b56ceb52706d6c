"""The log against the simulator of its environment that is installed: the error of one step.

Logs outlive simulators. Where the log holds all of the physics, each logged step is made again by
the installed one; if it ends elsewhere, scores there say little about what was logged.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from oryx_marl.data.hub.archives import archives
from oryx_marl.data.quality.issues import Place, Places
from oryx_marl.data.view import Chunk, View, episode_lengths
from oryx_marl.envs import Predictor, find_predictor
from oryx_marl.errors import OryxError

MOST_STEPS = 2000
"""Logged steps that are made again, evenly spread over the log."""
LEAST_STEPS = 10
SAME = 1e-4
"""Error of the worst twentieth of steps up to which it is rounding. Recordings of ours have 2e-7 to
2e-5 (float32), ones with 1% more gravity 1e-3 to 3e-3 (results/mamujoco_physics.json)."""
CLOSE = 0.01
"""Up to which it is small beside what a step changes."""
ROOM = 1e-6
"""By which rounded actions may leave their box."""


class Simulator:
    """Steps of the whole log, made again at its end."""

    def __init__(self, view: View, environment: str | None = None) -> None:
        """`environment`: the name of the one to compare with, if not that of the data."""
        self.places = Places()
        self._every = -(-view.num_rows // MOST_STEPS)
        self._lengths = episode_lengths(view)
        self._steps: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        self._farthest, self._num_outside = 0.0, 0
        self._predictor: Predictor | None = None
        self._fault: str | None = None
        try:
            self._predictor = _find_predictor(view, environment)
        except (OryxError, TypeError, ValueError) as error:  # settings of a file may be anything
            if environment is not None:
                raise
            self._fault = str(error)
        if self._predictor is not None:
            self._fault = self._predictor.find_fault(view.spec)

    def see(self, chunk: Chunk) -> None:
        predictor = self._predictor
        if predictor is None or self._fault is not None:
            return
        data = chunk.data
        low, high = np.array(predictor.spec.action.low), np.array(predictor.spec.action.high)
        beyond = np.maximum(low - data.actions, data.actions - high).max(axis=(1, 2))
        self._farthest = max(self._farthest, float(np.nan_to_num(beyond).max(initial=0.0)))
        self._num_outside += int((beyond > ROOM).sum())
        numbers = chunk.first_row + np.arange(data.num_rows)
        wanted = (numbers % self._every == 0) & ~chunk.is_last
        wanted[-1] = False  # what follows is in the next chunk
        rows = np.flatnonzero(wanted)
        if len(rows):
            now, after = (self._read(data, places) for places in (rows, rows + 1))
            self._steps.append((now, data.actions[rows], after))

    def end(self) -> None:
        predictor = self._predictor
        if self._fault is not None:
            what = f"its steps cannot be made again: {self._fault}"
            self.places.add("simulator not compared", Place(what))
        if predictor is None:
            return
        self._tell_lengths(predictor.episode_limit)
        if self._fault is None:
            self._tell_actions(predictor)
            self._compare(predictor)

    def _read(self, data: Any, rows: np.ndarray) -> Float[np.ndarray, "R P"]:
        assert self._predictor is not None
        state = None if data.state is None else data.state[rows]
        with np.errstate(all="ignore"):  # numbers that are not finite are left out later
            return self._predictor.read(data.observations[rows], state)

    def _compare(self, predictor: Predictor) -> None:
        now, actions, after = (
            (np.concatenate(arrays) for arrays in zip(*self._steps, strict=True))
            if self._steps
            else (np.zeros((0, 1)), np.zeros(0), np.zeros((0, 1)))
        )
        usable = predictor.find_usable(now) & np.isfinite(after).all(axis=1)
        usable &= np.isfinite(actions.reshape(len(actions), -1)).all(axis=1)
        if usable.sum() < LEAST_STEPS:
            what = f"only {usable.sum()} of its steps tell all of the physics"
            self.places.add("simulator not compared", Place(what))
            return
        now, actions, after = now[usable], actions[usable], after[usable]
        errors = find_errors(now, predictor.step(now, actions), after)
        middle, worst = np.quantile(errors, (0.5, 0.95))
        told = (
            f"made again by {predictor.simulator} as {predictor.name}, {len(errors):,} steps end "
            f"{middle:.1e} from the logged ones in the median ({worst:.1e} in the worst "
            "twentieth) of what a step usually changes"
        )
        if worst <= SAME:
            self.places.add("simulator agrees", Place(f"{told}, which is rounding"))
        elif worst <= CLOSE:
            self.places.add("simulator differs", Place(f"{told}: little, but it adds up"))
        else:
            self.places.add("simulator differs", Place(f"{told}: this is another physics"))

    def _tell_lengths(self, limit: int | None) -> None:
        """A row more than there can be steps holds what was seen at last."""
        count = 0 if limit is None else int((self._lengths == limit + 1).sum())
        if limit is not None and count and self._lengths.max() == limit + 1:
            what = f"{count:,} episodes have {limit + 1:,} rows, but {limit:,} steps are the limit"
            self.places.add("row after the last step", Place(what), count)

    def _tell_actions(self, predictor: Predictor) -> None:
        if self._num_outside:
            what = (
                f"by up to {self._farthest:.3g}; {predictor.name} has its box from "
                f"{min(predictor.spec.action.low):g} to {max(predictor.spec.action.high):g}"
            )
            place = Place(what, column="actions")
            self.places.add("action beyond the simulator's box", place, self._num_outside)


def find_errors(
    now: Float[np.ndarray, "R P"],
    predicted: Float[np.ndarray, "R P"],
    after: Float[np.ndarray, "R P"],
) -> Float[np.ndarray, " R"]:
    """How far each prediction is off, in units of what a step changes in each number (RMS)."""
    change = np.sqrt(np.mean((after - now) ** 2, axis=0))
    # What never changes is compared as it is.
    scale = np.where(change > 0, change, 1.0)
    with np.errstate(over="ignore"):
        off = np.nan_to_num((predicted - after) / scale, nan=np.inf)
        return np.sqrt(np.mean(off**2, axis=1))


def _find_predictor(view: View, environment: str | None) -> Predictor | None:
    """That of a name, of the environment of the data, or of a published dataset of that name."""
    spec = view.spec
    config: Mapping[str, Any] = spec.environment_config
    family = spec.environment
    name = environment
    if name is None and not family:
        archive = archives().get(view.name.split("/")[0])
        name = archive.environment if archive is not None else None
    if name:
        from oryx_marl.envs import base  # imports JAX, which other checks do without

        family, config = base.find(name)
    found = find_predictor(family, config) if family and spec.action.kind == "box" else None
    if found is None and environment is not None:
        raise OryxError(f"{environment} cannot be continued from the steps of '{view.name}'")
    return found


make = Simulator
