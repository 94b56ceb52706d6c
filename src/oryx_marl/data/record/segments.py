"""Steps of many environments side by side become whole episodes, kept on disk as they come.

    <folder>/<update>.npz     a segment: the episodes that ended since the segment before it, and
                              the steps so far of those that go on

A segment holds all that is needed to go on after it, so a recording that was killed is continued
exactly. What cannot be trusted is never returned.
"""

import contextlib
import json
import os
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from oryx_marl import files, locks, reading, renamed
from oryx_marl.data.dataset import Dataset
from oryx_marl.errors import OryxError
from oryx_marl.limits import LimitError
from oryx_marl.types import Spec

NEEDED = ("observations", "actions", "rewards", "terminals", "truncations", "final_observations")
OPTIONAL = ("action_mask", "agent_mask", "state")
SUFFIX = ".npz"
PARTIAL = ".partial"
PROGRESS = "progress"
EPISODES, TAILS = "episodes/", "tails/"
"""What the names of arrays in a segment begin with: whole episodes, or steps of unfinished ones."""
ADVICE = "Nothing that was recorded before is lost: make space, then resume"

Arrays = dict[str, np.ndarray]


class _Progress(NamedTuple):
    """What a segment says about the recording up to its update."""

    update: int = 0
    previous: int = 0
    """Update of the segment before, 0 where there is none."""
    num_environments: int = 0
    num_rows: int = 0
    num_episodes: int = 0
    total_return: float = 0.0
    names: tuple[str, ...] = ()
    """The arrays of the segment, so that none is lost unnoticed."""


class _State(NamedTuple):
    """What recording goes on from."""

    progress: _Progress
    tails: Arrays
    """[R, ...] steps of unfinished episodes, and the environment of each; by environment, time."""


