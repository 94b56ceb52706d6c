"""The pictures of docs/reference/environments.md: `python benchmarks/environment_pictures.py`."""

import itertools
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from oryx_marl.envs import base
from oryx_marl.eval.uniform import uniform_policy
from oryx_marl.report import png
from oryx_marl.rollout import episodes as rollout
from oryx_marl.rollout import host
from oryx_marl.rollout.episodes import Trajectories

PICTURES = Path(__file__).parent.parent / "docs" / "pictures"
SCENES = {
    "tmaze": 9,
    "con-10x10x10a": 7,
    "smacv2_10_units": 12,
    "rware-small-6ag-easy": 60,
    "rware-4x9x8-100ag": 60,
    "hanabi": 5,
    "anticoordination-60": 4,
    "recall-60": 50,
    "mamujoco-halfcheetah-6x1": 20,
}
"""Which step of a random episode is shown."""


@partial(jax.jit, static_argnums=0)
def _play(env: base.Env, key: jax.Array) -> Trajectories:
    return rollout.record_trajectories(env, uniform_policy(env.spec), key, 1)


def _draw_on_host(env: Any, number: int) -> np.ndarray:
    steps = host.walk(env, uniform_policy(env.spec), jax.random.key(1), 1)
    next(itertools.islice(steps, number - 1, None))
    return env.render_rgb(0)


def draw(name: str) -> bytes:
    """A PNG of one environment in mid-episode."""
    env = base.make_named(name, num_envs=1)
    if base.is_host(env):
        return png.encode(_draw_on_host(env, SCENES[name]))
    states = _play(env, jax.random.key(1)).states
    state = jax.tree.map(lambda x: x[SCENES[name], 0], states)
    return png.encode(env.render_rgb(state))


def main() -> None:
    for name in SCENES:
        (PICTURES / f"{name}.png").write_bytes(draw(name))
        print(PICTURES / f"{name}.png")


if __name__ == "__main__":
    main()
