"""What a server does for each kind of request."""

import asyncio
import secrets
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import oryx_marl
from oryx_marl.envs.base import find_action_names
from oryx_marl.errors import OryxError
from oryx_marl.policy.acting import name_of, resolve, temperature_of
from oryx_marl.policy.arranging import Arranged, arrange, name_actions
from oryx_marl.policy.artifact import PolicyArtifact
from oryx_marl.serve import bodies, refusals, tokens
from oryx_marl.serve.batching import Answered, Batcher
from oryx_marl.serve.engine import Engine, Row
from oryx_marl.serve.limits import ServeLimits
from oryx_marl.serve.packages import orjson
from oryx_marl.serve.refusals import RefusedError
from oryx_marl.serve.sessions import Session, Sessions
from oryx_marl.serve.tokens import Carried

JSON = "application/json"


class Request(NamedTuple):
    """What a client asks."""

    session: str
    """Name of a session, from the path; '' where there is none."""
    body: bytes


class Answer(NamedTuple):
    """What it is told."""

    status: int
    body: bytes
    kind: str = JSON


SHOWN: dict[str, Callable[[str, Any], Any]] = {
    "observations": bodies.per_agent,
    "action_mask": bodies.per_agent,
    "rewards": bodies.per_agent,
    "noise": bodies.noise,
}
BEGUN: dict[str, Callable[[str, Any], Any]] = {
    "act": bodies.act,
    "random_seed": bodies.whole(bodies.MOST_SEED),
    "episode": bodies.whole(bodies.MOST_EPISODE),
}
STEP = {"step": bodies.whole(tokens.MOST_STEPS)}
STATE = {"state": bodies.text}


class Handlers:
    """Answers requests whose way, token and size are in order."""

    def __init__(
        self,
        artifact: PolicyArtifact,
        seed: int | None,
        act: str | float | None,
        engine: Engine,
        batcher: Batcher,
        sessions: Sessions,
        limits: ServeLimits,
    ) -> None:
        self._spec, self._engine = artifact.spec, engine
        self._batcher, self._sessions = batcher, sessions
        self._act = name_of(resolve(act, artifact.spec.action))
        self._about = _describe(artifact, seed, self._act, engine, limits)

    async def tell_policy(self, request: Request) -> Answer:
        return _json(200, self._about)

    async def open_session(self, request: Request) -> Answer:
        given = bodies.parse(request.body, BEGUN)
        act = given.get("act", self._act)
        seed, episode = given.get("random_seed", secrets.randbits(32)), given.get("episode", 0)
        session = self._sessions.open(act, temperature_of(act), seed, episode)
        return _json(201, self._tell(session))

    async def tell_session(self, request: Request) -> Answer:
        return _json(200, self._tell(self._sessions.get(request.session)))

    async def reset_session(self, request: Request) -> Answer:
        bodies.parse(request.body, {})
        session = self._idle(request.session)
        session.reset()
        return _json(200, self._tell(session))

    async def end_session(self, request: Request) -> Answer:
        self._sessions.end(self._idle(request.session))
        return Answer(204, b"")

    async def act_in_session(self, request: Request) -> Answer:
        session = self._sessions.get(request.session)
        given = bodies.parse(request.body, SHOWN | STEP)
        step, asked = given.get("step"), hash(request.body)
        while session.pending is not None:
            if step is None or asked != session.asked:
                raise _busy()
            await asyncio.wait([session.pending])  # the same request, sent again
        if step is not None and step != session.step:
            return self._repeat(session, step, asked)
        shown = self._arrange(given)
        noise = self._noise(
            given, session.temperature, session.random_seed, session.episode, session.step
        )
        session.pending = self._batcher.submit(Row(shown, session.step, noise, session.slot))
        session.asked = asked
        try:
            answered = _require_numbers(await session.pending)
        finally:
            session.pending = None
        about = {
            "session": session.name,
            "step": session.step,
            "actions": self._name(given, shown, answered),
        }
        session.step += 1
        session.answer = orjson.dumps(about)
        return Answer(200, session.answer)

    async def act_with_state(self, request: Request) -> Answer:
        given = bodies.parse(request.body, SHOWN | STATE | BEGUN)
        before = self._carried(given)
        shown = self._arrange(given)
        temperature = temperature_of(given.get("act", self._act))
        seed, episode, step, state = before
        noise = self._noise(given, temperature, seed, episode, step)
        answered = _require_numbers(
            await self._batcher.submit(Row(shown, step, noise, state=state))
        )
        after = Carried(seed, episode, step + 1, answered.state)
        about = {
            "step": step,
            "actions": self._name(given, shown, answered),
            "state": tokens.write(self._engine.policy_id, after),
        }
        return _json(200, about)

    def _carried(self, given: dict[str, Any]) -> Carried:
        """The state that a request brings, or that of a new episode."""
        layout = self._engine.layout
        if "state" not in given:
            seed = given.get("random_seed", secrets.randbits(32))
            return Carried(seed, given.get("episode", 0), 0, layout.initial)
        for name in ("random_seed", "episode"):
            if name in given:
                raise refusals.invalid(f"{name} is told where an episode begins: without state")
        return tokens.read(given["state"], self._engine.policy_id, layout.size)

    def _repeat(self, session: Session, step: int, asked: int) -> Answer:
        """The last answer, to one who has not received it."""
        if step == session.step - 1 and asked == session.asked:
            return Answer(200, session.answer)
        if step == session.step - 1:
            raise RefusedError(
                409, "step_differs", f"step {step} was answered already, to another request"
            )
        raise RefusedError(
            409, "wrong_step", f"the next step of this session is {session.step}, not {step}"
        )

    def _idle(self, name: str) -> Session:
        """A session of which no step is being computed."""
        session = self._sessions.get(name)
        if session.pending is not None:
            raise _busy()
        return session

    def _arrange(self, given: dict[str, Any]) -> Arranged:
        if "observations" not in given:
            raise refusals.invalid("observations are missing")
        try:
            return arrange(
                self._spec, given["observations"], given.get("action_mask"), given.get("rewards")
            )
        except OryxError as error:
            raise refusals.invalid(str(error)) from None

    def _noise(
        self, given: dict[str, Any], temperature: float, seed: int, episode: int, step: int
    ) -> np.ndarray | None:
        """The noise of a step, times the temperature; None is greedy."""
        if temperature == 0:
            return None
        if "noise" not in given:
            return np.float32(temperature) * self._engine.draw_noise(seed, episode, step)
        shape = (self._spec.num_agents, self._spec.action.size)
        try:
            noise = np.asarray(given["noise"], np.float64)
        except (TypeError, ValueError, OverflowError):
            noise = np.empty(0)
        if noise.shape != shape or not (np.abs(noise) <= MOST_NOISE).all():
            raise refusals.invalid(f"noise must be {shape[0]} lists of {shape[1]} finite numbers")
        return np.float32(temperature) * noise.astype(np.float32)

    def _name(self, given: dict[str, Any], shown: Arranged, answered: Answered) -> Any:
        """Actions in the form of the observations, as JSON."""
        seen, here = given["observations"], shown.agent_mask
        found = name_actions(self._spec, seen, here, answered.actions)
        if isinstance(found, np.ndarray):
            return found.tolist()
        return {name: action.tolist() for name, action in found.items()}

    def _tell(self, session: Session) -> dict[str, Any]:
        return {
            "session": session.name,
            "step": session.step,
            "episode": session.episode,
            "act": session.act,
            "random_seed": session.random_seed,
            "expires_in": self._sessions.ttl,
        }