class Recorder:
    """Whole episodes out of single steps, in a folder; goes on where the folder ends."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._state: _State | None = None  # read once it is needed

    @property
    def num_rows(self) -> int:
        """Steps of all episodes that have ended."""
        return self._continue().progress.num_rows

    @property
    def num_episodes(self) -> int:
        """Episodes that have ended."""
        return self._continue().progress.num_episodes

    @property
    def total_return(self) -> float:
        """Sum of their returns, each the mean over agents."""
        return self._continue().progress.total_return

    def append(self, update: int, steps: Mapping[str, np.ndarray]) -> None:
        """Records what B environments did since the last append, as one segment.

        `steps` maps names of a Dataset's arrays to [B, T, ...]; `final_observations` [B, T, N, O]
        are what was seen after each step. An episode ends where every agent is terminal or
        truncated; the next step of its environment begins another.
        """
        before, tails = self._continue()
        if update <= before.update:
            raise OryxError(
                f"update {update} cannot be recorded: {self._folder} has the recording up to "
                f"update {before.update}; rewind it first, or go on after that"
            )
        _require_steps(steps)
        if before.update == 0:
            tails = _empty_tails(steps)
        _require_same(steps, tails, before.num_environments or len(steps["rewards"]))
        episodes, tails = cut_episodes(tails, steps)
        arrays = _add_prefix(EPISODES, episodes) | _add_prefix(TAILS, tails)
        returns = episodes["rewards"].mean(axis=1, dtype=np.float64)
        progress = _Progress(
            update=update,
            previous=before.update,
            num_environments=len(steps["rewards"]),
            num_rows=before.num_rows + len(returns),
            num_episodes=before.num_episodes + len(episodes["episode_starts"]),
            total_return=before.total_return + float(returns.sum()),
            names=tuple(arrays),
        )
        with self._lock():
            newest = max(self._updates(), default=0)
            if newest != before.update:
                raise OryxError(
                    f"update {update} cannot be recorded: another process has brought "
                    f"{self._folder} to update {newest}, after {before.update} here; only one may "
                    "record there"
                )
            _write_segment(self._path(update), progress, arrays)
        self._state = _State(progress, tails)

    def drop_unfinished(self) -> None:
        """Forgets the steps of episodes that have not ended: they will not be continued.

        It holds from the next append on; until then the folder is as it was.
        """
        progress, tails = self._continue()
        self._state = _State(progress, {name: array[:0] for name, array in tails.items()})

    def rewind(self, update: int) -> None:
        """Forgets what came after an update, as if it had not been recorded; 0 forgets all."""
        with self._lock():
            self._rewind(update)

    def _lock(self) -> contextlib.AbstractContextManager[None]:
        return locks.hold(self._folder / ".lock", f"the recording {self._folder}", ADVICE)

    def _rewind(self, update: int) -> None:
        updates = self._updates()
        if update and update not in updates:
            raise OryxError(
                f"{self._folder} has no segment of update {update}, so the recording cannot go on "
                "from there; delete this folder and begin again"
            )
        state = _read_state(self._path(update)) if update else _State(_Progress(), {})
        later = [self._path(other) for other in updates if other > update]
        try:
            for path in reversed(later):  # so that no gap is left if this is interrupted
                path.unlink()
            for path in self._folder.glob(f"*{SUFFIX}{PARTIAL}"):
                path.unlink()
            if later:
                files.sync(self._folder)
        except OSError as error:
            raise OryxError(
                f"the recording in {self._folder} could not be taken back to update {update}: "
                f"{error}. May you write there?"
            ) from error
        self._state = state

    def parts(self, spec: Spec, name: str, origin: dict[str, Any]) -> Iterator[Dataset]:
        """The episodes of each segment that has some; one segment is read at a time."""
        before = 0
        for update in self._updates():
            progress, episodes = _read_segment(self._path(update), EPISODES)
            if progress.previous != before:
                raise _damaged(
                    self._path(update),
                    f"it continues update {progress.previous}, but what is there before it ends "
                    f"at update {before}",
                )
            before = update
            if len(episodes["episode_starts"]):
                part = Dataset(spec=spec, name=name, origin=origin, **episodes)
                del episodes  # neither is held while the next segment is read
                yield part
                del part

    def lengths(self) -> list[np.ndarray]:
        """Steps of every episode, for each of the `parts`; only these are read."""
        found = [_read_lengths(self._path(update)) for update in self._updates()]
        return [lengths for lengths in found if len(lengths)]

    def _continue(self) -> _State:
        """The state after the last append."""
        if self._state is None:
            updates = self._updates()
            empty = _State(_Progress(), {})
            self._state = _read_state(self._path(updates[-1])) if updates else empty
        return self._state

    def _updates(self) -> list[int]:
        """The updates that have a segment, in order."""
        stems = (path.stem for path in self._folder.glob(f"*{SUFFIX}"))
        return sorted(int(stem) for stem in stems if stem.isdecimal())

    def _path(self, update: int) -> Path:
        return self._folder / f"{update}{SUFFIX}"


def cut_episodes(tails: Arrays, steps: Mapping[str, np.ndarray]) -> tuple[Arrays, Arrays]:
    """The arrays of the episodes that ended, and the tails of those that go on after `steps`.

    Rows are ordered by environment, then time: of each environment the tail, then its new steps.
    """
    ended = (steps["terminals"] | steps["truncations"]).all(axis=-1)  # [B, T]
    B, T = ended.shape
    last_end = np.where(ended, np.arange(T), -1).max(axis=1, initial=-1)  # [B]
    environments = np.concatenate([tails["environments"], np.repeat(np.arange(B), T)])
    is_new_done = np.arange(T) <= last_end[:, None]  # [B, T]
    is_done = np.concatenate([last_end[tails["environments"]] >= 0, is_new_done.reshape(-1)])
    is_end = np.concatenate([np.zeros(len(tails["environments"]), bool), ended.reshape(-1)])

    order = np.argsort(environments, kind="stable")
    done, open_ = order[is_done[order]], order[~is_done[order]]
    episodes, rest = {}, {"environments": environments[open_]}
    for name in [name for name in tails if name != "environments"]:
        rows = np.concatenate([tails[name], steps[name].reshape(B * T, *steps[name].shape[2:])])
        episodes[name], rest[name] = rows[done], rows[open_]
    ends = np.flatnonzero(is_end[done])
    episodes["episode_starts"] = np.append(0, ends + 1)[:-1]
    episodes["final_observations"] = steps["final_observations"][ended]
    return episodes, rest


def _empty_tails(steps: Mapping[str, np.ndarray]) -> Arrays:
    """Tails before the first step."""
    names = [name for name in (*NEEDED, *OPTIONAL) if name in steps]
    names.remove("final_observations")
    tails = {name: np.empty((0, *steps[name].shape[2:]), steps[name].dtype) for name in names}
    return {"environments": np.empty(0, np.int64), **tails}


def _require_steps(steps: Mapping[str, np.ndarray]) -> None:
    """Raises unless the arrays have the names, axes and types of steps."""
    missing = [name for name in NEEDED if name not in steps]
    unknown = [name for name in steps if name not in (*NEEDED, *OPTIONAL)]
    if missing or unknown:
        raise OryxError(
            f"steps cannot be recorded: missing are {missing}, unknown are {unknown}; "
            f"known are {[*NEEDED, *OPTIONAL]}"
        )
    rewards, observations = steps["rewards"], steps["observations"]
    axes = dict.fromkeys(steps, rewards.shape[:2])
    axes |= dict.fromkeys(("terminals", "truncations"), rewards.shape)
    axes["final_observations"] = observations.shape
    kinds = {"terminals": "b", "truncations": "b", "final_observations": observations.dtype.kind}
    for name, array in steps.items():
        if array.ndim < 3 or array.shape[: len(axes[name])] != axes[name]:
            raise OryxError(
                f"steps cannot be recorded: {name} has shape {array.shape}, but the other arrays "
                f"say {axes[name]}: environments, time, then the axes of one step"
            )
        if array.dtype.kind not in kinds.get(name, "biuf"):
            raise OryxError(
                f"steps cannot be recorded: {name} has type {array.dtype.name}; terminals and "
                "truncations must be bool, others plain numbers"
            )


def _require_same(steps: Mapping[str, np.ndarray], tails: Arrays, num_environments: int) -> None:
    """Raises unless steps look like those that were recorded before."""
    now = {name: (array.shape[2:], array.dtype.name) for name, array in steps.items()}
    before = {name: (array.shape[1:], array.dtype.name) for name, array in tails.items()}
    now["environments"] = before["environments"]
    before["final_observations"] = before["observations"]
    differing = [name for name in sorted({*now, *before}) if now.get(name) != before.get(name)]
    if differing:
        name = differing[0]
        raise OryxError(
            f"steps cannot be recorded: {name} of one step must be {before.get(name)} in shape "
            f"and type, as before, but are {now.get(name)}"
        )
    if len(steps["rewards"]) != num_environments:
        raise OryxError(
            f"steps of {len(steps['rewards'])} environments cannot be recorded: so far there were "
            f"{num_environments}; go on with as many, or begin a new recording"
        )


def _add_prefix(prefix: str, arrays: Arrays) -> Arrays:
    return {prefix + name: array for name, array in arrays.items()}


def _write_segment(path: Path, progress: _Progress, arrays: Arrays) -> None:
    """Puts a segment on the disk, whole or not at all."""
    partial = path.with_name(path.name + PARTIAL)
    contents: dict[str, Any] = {PROGRESS: np.array(json.dumps(progress._asdict())), **arrays}
    try:
        files.make_folder(path.parent)
        with partial.open("wb") as file:
            np.savez(file, **contents)
            file.flush()
            os.fsync(file.fileno())
        files.put_in_place(partial, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise OryxError(
            f"the steps up to update {progress.update} could not be written to {path}: {error}. "
            f"{ADVICE}"
        ) from error


def _read_state(path: Path) -> _State:
    """What recording goes on from after a segment."""
    return _State(*_read_segment(path, TAILS))


def _read_lengths(path: Path) -> np.ndarray:
    """Steps of a segment's episodes; whether the rest of it can be trusted is not looked at."""
    with _damage_told(path), reading.open_npz(path) as segment:
        return np.diff(
            segment[f"{EPISODES}episode_starts"], append=segment[f"{EPISODES}rewards"].shape[0]
        )


