"""Episodes whose state the server keeps, until nobody has asked for a while."""

import asyncio
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from oryx_marl.serve import refusals
from oryx_marl.serve.metrics import Metrics
from oryx_marl.serve.refusals import RefusedError


@dataclass
class Session:
    """One episode at a time, and the answer to its last step."""

    name: str
    """Not to be guessed."""
    slot: int
    """Where its state is."""
    act: str
    temperature: float
    random_seed: int
    episode: int
    used: float
    """When it was last asked for."""
    step: int = 0
    """Steps that were answered in this episode: the number of the next one."""
    pending: "asyncio.Future[Any] | None" = None
    """The step that is being computed."""
    asked: int = 0
    """Hash of the request that is being computed, or that was answered last."""
    answer: bytes = b""
    """To the step before `step`, for one who has not received it."""

    def reset(self) -> None:
        """Begins the next episode; before the first step it changes nothing."""
        self.episode += self.step > 0
        self.step, self.asked, self.answer = 0, 0, b""


class Sessions:
    """All sessions, by name, in the order in which they were last used.

    Args:
        most: sessions at a time.
        ttl: seconds without a request after which one ends.
        metrics: told of those that end.
        clock: seconds, for tests.
    """

    def __init__(
        self, most: int, ttl: float, metrics: Metrics, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.ttl, self._metrics, self._clock = ttl, metrics, clock
        self._free = list(range(most - 1, -1, -1))
        self._by_name: OrderedDict[str, Session] = OrderedDict()
        self._start = secrets.token_hex(4)
        """Of this process: names of another one's sessions begin otherwise."""

    def __len__(self) -> int:
        return len(self._by_name)

    def open(self, act: str, temperature: float, random_seed: int, episode: int) -> Session:
        """A new session; raises where there are too many."""
        self.expire()
        if not self._free:
            wait = max(1, int(self._next_expiry()))
            raise refusals.try_later(
                "sessions_full",
                f"all {len(self._by_name)} sessions are in use: end some, wait, or send the state "
                "with each request (POST /v1/act)",
                wait,
            )
        name = f"{self._start}-{secrets.token_urlsafe(18)}"
        session = Session(
            name, self._free.pop(), act, temperature, random_seed, episode, self._clock()
        )
        self._by_name[name] = session
        return session

    def get(self, name: str) -> Session:
        """The session of a name, which is in use from now on."""
        self.expire()
        session = self._by_name.get(name)
        if session is None:
            raise self._lost(name)
        self._use(session)
        return session

    def end(self, session: Session, why: str = "client") -> None:
        """Forgets a session."""
        del self._by_name[session.name]
        self._free.append(session.slot)
        self._metrics.count_ended(why)

    def expire(self) -> None:
        """Ends what nobody has asked for; what is being computed is in use."""
        before = self._clock() - self.ttl
        while self._by_name:
            oldest = next(iter(self._by_name.values()))
            if oldest.used >= before:
                return
            if oldest.pending is not None:
                self._use(oldest)
                continue
            self.end(oldest, "expired")

    def _use(self, session: Session) -> None:
        session.used = self._clock()
        self._by_name.move_to_end(session.name)

    def _next_expiry(self) -> float:
        oldest = next(iter(self._by_name.values()), None)
        return 1.0 if oldest is None else oldest.used + self.ttl - self._clock()

    def _lost(self, name: str) -> RefusedError:
        """Why there is no session of this name."""
        if name.startswith(f"{self._start}-"):
            return RefusedError(
                404,
                "session_expired",
                f"this session has ended: it was deleted, or nobody asked for {self.ttl:g} seconds "
                "(or there never was one of this name). Its memory is gone; begin a new one",
            )
        return RefusedError(
            404,
            "session_lost",
            "there is no such session: the server was restarted since it began, or there never "
            "was one of this name. Its memory is gone; begin a new one",
        )
