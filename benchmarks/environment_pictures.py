"""The pictures of docs/reference/environments.md: `python benchmarks/environment_pictures.py`."""

from functools import partial
from pathlib import Path

import jax

from oryx_marl.envs import base
from oryx_marl.eval.uniform import uniform_policy
from oryx_marl.report import png
from oryx_marl.rollout import episodes as rollout
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
}
"""Which step of a random episode is shown."""


@partial(jax.jit, static_argnums=0)
def _play(env: base.Env, key: jax.Array) -> Trajectories:
    return rollout.record_trajectories(env, uniform_policy(env.spec), key, 1)


def draw(name: str) -> bytes:
    """A PNG of one environment in mid-episode."""
    env = base.make_named(name)
    states = _play(env, jax.random.key(1)).states
    state = jax.tree.map(lambda x: x[SCENES[name], 0], states)
    return png.encode(env.render_rgb(state))


def main() -> None:
    for name in SCENES:
        (PICTURES / f"{name}.png").write_bytes(draw(name))
        print(PICTURES / f"{name}.png")


if __name__ == "__main__":
    main()