def _read_segment(path: Path, prefix: str) -> tuple[_Progress, Arrays]:
    """What a segment says, and its arrays of a prefix, after all of it was checked."""
    with _damage_told(path):
        with zipfile.ZipFile(path) as archive:
            reading.npz_entries(archive, path)  # refuses what unpacks to far more than is there
            altered = archive.testzip()  # reads everything and compares checksums
        if altered is not None:
            raise ValueError(f"{altered} was altered")
        with reading.open_npz(path) as segment:
            about = reading.parse_json(str(segment[PROGRESS]))
            progress = _Progress(**{**about, "names": tuple(about["names"])})
            if sorted(segment) != sorted([PROGRESS, *progress.names]):
                raise ValueError("it has other arrays than it should")
            if path.name != f"{progress.update}{SUFFIX}":
                raise ValueError(f"it is the segment of update {progress.update}")
            names = [name for name in progress.names if name.startswith(prefix)]
            found = {renamed.branch(name.removeprefix(prefix)): segment[name] for name in names}
            return progress, found


@contextlib.contextmanager
def _damage_told(path: Path) -> Iterator[None]:
    try:
        yield
    except LimitError:
        raise
    except Exception as error:  # damaged files make the libraries raise nearly anything
        raise _damaged(path, str(error) or type(error).__name__) from error


def _damaged(path: Path, what: str) -> OryxError:
    return OryxError(
        f"the recorded segment {path} is damaged: {what}. Delete the folder {path.parent} and "
        "begin the recording again"
    )
