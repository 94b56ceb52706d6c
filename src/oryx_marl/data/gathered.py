"""Rows of a dataset that stays on the host, gathered where they are needed on the device."""

import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from jaxtyping import Int

from oryx_marl.data.dataset import Dataset
from oryx_marl.data.sampler import fill_masks, narrow, narrow_actions
from oryx_marl.data.scales import feature_statistics, value_scale

THREADS = 4
"""That copy rows at the same time: one waits for the disk while another copies."""
PIECE_ROWS = 2_048
"""Rows that a thread takes at a time."""


class HostData:
    """What `put_on_device` would put there, row by row.

    The arrays may be memory maps of any size; of what is derived from them only numbers per
    episode are held.
    """

    def __init__(
        self, dataset: Dataset, returns_to_go: bool = False, value_discount: float | None = None
    ) -> None:
        self._dataset = dataset
        self._rewards_before = _rewards_before(dataset) if returns_to_go else None
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="gather")
        self.shared: dict[str, Any] = {
            "feature_statistics": feature_statistics(dataset),
            "value_scale": None if value_discount is None else value_scale(dataset, value_discount),
            "every_action": np.ones(dataset.spec.action.size, bool),
        }
        """Fields of DeviceData that have no rows."""

    @property
    def num_rows(self) -> int:
        return self._dataset.num_rows

    @property
    def row_bytes(self) -> int:
        """Of one row on the device, as numbers are there."""
        one = self.take(np.zeros(1, np.int64))
        return sum(array.nbytes for array in one.values() if array is not None)

    def take(self, rows: Int[np.ndarray, " M"]) -> dict[str, np.ndarray | None]:
        """Fields of DeviceData with these rows, as they would be on the device."""
        data = self._dataset
        names = ("observations", "actions", "rewards", "terminals", "action_mask", "agent_mask")
        found = {name: self._gather(getattr(data, name), rows) for name in (*names, "state")}
        episodes = np.searchsorted(data.episode_starts, rows, side="right") - 1
        steps = (rows - data.episode_starts[episodes]).astype(np.int32)
        observations, actions, rewards = (found[name] for name in names[:3])
        assert observations is not None
        assert actions is not None
        assert rewards is not None
        mask, state = found["action_mask"], found["state"]
        return {
            **found,
            "observations": narrow(observations),
            "actions": narrow_actions(actions, data.spec.action.kind),
            "rewards": rewards.astype(np.float32, copy=False),
            "action_mask": None if mask is None else fill_masks(mask, found["agent_mask"]),
            "state": None if state is None else narrow(state),
            "reset": steps == 0,
            "step_count": steps,
            "returns_to_go": self._returns_to_go(rows, episodes),
        }

    def _gather(self, array: np.ndarray | None, rows: np.ndarray) -> np.ndarray | None:
        if array is None:
            return None
        found = np.empty((len(rows), *array.shape[1:]), array.dtype)
        pieces = [slice(at, at + PIECE_ROWS) for at in range(0, len(rows), PIECE_ROWS)]

        def copy(piece: slice) -> None:
            # Other modes than "raise" write to `out` at once; every row exists.
            np.take(array, rows[piece], axis=0, out=found[piece], mode="clip")

        run: Callable[..., Any] = self._pool.map if len(pieces) > 1 else map
        list(run(copy, pieces))
        return found

    def _returns_to_go(self, rows: np.ndarray, episodes: np.ndarray) -> np.ndarray | None:
        """The same differences of the same sums as for the whole dataset at once."""
        before = self._rewards_before
        if before is None:
            return None
        starts = self._dataset.episode_starts
        ends = np.append(starts[1:], self.num_rows)[episodes]
        return (before[ends] - before[rows]).astype(np.float32)


def _rewards_before(dataset: Dataset) -> np.ndarray:
    """[R + 1, N] sums of all rewards before each row, in a file that goes with its last use."""
    shape = (dataset.num_rows + 1, dataset.spec.num_agents)
    with tempfile.TemporaryFile() as file:
        before = np.memmap(file, np.float64, "w+", shape=shape)
    before[0] = 0
    np.cumsum(dataset.rewards, axis=0, dtype=np.float64, out=before[1:])
    return before
