"""Learning from logged data that stays on the host: windows are copied ahead of their updates.

The same windows in the same order as `offline.py` draws on the device, so that learners end the
same, bit for bit.
"""

import os
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from oryx_marl.algorithms.base import Algorithm
from oryx_marl.data import mapped
from oryx_marl.data.gathered import HostData
from oryx_marl.data.sampler import DeviceData, consecutive_rows, draw_starts, take_rows
from oryx_marl.data.view import View
from oryx_marl.parallel import devices
from oryx_marl.parallel.seeds import over_seeds
from oryx_marl.training import memory
from oryx_marl.training.loop import Metrics
from oryx_marl.training.offline import LANES, SIDE_BY_SIDE, in_logged_units, scan_updates

BLOCK_BYTES = 2**27
"""Windows that are copied at a time. Two blocks are there at once: one that is learned from, and
the next."""
MOST_SHARE = 0.4
"""Of the memory that a dataset may take before it stays on disk: host and device each hold it, and
the learner needs its own."""


def is_too_large(view: View) -> bool:
    """Whether a dataset should not be held in memory."""
    limits = [memory.memory_limit(), _host_memory()]
    room = min((limit for limit in limits if limit is not None), default=None)
    return room is not None and mapped.num_bytes(view.layout) > MOST_SHARE * room


def _host_memory() -> int | None:
    """Bytes of memory of this machine, None where it does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


Fields = dict[str, np.ndarray | None]
"""[S, M, ...] fields of DeviceData with one entry per row."""


class _Ahead(NamedTuple):
    """Windows of some updates that are being gathered, of all seeds."""

    first: int
    size: int
    fields: Future[Fields]


class StreamedSource:
    """A Source of windows of a dataset on the host, gathered while the device is at work."""

    def __init__(self, data: HostData) -> None:
        self._data = data
        self._row_bytes = data.row_bytes
        self._shared: dict[str, Any] = jax.device_put(data.shared, devices.everywhere())
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="ahead")
        self._ahead: _Ahead | None = None

    def init(self, algorithm: Algorithm, learners: Any, keys: jax.Array) -> tuple[()]:
        return ()

    def advance(
        self,
        algorithm: Algorithm,
        num_updates: int,
        learners: Any,
        source_state: tuple[()],
        keys: jax.Array,
        first: int,
    ) -> tuple[Any, tuple[()], Metrics]:
        size = self._block_updates(algorithm, num_updates, len(keys))
        found = []
        for begin in range(first, first + num_updates, size):
            # Placed by this thread, which knows the mesh; the device copies while it computes.
            block = devices.place(self._take(algorithm, keys, begin, size))
            # Before the updates are begun, or the rows would be drawn after them.
            self._ahead = self._gather(algorithm, keys, begin + size, size)
            learners, metrics = _run_block(
                algorithm, size, learners, keys, block, self._shared, jnp.asarray(begin)
            )
            found.append(metrics)
        together = jax.tree.map(lambda *each: jnp.concatenate(each, axis=1), *found)
        return learners, source_state, _mean(together, self._shared["value_scale"])

    def _block_updates(self, algorithm: Algorithm, num_updates: int, seeds: int) -> int:
        """Updates of a block: a divisor of `num_updates`, so that one program serves all."""
        rows = seeds * algorithm.batch_size * algorithm.sequence_length
        most = max(1, BLOCK_BYTES // max(1, rows * self._row_bytes))
        return max(
            size for size in range(1, num_updates + 1) if size <= most and num_updates % size == 0
        )

    def _take(self, algorithm: Algorithm, keys: jax.Array, first: int, size: int) -> Fields:
        """What was gathered ahead, or else is gathered now."""
        ahead, self._ahead = self._ahead, None
        if ahead is None or (ahead.first, ahead.size) != (first, size):
            ahead = self._gather(algorithm, keys, first, size)
        return ahead.fields.result()

    def _gather(self, algorithm: Algorithm, keys: jax.Array, first: int, size: int) -> _Ahead:
        """Begins to gather the windows of the updates after `first`."""
        drawn = _draw_rows(algorithm, size, self._data.num_rows, keys, jnp.asarray(first))

        def gather() -> Fields:
            rows = np.asarray(drawn).reshape(-1).astype(np.int64)
            shape = len(keys), len(rows) // len(keys)
            return {
                name: None if values is None else values.reshape(*shape, *values.shape[1:])
                for name, values in self._data.take(rows).items()
            }

        return _Ahead(first, size, self._worker.submit(gather))


@partial(jax.jit, static_argnames=("algorithm", "num_updates", "num_rows"))
def _draw_rows(
    algorithm: Algorithm, num_updates: int, num_rows: int, keys: jax.Array, first: jax.Array
) -> jax.Array:
    """[S, U, B, T] rows of the windows that the device would draw."""
    size = algorithm.batch_size, algorithm.sequence_length

    def one(key: jax.Array, number: jax.Array) -> jax.Array:
        if algorithm.consecutive_windows:
            lanes = jax.random.fold_in(key, LANES)
            return consecutive_rows(num_rows, lanes, number, *size)
        sample_key, _ = jax.random.split(jax.random.fold_in(key, number))
        return draw_starts(num_rows, sample_key, *size)[:, None] + jnp.arange(size[1])

    numbers = first + 1 + jnp.arange(num_updates)
    return jax.vmap(lambda key: jax.vmap(lambda number: one(key, number))(numbers))(keys)


@partial(
    jax.jit,
    static_argnames=("algorithm", "num_updates"),
    donate_argnames="learners",
    compiler_options=SIDE_BY_SIDE,
)
def _run_block(
    algorithm: Algorithm,
    num_updates: int,
    learners: Any,
    keys: jax.Array,
    rows: dict[str, jax.Array | None],
    shared: dict[str, Any],
    first: jax.Array,
) -> tuple[Any, Metrics]:
    """Learners [S, ...] after `num_updates` more updates, and the metrics of each [S, U]."""
    size = algorithm.batch_size, algorithm.sequence_length

    def one_seed(
        shared: dict[str, Any], first: jax.Array, learner: Any, key: jax.Array, own: Any
    ) -> tuple[Any, Metrics]:
        data = DeviceData(**shared, **own)
        places = jnp.arange(num_updates * size[0] * size[1]).reshape(num_updates, *size)

        def draw(number: jax.Array, sample_key: jax.Array) -> Any:
            return take_rows(data, jax.lax.optimization_barrier(places[number - first - 1]))

        numbers = first + 1 + jnp.arange(num_updates)
        return scan_updates(algorithm, learner, key, numbers, draw, len(keys), data)

    return over_seeds(one_seed, shared, first)(learners, keys, rows)


@jax.jit
def _mean(metrics: Metrics, value_scale: jax.Array | None) -> Metrics:
    """[S] means over updates."""
    return in_logged_units(jax.tree.map(lambda x: x.mean(axis=1), metrics), value_scale)
