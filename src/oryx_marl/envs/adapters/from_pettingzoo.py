"""Any environment with PettingZoo's parallel interface as a HostEnv, in worker processes.

    env = ParallelEnvs(make_env, num_envs=16, num_workers=4)

Agents may come and go; legal actions are taken from `action_mask`, in the observation or in the
infos, the global state from `env.state()`, and plain numbers in the infos are metrics.
"""

import multiprocessing
import sys
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np
from jaxtyping import Int, Num, UInt8

from oryx_marl.envs.adapters.convert import make_spec
from oryx_marl.envs.adapters.worker import DONE, UNREADABLE, About, Frame, Group, serve
from oryx_marl.errors import OryxError
from oryx_marl.types import Observation, Step

Factory = Callable[[], Any] | str
"""What makes one environment: a function without arguments, or "package.module:make"."""
PATIENCE = 5.0
"""Seconds that a worker has to end by itself."""


class _UnreadableError(Exception):
    """The factory cannot travel to a worker process."""


class _Here:
    """Environments in this process, behind the interface of a worker."""

    def __init__(self, *group: Any) -> None:
        self._group = Group(*group)
        self._answer: Any = None

    def ask(self, name: str, *arguments: Any) -> None:
        self._answer = getattr(self._group, name)(*arguments)

    def answer(self) -> Any:
        return self._answer

    def hang_up(self) -> None:
        self._group.close()

    def close(self) -> None:
        """There is nothing to wait for."""


class _Worker:
    """Environments in a process of their own."""

    def __init__(self, *group: Any) -> None:
        """Of the arguments of a Group."""
        # Spawned, never forked: a forked copy of a process with JAX in it may hang.
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs,), daemon=True)
        with _script_not_run_again():
            self._process.start()
        theirs.close()  # so that the worker is the only one who holds that end
        try:
            self.ask("open", *group)
        except OryxError:
            raise
        except Exception as error:  # pickle raises nearly anything
            _close([self])
            raise _UnreadableError(f"{type(error).__name__}: {error}") from error

    def ask(self, name: str, *arguments: Any) -> None:
        try:
            self._connection.send((name, arguments))
        except OSError as error:
            raise self._tell_dead() from error

    def answer(self) -> Any:
        try:
            kind, found = self._connection.recv()
        except (EOFError, OSError) as error:
            raise self._tell_dead() from error
        if kind == UNREADABLE:
            raise _UnreadableError(found)
        if kind != DONE:
            raise OryxError(found)
        return found

    def hang_up(self) -> None:
        """Tells the worker to end."""
        self._connection.close()

    def close(self) -> None:
        """Waits for its end; a worker that goes on is ended."""
        self._process.join(PATIENCE)
        if self._process.is_alive():
            self._process.terminate()

    def _tell_dead(self) -> OryxError:
        self._process.join(PATIENCE)
        return OryxError(
            f"a worker process with environments ended all by itself (exit code "
            f"{self._process.exitcode}); num_workers=0 runs them in this process, where more can "
            "be seen"
        )


