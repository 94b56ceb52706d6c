"""Pictures of whole episodes in environments outside JAX, taken while they are played."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from jaxtyping import Int, Num

from oryx_marl.envs.base import HostEnv
from oryx_marl.rollout.host import IDLE, Happened
from oryx_marl.types import Step

MOST_STEPS = 256
"""Steps of a film: from there on it shows every second, fourth, ... step of its episode."""


class Film:
    """One episode: a picture before the first step and after each, or after every so many."""

    def __init__(self, first: np.ndarray) -> None:
        self.frames = [first]
        self.actions: list[Num[np.ndarray, " N"] | Num[np.ndarray, "N A"]] = []
        """[N] or [N, A]: what was done at each picture but the last."""
        self.rewards: list[float] = []
        """What came of it until the next one, mean over agents."""
        self.every = 1
        """Steps from one picture to the next."""
        self.steps = 0

    def add(
        self,
        actions: Num[np.ndarray, "N"] | Num[np.ndarray, "N A"],
        reward: float,
        is_last: bool,
        draw: Callable[[], np.ndarray],
    ) -> None:
        """The next step; `draw` gives a picture after it, where one is wanted."""
        if self.steps % self.every == 0:
            if len(self.actions) == MOST_STEPS:
                self._thin()
            self.actions.append(actions)
            self.rewards.append(0.0)
        self.rewards[-1] += reward
        self.steps += 1
        if is_last or self.steps % self.every == 0:
            self.frames.append(draw())

    def _thin(self) -> None:
        """Drops every second picture."""
        self.every *= 2
        self.frames, self.actions = self.frames[::2], self.actions[::2]
        self.rewards = np.add.reduceat(self.rewards, np.arange(0, len(self.rewards), 2)).tolist()


class Filmed:
    """A HostEnv that takes a picture at each beginning, before anybody has acted."""

    def __init__(self, env: Any) -> None:
        self._env = env
        self.spec, self.name, self.num_envs = env.spec, env.name, env.num_envs
        self.action_names, self.return_name = env.action_names, env.return_name
        self.films: list[Film | None] = [None] * env.num_envs
        """Those that are being taken, by environment."""

    def reset(self, which: Int[np.ndarray, " K"], seeds: Int[np.ndarray, " K"]) -> Step:
        first = self._env.reset(which, seeds)
        for index in which.tolist():
            self.films[index] = Film(self._env.render_rgb(index))
        return first

    def step(self, actions: Num[np.ndarray, "E N"] | Num[np.ndarray, "E N A"]) -> Step:
        return self._env.step(actions)

    def close(self) -> None:
        self._env.close()


def film_episodes(env: Any, walk: Callable[[HostEnv], Iterator[Happened]]) -> list[Film]:
    """Films of the numbered episodes that `walk` plays, of an environment with `render_rgb`."""
    filmed, found = Filmed(env), dict[int, Film]()
    for step in walk(filmed):
        for index in np.flatnonzero(step.episodes != IDLE).tolist():
            film = filmed.films[index]
            assert film is not None
            reward = float(np.mean(step.after.rewards[index], dtype=np.float64))
            film.add(
                step.actions[index],
                reward,
                bool(step.ended[index]),
                lambda index=index: env.render_rgb(index),  # type: ignore[misc]
            )
            found[int(step.episodes[index])] = film
    return [film for _, film in sorted(found.items())]
