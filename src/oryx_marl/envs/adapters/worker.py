"""Some PettingZoo environments stepped one after another, in this process or in one of its own.

A worker process imports this module and the user's, not JAX.
"""

import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from oryx_marl.envs.adapters import convert
from oryx_marl.envs.adapters.convert import Layout
from oryx_marl.envs.adapters.factory import resolve
from oryx_marl.errors import OryxError

RESERVED = ("return", "length")
"""Names of scores that every environment has; infos of these names are no metrics."""
DONE, FAILED, UNREADABLE = "done", "failed", "unreadable"
"""Kinds of answers of a worker: the result, an error's text, a request that it could not read."""


class Frame(NamedTuple):
    """What one environment answered; a Step in plain numpy."""

    features: np.ndarray
    action_mask: np.ndarray
    agent_mask: np.ndarray
    rewards: np.ndarray
    terminal: np.ndarray
    truncated: np.ndarray
    step_count: int
    state: np.ndarray | None
    metrics: dict[str, float]
    """The latest that was reported in this episode, by name."""

    @property
    def is_over(self) -> bool:
        return bool((self.terminal | self.truncated).all())


class About(NamedTuple):
    """What is to be known of an environment before it is used."""

    layout: Layout
    name: str
    state_size: int
    draws: bool
    """Whether `render()` gives pictures."""


class Group:
    """Several environments of one kind; an error names the environment and what went wrong."""

    def __init__(
        self,
        factory: Callable[[], Any] | str,
        first: int,
        count: int,
        episode_limit: int | None = None,
        order: tuple[str, ...] = (),
    ) -> None:
        """`first` is the number of the first one, as people are told it; `order` of the agents."""
        self._first, self._limit = first, episode_limit
        self._name = factory if isinstance(factory, str) else str(getattr(factory, "__name__", ""))
        with self._telling(0, "be made"):
            make = resolve(factory) if isinstance(factory, str) else factory
            self._envs = [make() for _ in range(count)]
            self._name = _find_name(self._envs[0])
            self._layout = convert.read_layout(self._envs[0], order)
        self.begin(0)

    def describe(self) -> About:
        """Resets the first environment, as nothing else tells whether there is a global state."""
        with self._telling(0, "be reset"):
            self._envs[0].reset(seed=0)
            state = convert.read_state(self._envs[0])
        draws = getattr(self._envs[0], "render_mode", None) == "rgb_array"
        return About(self._layout, self._name, 0 if state is None else state.size, draws)

    def begin(self, state_size: int) -> None:
        """What `describe` has found, told to every group."""
        self._state_size = state_size
        self._last: list[Frame] = [self._blank(state_size)] * len(self._envs)

    def reset(self, which: list[int], seeds: list[int]) -> list[Frame]:
        """First frames of episodes with these seeds, in these environments."""
        for index, seed in zip(which, seeds, strict=True):
            with self._telling(index, f"be reset with seed {seed}"):
                self._last[index] = self._reset(index, seed)
        return [self._last[index] for index in which]

    def step(self, actions: np.ndarray) -> list[Frame]:
        """Next frames of all environments; those that have ended repeat their last."""
        for index, last in enumerate(self._last):
            if not last.is_over:
                with self._telling(index, f"make step {last.step_count + 1}"):
                    self._last[index] = self._step(index, actions[index])
        return list(self._last)

    def draw(self, index: int) -> np.ndarray:
        """A picture of an environment as it is now, uint8 [height, width, 3]."""
        with self._telling(index, "be drawn"):
            found = np.asarray(self._envs[index].render())
            if found.dtype != np.uint8 or found.ndim != 3 or found.shape[2] not in (3, 4):
                raise OryxError(f"render() gave {found.dtype} {found.shape}, not a picture")
        return found[..., :3]

    def close(self) -> None:
        """An environment that cannot be closed, or fails to, costs nobody the score."""
        for env in self._envs:
            with suppress(Exception):
                env.close()

    def _reset(self, index: int, seed: int) -> Frame:
        env, blank = self._envs[index], self._blank(self._state_size)
        observations, infos = env.reset(seed=seed)
        begun = blank._replace(terminal=np.zeros_like(blank.terminal))
        return self._look(env, begun, observations, infos)

    def _step(self, index: int, actions: np.ndarray) -> Frame:
        env, last, layout = self._envs[index], self._last[index], self._layout
        acted = convert.to_dict(layout, actions, env.agents)
        observations, rewards, terminations, truncations, infos = env.step(acted)
        terminal = convert.by_agent(layout, terminations, np.bool_)
        truncated = convert.by_agent(layout, truncations, np.bool_) & ~terminal
        count = last.step_count + 1
        is_last = (
            convert.is_over(layout, terminal | truncated, last.agent_mask, env.agents)
            or (terminal | truncated).all()
            or count == self._limit
        )
        if is_last:
            terminal, truncated = convert.end_all(terminal, last.agent_mask)
        after = last._replace(
            rewards=convert.by_agent(layout, rewards, np.float32),
            terminal=terminal,
            truncated=truncated,
            step_count=count,
        )
        return self._look(env, after, observations, infos)

    def _look(self, env: Any, frame: Frame, observations: Any, infos: Any) -> Frame:
        """The frame with what is seen and told now; it has the ends of this step already."""
        seen = convert.look(self._layout, observations, infos, env.agents)
        frame = frame._replace(
            features=seen.features,
            action_mask=seen.action_mask | ~seen.agent_mask[:, None],  # absent: without meaning
            agent_mask=seen.agent_mask,
            metrics={**frame.metrics, **convert.read_metrics(infos, RESERVED)},
        )
        # After an end many environments cannot tell their state, and nobody needs it.
        if self._state_size and not frame.is_over:
            frame = frame._replace(state=self._read_state(env))
        _require_usable(frame, self._layout)
        return frame

    def _read_state(self, env: Any) -> np.ndarray:
        state = convert.read_state(env)
        if state is None or state.size != self._state_size:
            found = "none" if state is None else f"{state.size} numbers"
            raise OryxError(f"its global state had {self._state_size} numbers, now {found}")
        return state.astype(np.float32)

    def _blank(self, state_size: int) -> Frame:
        """Of an environment that has not begun: nobody is there, everything has ended."""
        agents, size = len(self._layout.agents), self._layout.common.size
        return Frame(
            np.zeros((agents, max(self._layout.observation_sizes)), self._layout.dtype),
            np.ones((agents, size), bool),
            np.zeros(agents, bool),
            np.zeros(agents, np.float32),
            np.ones(agents, bool),
            np.zeros(agents, bool),
            0,
            np.zeros(state_size, np.float32) if state_size else None,
            {},
        )

    @contextmanager
    def _telling(self, index: int, what: str) -> Iterator[None]:
        """Errors of a user's environment become one that names it."""
        try:
            yield
        except Exception as error:  # a user's environment may raise anything
            where = traceback.extract_tb(error.__traceback__)[-1]
            raise OryxError(
                f"environment '{self._name}' (number {self._first + index}) could not {what}: "
                f"{_tell(error)} ({Path(where.filename).name}, line {where.lineno})"
            ) from error