class ParallelEnvs:
    """`num_envs` PettingZoo environments of one kind, behind the protocol of HostEnv."""

    return_name = "return"

    def __init__(
        self,
        factory: Factory,
        num_envs: int = 8,
        num_workers: int = 0,
        *,
        name: str | None = None,
        environment: str = "",
        environment_config: Mapping[str, Any] | None = None,
        episode_limit: int | None = None,
        agents: tuple[str, ...] = (),
    ) -> None:
        """`num_workers` processes share the environments; with 0 they run in this one.

        `environment` and `environment_config` go into the Spec; episodes of `episode_limit` steps
        are cut off. The agents stand in the order of `agents`, if these are the same ones.
        """
        if num_envs < 1 or num_workers < 0:
            raise OryxError(
                f"there must be at least 1 environment and no negative number of workers, got "
                f"num_envs={num_envs}, num_workers={num_workers}"
            )
        if episode_limit is not None and episode_limit < 1:
            raise OryxError(f"episode_limit must be at least 1, got {episode_limit}")
        self.num_envs = num_envs
        self.num_workers = min(num_workers, num_envs)
        self._members, about = _open(factory, num_envs, self.num_workers, episode_limit, agents)
        self.num_workers = sum(isinstance(each, _Worker) for each in self._members)
        self._shares = np.array_split(np.arange(num_envs), len(self._members))
        self._finalizer = weakref.finalize(self, _close, self._members)
        self._metric_names: dict[str, None] = {}
        self.name, self.draws = name or about.name, about.draws
        self.spec = make_spec(
            about.layout,
            environment,
            state_size=about.state_size,
            episode_limit=episode_limit,
            shared_reward=False,  # nothing tells whether they always are
            environment_config=dict(environment_config or {}),
        )
        self.action_names = tuple(str(index) for index in range(self.spec.action.size))

    def reset(self, which: Int[np.ndarray, " K"], seeds: Int[np.ndarray, " K"]) -> Step:
        """Begins an episode in each of these environments; their first steps [K, ...]."""
        places = [np.flatnonzero(np.isin(which, share)) for share in self._shares]
        with self._closed_on_error():
            for member, share, mine in zip(self._members, self._shares, places, strict=True):
                if len(mine):
                    member.ask("reset", (which[mine] - share[0]).tolist(), seeds[mine].tolist())
            frames: list[Any] = [None] * len(which)
            for member, mine in zip(self._members, places, strict=True):
                for place, frame in zip(mine, member.answer() if len(mine) else (), strict=True):
                    frames[place] = frame
        return self._stack(frames)

    def step(self, actions: Num[np.ndarray, "E N"] | Num[np.ndarray, "E N A"]) -> Step:
        """The next step of all environments [E, ...]; those that have ended repeat their last."""
        actions = np.asarray(actions)
        with self._closed_on_error():
            for member, share in zip(self._members, self._shares, strict=True):
                member.ask("step", actions[share])
            frames = [frame for member in self._members for frame in member.answer()]
        return self._stack(frames)

    def draw(self, which: int) -> UInt8[np.ndarray, "H W 3"]:
        """A picture of one environment as it is now, where it `draws` (render_mode rgb_array).

        Not called `render_rgb`: runs keep replays of what has that, and to draw may need a screen.
        """
        place = next(place for place, share in enumerate(self._shares) if which in share)
        with self._closed_on_error():
            self._members[place].ask("draw", which - int(self._shares[place][0]))
            return self._members[place].answer()

    def close(self) -> None:
        """Ends the worker processes and closes the environments."""
        self._finalizer()

    @contextmanager
    def _closed_on_error(self) -> Iterator[None]:
        """After an error answers may be outstanding and environments in any state."""
        if not self._members:
            raise OryxError(f"environment '{self.name}' is closed; make another")
        try:
            yield
        except BaseException:
            self.close()
            raise

    def _stack(self, frames: list[Frame]) -> Step:
        """Frames as one Step; metrics of all names that were seen so far."""
        self._metric_names.update(dict.fromkeys(n for frame in frames for n in frame.metrics))
        parts: dict[str, Any] = {
            name: np.stack([getattr(frame, name) for frame in frames])
            for name in ("features", "action_mask", "agent_mask", "rewards", "terminal")
        }
        count: Any = np.array([frame.step_count for frame in frames], np.int32)
        truncated: Any = np.stack([frame.truncated for frame in frames])
        metrics: Any = {
            name: np.array([frame.metrics.get(name, np.nan) for frame in frames], np.float32)
            for name in self._metric_names
        }
        states: list[Any] = [frame.state for frame in frames]
        state: Any = np.stack(states) if self.spec.state_size else None
        seen = (parts["features"], parts["action_mask"], parts["agent_mask"])
        observation = Observation(*seen, count == 0, count)
        return Step(observation, parts["rewards"], parts["terminal"], truncated, state, metrics)


def _open(factory: Factory, num_envs: int, num_workers: int, *rest: Any) -> tuple[list[Any], About]:
    """Environments in workers, or here where there are none or the factory cannot reach them."""
    members: list[Any] = []
    shares = np.array_split(np.arange(num_envs), max(num_workers, 1))
    kind = _Worker if num_workers else _Here
    try:
        for share in shares:
            members.append(kind(factory, int(share[0]), len(share), *rest))
        if num_workers:
            for member in members:
                member.answer()
        members[0].ask("describe")
        about = members[0].answer()
        for member in members:
            member.ask("begin", about.state_size)
        for member in members:
            member.answer()
    except _UnreadableError as error:
        _close(members)
        warnings.warn(
            f"the environments run in this process, one after another, and not in {num_workers} "
            f"workers: what makes them cannot be handed to another process ({error}). Define it "
            "at the top of a module that can be imported, not in a script, a notebook or another "
            "function",
            stacklevel=4,
        )
        return _open(factory, num_envs, 0, *rest)
    except BaseException:
        _close(members)
        raise
    return members, about


def _close(members: list[Any]) -> None:
    for member in members:
        member.hang_up()
    for member in members:
        member.close()
    members.clear()


@contextmanager
def _script_not_run_again() -> Iterator[None]:
    """Spawned processes import the script that is running, which may train for hours before it
    comes to its environment; workers need nothing of it."""
    script = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script
