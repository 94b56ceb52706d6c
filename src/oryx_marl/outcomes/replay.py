"""A few recorded episodes with their pictures, for the page."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int

from oryx_marl.envs.base import Env, HostEnv, find_script, is_host, require_jax
from oryx_marl.eval.evaluator import Evaluator
from oryx_marl.outcomes._film import film_episodes
from oryx_marl.rollout.episodes import Trajectories
from oryx_marl.runs.replay import Episode, Inputs

MOST_NOISE = 2**20
"""Numbers of noise that an episode is recorded with: 4 MB."""


class Recorded(NamedTuple):
    """Episodes that were played; pictures are drawn when an episode is asked for."""

    lengths: tuple[int, ...]
    """Pictures of each."""
    size: tuple[int, int]
    """Height and width of a picture."""
    episodes: Iterator[Episode]


def make_replay(
    evaluator: Evaluator, weights: Any, stream: int, episodes: int, temperature: float = 1.0
) -> list[Episode]:
    """The same as `record`, all drawn."""
    return list(record(evaluator, weights, stream, episodes, temperature).episodes)


def record(
    evaluator: Evaluator, weights: Any, stream: int, episodes: int, temperature: float = 1.0
) -> Recorded:
    """Episodes of the first seed, of an environment with `render_rgb`."""
    if is_host(evaluator.env):
        return _record_on_host(evaluator, weights, stream, episodes, temperature)
    env = require_jax(evaluator.env, "a replay")
    recorded = evaluator.record_trajectories(weights, stream, episodes, temperature)
    played = jax.device_get(recorded)
    lengths = tuple(int(length) + 1 for length in played.live.sum(axis=0))
    height, width, _ = env.render_rgb(jax.tree.map(lambda x: x[0, 0], played.states)).shape
    drawn = (_draw(env, played, index) for index in range(episodes))
    return Recorded(lengths, (height, width), drawn)


def _draw(env: Env, played: Trajectories, index: int) -> Episode:
    """One of the episodes that were played side by side."""
    length = int(played.live[:, index].sum())
    states = [jax.tree.map(lambda x: x[t, index], played.states) for t in range(length)]  # noqa: B023
    states.append(jax.tree.map(lambda x: x[index], played.last))
    rewards = played.rewards[:length, index]
    return Episode(
        title=f"episode {index + 1}",
        episode_return=float(rewards.sum()),
        frames=np.stack([env.render_rgb(each) for each in states]),
        actions=tuple(
            tuple(caption(env, np.asarray(action)) for action in played.actions[t, index])
            for t in range(length)
        ),
        rewards=tuple(rewards.tolist()),
        inputs=_inputs(env, played, index, length),
    )


def _inputs(env: Env, played: Trajectories, index: int, length: int) -> Inputs | None:
    """What an episode came of, where a page can play the environment."""
    noise, space = played.noise, env.spec.action
    if find_script(env.spec) is None or space.kind != "discrete":
        return None
    if length * env.spec.num_agents * space.size > MOST_NOISE:
        return None
    start = jax.tree.map(lambda x: x[0, index].tolist(), played.states)
    return Inputs(
        start._asdict(),
        np.asarray(played.actions[:length, index], np.int32),
        np.asarray(noise[:length, index], np.float32),
    )


def _record_on_host(
    evaluator: Evaluator, weights: Any, stream: int, episodes: int, temperature: float
) -> Recorded:
    env = evaluator.env
    assert is_host(env)
    films = film_episodes(
        env, lambda filmed: evaluator.walk(filmed, weights, stream, episodes, temperature)
    )
    found = [
        Episode(
            title=f"episode {index + 1}" + (f", every {film.every}th step" * (film.every > 1)),
            episode_return=float(sum(film.rewards)),
            frames=np.stack(film.frames),
            actions=tuple(
                tuple(caption(env, np.asarray(action)) for action in acted)
                for acted in film.actions
            ),
            rewards=tuple(film.rewards),
            every=film.every,
            steps=film.steps,
        )
        for index, film in enumerate(films)
    ]
    lengths = tuple(len(episode.frames) for episode in found)
    height, width = found[0].frames.shape[1:3]
    return Recorded(lengths, (height, width), iter(found))


def caption(env: Env | HostEnv, action: Int[np.ndarray, ""] | Float[np.ndarray, " A"]) -> str:
    """An action in words: the name of an id, or the numbers of a vector."""
    if np.ndim(action) == 0:
        return env.action_names[int(action)]
    return " ".join(f"{value:+.2f}" for value in action)
