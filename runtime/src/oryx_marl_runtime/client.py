"""A policy that `oryx serve` serves, in plain Python: it is called as one in this process is.

Only the standard library is needed: neither JAX nor numpy nor onnxruntime.
"""

import contextlib
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from oryx_marl_runtime.connection import AnswerError, Connection
from oryx_marl_runtime.contract import ActionSpace, Spec
from oryx_marl_runtime.errors import OryxError

LOST = ("session_lost", "session_expired")
Keep = Literal["server", "client"]


class SessionLostError(OryxError):
    """The server has forgotten the episode; `reset` begins a new one."""


class RemotePlayer:
    """Acts step by step, like the players of a run and of an export, on a server.

    One plays one episode at a time and belongs to one thread. Actions are plain numbers, or lists
    of them for a box.

    Attributes:
        spec: `spec.agents` are the names of the agents in their order, `spec.observation_sizes`
            their numbers of features.
        action_names: what each action is called, in the order of the ids; None if nobody says.
        policy: all that the server says of its policy.
    """

    def __init__(
        self, connection: Connection, keep: Keep, act: str | float | None, random_seed: int | None
    ) -> None:
        if keep not in ("server", "client"):
            raise OryxError(f'keep must be "server" or "client", got {keep!r}')
        self._connection, self._keep = connection, keep
        self.policy: dict[str, Any] = connection.ask("GET", "/v1/policy")
        self.spec = _to_spec(self.policy)
        self.action_names: list[str] | None = self.policy.get("action_names")
        self._random_seed = secrets.randbits(32) if random_seed is None else random_seed
        self._act = act
        self._episode = self._count = 0
        self._state: str | None = None
        self._session: str | None = None

    def __repr__(self) -> str:
        name = self.policy.get("algorithm")
        return f"RemotePlayer({self._connection.url}, {name!r}, keep={self._keep!r})"

    def __enter__(self) -> "RemotePlayer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def reset(self) -> None:
        """Begins the next episode: nothing is remembered, and other random numbers are drawn."""
        self._episode += self._count > 0
        self._count, self._state = 0, None
        if self._session is None:
            return
        try:
            self._connection.ask("POST", f"/v1/sessions/{self._session}/reset")
        except AnswerError as refusal:
            if refusal.code not in LOST:
                raise
            self._session = None

    def close(self) -> None:
        """Ends the session and the connection; nobody waits for a server that is gone."""
        if self._session is not None:
            with contextlib.suppress(OryxError):  # it expires by itself
                self._connection.ask("DELETE", f"/v1/sessions/{self._session}", retries=False)
            self._session = None
        self._connection.close()

    def act(
        self,
        observations: Mapping[str, Any] | Sequence[Any],
        action_mask: Mapping[str, Any] | Sequence[Any] | None = None,
        rewards: Mapping[str, Any] | Sequence[Any] | None = None,
        *,
        noise: Sequence[Any] | None = None,
    ) -> Any:
        """The action of each agent, by name if the observations are by name.

        Args:
            observations: features of each agent, or {"observation": features, "action_mask": mask}.
                Agents that are not named, or whose observation is None, are absent.
            action_mask: which actions each agent may take (default: the mask beside its
                observation, else all).
            rewards: of the step before, which some policies want to know.
            noise: standard noise [agents][actions] in place of that drawn on the server.
        """
        shown = {
            "observations": observations,
            "action_mask": action_mask,
            "rewards": rewards,
            "noise": noise,
        }
        about = {name: _plain(value) for name, value in shown.items() if value is not None}
        answer = self._ask_session(about) if self._keep == "server" else self._ask_state(about)
        self._count += 1
        return answer["actions"]

    def _ask_state(self, about: dict[str, Any]) -> Any:
        """A step with the state that is kept here."""
        if self._state is None:
            about |= {"random_seed": self._random_seed, "episode": self._episode}
        else:
            about["state"] = self._state
        if self._act is not None:
            about["act"] = self._act
        try:
            answer = self._connection.ask("POST", "/v1/act", about)
        except AnswerError as refusal:
            if refusal.code != "other_policy":
                raise
            raise SessionLostError(f"{refusal}: call reset()") from refusal
        self._state = answer["state"]
        return answer

    def _ask_session(self, about: dict[str, Any]) -> Any:
        """A step of the session on the server; one is begun where nothing is lost by it."""
        if self._session is None:
            if self._count > 0:
                raise SessionLostError("the server has forgotten this episode: call reset()")
            self._session = self._open()
        step = {"step": self._count, **about}
        try:
            return self._connection.ask("POST", f"/v1/sessions/{self._session}/act", step)
        except AnswerError as refusal:
            if refusal.code not in LOST:
                raise
            self._session = None
            if self._count > 0:
                raise SessionLostError(f"{refusal}: call reset()") from refusal
        self._session = self._open()
        return self._connection.ask("POST", f"/v1/sessions/{self._session}/act", step)

    def _open(self) -> str:
        about = {"random_seed": self._random_seed, "episode": self._episode}
        act = {} if self._act is None else {"act": self._act}
        return self._connection.ask("POST", "/v1/sessions", about | act)["session"]


def connect(
    url: str,
    *,
    token: str | None = None,
    keep: Keep = "server",
    act: str | float | None = None,
    random_seed: int | None = None,
    timeout: float = 30.0,
    retry_for: float = 30.0,
) -> RemotePlayer:
    """A policy on a server, to act with step by step.

    Args:
        url: of `oryx serve`, such as http://127.0.0.1:8000.
        token: the server's, if it has one.
        keep: who remembers the episode between two steps. "server": small requests, but a restart
            of the server ends the episode with a SessionLostError. "client": each request brings
            the state along, so a restart goes unnoticed.
        act: "sampled", "greedy", or a temperature (default: the server's).
        random_seed: the same number gives the same sequence of episodes (default: any).
        timeout: seconds to wait for an answer.
        retry_for: seconds to try again when the connection is lost or the server is full.
    """
    connection = Connection(url, token, timeout, retry_for)
    try:
        return RemotePlayer(connection, keep, act, random_seed)
    except OryxError:
        connection.close()
        raise


def _to_spec(policy: Mapping[str, Any]) -> Spec:
    try:
        action = policy["action"]
        space = ActionSpace(
            str(action["kind"]), int(action["size"]), tuple(action["low"]), tuple(action["high"])
        )
        return Spec(tuple(policy["agents"]), tuple(policy["observation_sizes"]), space)
    except (KeyError, TypeError, ValueError) as error:
        raise OryxError("this is no server of `oryx serve`, or one of another version") from error


def _plain(value: Any) -> Any:
    """Lists and numbers for JSON, also of numpy's arrays."""
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_plain(each) for each in value]
    return value
