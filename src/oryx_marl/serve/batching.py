"""Requests that wait at the same time are computed together, by one thread."""

import asyncio
import queue
import threading
from typing import NamedTuple

import numpy as np
from jaxtyping import UInt8

from oryx_marl.serve import refusals
from oryx_marl.serve.engine import Engine, Row
from oryx_marl.serve.metrics import Metrics


class Answered(NamedTuple):
    """A row's part of what a batch gave."""

    actions: np.ndarray
    state: UInt8[np.ndarray, "size"]
    is_number: bool


Waiting = tuple[Row, "asyncio.Future[Answered]"]


class Batcher:
    """Takes rows in the event loop's thread, computes them in its own.

    Nothing waits for others to come: a batch is whatever has come while the last one was computed.
    """

    def __init__(self, engine: Engine, max_batch: int, max_waiting: int, metrics: Metrics) -> None:
        self._engine, self._metrics = engine, metrics
        self._max_batch, self._max_waiting = max_batch, max_waiting
        self._queue: queue.SimpleQueue[Waiting | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="oryx-serve", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self.waiting = 0
        """Rows that have been taken and not yet answered."""

    @property
    def is_alive(self) -> bool:
        return self._loop is None or self._thread.is_alive()

    def submit(self, row: Row) -> "asyncio.Future[Answered]":
        """What becomes of a row; raises where too many wait."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._thread.start()
        if self.waiting >= self._max_waiting:
            raise refusals.try_later(
                "busy", f"{self._max_waiting} requests are waiting already: try again in a second"
            )
        self.waiting += 1
        future: asyncio.Future[Answered] = self._loop.create_future()
        self._queue.put((row, future))
        return future

    def stop(self) -> None:
        """Ends the thread when everything before is computed."""
        self._queue.put(None)
        if self._thread.is_alive():
            self._thread.join()

    def _work(self) -> None:
        loop = self._loop
        assert loop is not None
        while (first := self._queue.get()) is not None:
            batch, is_last = self._take(first)
            error: Exception | None = None
            answers: list[Answered] = []
            try:
                stepped = self._engine.step([row for row, _ in batch])
                answers = [Answered(a, s, bool(n)) for a, s, n in zip(*stepped, strict=True)]
            except Exception as problem:  # told to each of them; the next batch is another
                error = problem
            loop.call_soon_threadsafe(self._deliver, [each for _, each in batch], answers, error)
            if is_last:
                return

    def _take(self, first: Waiting) -> tuple[list[Waiting], bool]:
        """All that waits, up to the largest batch; whether the thread is to end then."""
        batch = [first]
        while len(batch) < self._max_batch:
            try:
                following = self._queue.get_nowait()
            except queue.Empty:
                break
            if following is None:
                return batch, True
            batch.append(following)
        return batch, False

    def _deliver(
        self,
        futures: list["asyncio.Future[Answered]"],
        answers: list[Answered],
        error: Exception | None,
    ) -> None:
        self.waiting -= len(futures)
        self._metrics.count_batch(len(futures))
        for number, future in enumerate(futures):
            if future.done():  # who asked has gone
                continue
            if error is None:
                future.set_result(answers[number])
            else:
                future.set_exception(error)
