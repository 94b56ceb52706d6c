"""Plug-ins for tests: an environment, and packages that look installed."""

from pathlib import Path

LINE = '''
"""Walk: two agents on a line, each rewarded for where it stands; two actions, left and right."""

import jax
import jax.numpy as jnp
import numpy as np

from oryx_marl.types import ActionSpace, Observation, Spec, Step


class Walk:
    version = 3
    action_names = ("left", "right")
    return_name = "return"
    feature_range = (-8.0, 8.0)
    reset_pool_rate = 0.0
    num_starts = None

    def __init__(self, limit=4, agents=2):
        self.name = "walk"
        self.spec = Spec(
            environment="walk",
            agents=tuple(f"agent_{i}" for i in range(agents)),
            observation_sizes=(2,) * agents,
            action=ActionSpace("discrete", 2),
            episode_limit=limit,
            shared_reward=False,
            environment_config={"limit": limit, "agents": agents},
        )

    def __hash__(self):
        return hash(self.spec)

    def __eq__(self, other):
        return isinstance(other, Walk) and self.spec == other.spec

    def reset(self, key):
        places = jax.random.randint(key, (self.spec.num_agents,), -1, 2)
        return (places, jnp.zeros((), jnp.int32)), self._step(places, 0, jnp.zeros(places.shape))

    def step(self, state, actions, key):
        places, count = state[0] + 2 * actions - 1, state[1] + 1
        return (places, count), self._step(places, count, places.astype(jnp.float32))

    def _step(self, places, count, rewards):
        count = jnp.asarray(count, jnp.int32)
        agents = self.spec.num_agents
        features = jnp.stack([places, jnp.broadcast_to(count, places.shape)], 1)
        observation = Observation(
            features.astype(jnp.float32),
            jnp.ones((agents, 2), bool),
            jnp.ones(agents, bool),
            count == 0,
            count,
        )
        ended = jnp.broadcast_to(count >= self.spec.episode_limit, (agents,))
        return Step(observation, rewards, jnp.zeros(agents, bool), ended)

    def render_text(self, state):
        return str(state[0])

    def render_rgb(self, state):
        return np.zeros((4, 4, 3), np.uint8)


def make(**config):
    return Walk(**config)
'''
"""An environment in JAX, to be written as walk.py."""

SLOW = '''
"""Slow: behaviour cloning with a smaller rate."""

from dataclasses import dataclass

from oryx_marl.algorithms import bc


@dataclass(frozen=True)
class Config(bc.Config):
    """Settings."""

    slowness: float = 2.0
    """How many times smaller the rate is."""


def make(config, spec):
    return bc.BC(config, spec)
'''
"""An algorithm, to be a module of a package."""


def install(folder: Path, package: str, code: str, points: dict[str, dict[str, str]]) -> None:
    """Writes a package as an installer would: a module, and what it says of itself.

    `points` are the entry points, by group and name. To be found, `folder` must be on the path.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{package}.py").write_text(code)
    about = folder / f"{package}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (about / "RECORD").write_text("")
    lines = []
    for group, named in points.items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in named.items())]
    (about / "entry_points.txt").write_text("\n".join(lines) + "\n")
