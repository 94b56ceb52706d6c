"""Requests that wait at the same time are computed together."""

import asyncio
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from jaxtyping import UInt8

from oryx_marl.serve import refusals
from oryx_marl.serve.engine import Engine, Row, Stepped
from oryx_marl.serve.metrics import Metrics

LONG = 0.02
"""Seconds of a step from which on it is computed beside the event loop: below, two threads that
wait for each other's lock on the interpreter take longer than one that does both."""


class Answered(NamedTuple):
    """A row's part of what a batch gave."""

    actions: np.ndarray
    state: UInt8[np.ndarray, "size"]
    is_number: bool


Future = asyncio.Future[Answered]


class Batcher:
    """Takes rows one by one, and computes all that have come since the last batch.

    Nothing waits for others to come: a batch is what the event loop has read at a time, or what has
    come while the last one was computed.
    """

    def __init__(self, engine: Engine, max_batch: int, max_waiting: int, metrics: Metrics) -> None:
        self._engine, self._metrics = engine, metrics
        self._max_batch, self._max_waiting = max_batch, max_waiting
        self._queue: deque[tuple[Row, Future]] = deque()
        self._is_planned = False
        """Whether a batch is being computed, or will be without anything more to do."""
        self._thread = ThreadPoolExecutor(1, "oryx-serve")

    @property
    def waiting(self) -> int:
        """Rows that wait to be computed."""
        return len(self._queue)

    def submit(self, row: Row) -> Future:
        """What becomes of a row; raises where too many wait."""
        if len(self._queue) >= self._max_waiting:
            raise refusals.try_later(
                "busy", f"{self._max_waiting} requests are waiting already: try again in a second"
            )
        loop = asyncio.get_running_loop()
        future: Future = loop.create_future()
        self._queue.append((row, future))
        if not self._is_planned:
            self._is_planned = True
            loop.call_soon(self._compute)
        return future

    def stop(self) -> None:
        """Ends the thread."""
        self._thread.shutdown()

    def _compute(self) -> None:
        """Takes a batch from the queue, and sees to it that the next one follows."""
        count = min(len(self._queue), self._max_batch)
        batch = [self._queue.popleft() for _ in range(count)]
        rows, futures = [row for row, _ in batch], [future for _, future in batch]
        if self._engine.longest_step > LONG:
            work = asyncio.get_running_loop().run_in_executor(self._thread, self._step, rows)
            work.add_done_callback(lambda done: self._deliver(futures, done.result()))
        else:
            self._deliver(futures, self._step(rows))

    def _step(self, rows: list[Row]) -> Stepped | Exception:
        try:
            return self._engine.step(rows)
        except Exception as error:  # told to each of them; the next batch is another
            return error

    def _deliver(self, futures: list[Future], stepped: Stepped | Exception) -> None:
        self._metrics.count_batch(len(futures))
        for number, future in enumerate(futures):
            if future.done():  # who asked has gone
                continue
            if isinstance(stepped, Exception):
                future.set_exception(stepped)
            else:
                actions, states, is_number = stepped
                future.set_result(
                    Answered(actions[number], states[number], bool(is_number[number]))
                )
        self._is_planned = bool(self._queue)
        if self._is_planned:
            asyncio.get_running_loop().call_soon(self._compute)