MOST_NOISE = 1e6
"""Standard noise is never that far from 0."""


def _busy() -> RefusedError:
    return RefusedError(
        409, "session_busy", "another request of this session is being computed: one at a time"
    )


def _require_numbers(answered: Answered) -> Answered:
    if not answered.is_number:
        raise RefusedError(
            422,
            "not_a_number",
            "the policy's answer is no number: what it was shown is too large, or its state is "
            "wrong. The session is as it was before this step",
        )
    return answered


def _json(status: int, about: Any) -> Answer:
    return Answer(status, orjson.dumps(about))


def _describe(
    artifact: PolicyArtifact, seed: int | None, act: str, engine: Engine, limits: ServeLimits
) -> dict[str, Any]:
    """What a client must know of the policy; where it was trained, and on what, is not told."""
    spec = artifact.spec
    return {
        "policy": engine.policy_id,
        "algorithm": artifact.name,
        "seed": artifact.seeds[0] if seed is None else seed,
        "update": artifact.origin.get("update"),
        "sha256": artifact.sha256,
        "agents": list(spec.agents),
        "observation_sizes": list(spec.observation_sizes),
        "action": {
            "kind": spec.action.kind,
            "size": spec.action.size,
            "low": list(spec.action.low),
            "high": list(spec.action.high),
        },
        "action_names": artifact.origin.get("action_names") or find_action_names(spec),
        "act": act,
        "noise": engine.noise,
        "state_bytes": engine.layout.size,
        "limits": {
            "max_body": limits.max_body,
            "max_sessions": limits.max_sessions,
            "session_ttl": limits.session_ttl,
        },
        "version": oryx_marl.__version__,
    }