def serve(connection: Connection) -> None:
    """A worker's life: answers requests until the other end is closed or its process is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's, who then closes
    group: Group | None = None
    while True:
        try:
            name, arguments = connection.recv()
        except (EOFError, OSError):
            break
        except Exception as error:  # what a factory needs may be missing here
            connection.send((UNREADABLE, _tell(error)))
            continue
        try:
            if name == "open":
                group = Group(*arguments)
                answer = None
            else:
                answer = getattr(group, name)(*arguments)
            connection.send((DONE, answer))
        except (BrokenPipeError, ConnectionResetError):
            break
        except Exception as error:
            connection.send((FAILED, str(error)))
    if group is not None:
        group.close()


def _tell(error: Exception) -> str:
    """An error in words; the text of ours speaks for itself."""
    return str(error) if isinstance(error, OryxError) else f"{type(error).__name__}: {error}"


def _find_name(env: Any) -> str:
    metadata = getattr(env, "metadata", None) or {}
    return str(metadata.get("name") or type(getattr(env, "unwrapped", env)).__name__)


def _require_usable(frame: Frame, layout: Layout) -> None:
    """Raises where a policy could not act on what is seen, or a return could not be told."""
    for name, array in (("sees", frame.features), ("got", frame.rewards[:, None])):
        if not np.isfinite(array).all():
            agent = layout.agents[int(np.argwhere(~np.isfinite(array))[0, 0])]
            raise OryxError(f"agent {agent} {name} a number that is not finite")
    if frame.is_over:
        return
    stuck = frame.agent_mask & ~frame.action_mask.any(axis=-1)
    if stuck.any():
        raise OryxError(f"agent {layout.agents[int(stuck.argmax())]} has no legal action")
