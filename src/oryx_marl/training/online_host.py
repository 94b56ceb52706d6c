"""Learning in environments outside JAX: roll-outs on the host, updates in compiled calls.

The state of a simulator cannot be saved in general, so a checkpoint holds none: when a run is
resumed all environments begin new episodes, and what was recorded of unfinished ones is dropped.
From there on everything follows from the seed and the update's number, as in JAX.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from oryx_marl.algorithms.base import Algorithm
from oryx_marl.data.record.segments import Recorder
from oryx_marl.envs.base import HostEnv
from oryx_marl.errors import OryxError
from oryx_marl.rollout.collect import Steps
from oryx_marl.rollout.collect_host import Ended, HostActors, begin, collect
from oryx_marl.training.loop import Metrics
from oryx_marl.training.online import WORLD_STREAM, as_recorded
from oryx_marl.types import Experience


class Latest(NamedTuple):
    """What is logged until the next episode ends, [S]; all that a checkpoint has of the source."""

    latest_return: jax.Array
    latest_ended: jax.Array


def require_fit(env: HostEnv, algorithm: Algorithm, seeds: int) -> None:
    """Raises unless an algorithm can learn in an environment with so many seeds."""
    if seeds != 1:
        raise OryxError(
            f"'{env.name}' runs outside JAX, where one seed is trained at a time, not {seeds}; "
            "train further seeds in runs of their own, by first_seed"
        )
    if env.num_envs != algorithm.batch_size:
        raise OryxError(
            f"'{env.name}' steps {env.num_envs} environments together, but num_envs is "
            f"{algorithm.batch_size}; make both the same"
        )


@dataclass(eq=False)
class HostSource:
    """A Source of roll-outs in a HostEnv; every step may be recorded. See `online.EnvSource`."""

    env: HostEnv
    recorder: Recorder | None = None
    keep: Callable[[int, Any], None] = lambda update, weights: None
    num_recorded: int | None = None
    _actors: HostActors | None = field(default=None, init=False)

    def init(self, algorithm: Algorithm, learners: Any, keys: jax.Array) -> Latest:
        require_fit(self.env, algorithm, len(keys))
        return Latest(jnp.zeros(1), jnp.zeros(1))

    def advance(
        self,
        algorithm: Algorithm,
        num_updates: int,
        learners: Any,
        source_state: Latest,
        keys: jax.Array,
        first: int,
    ) -> tuple[Any, Latest, Metrics]:
        recorded: list[dict[str, np.ndarray]] = []
        logged: list[Metrics] = []
        latest = float(source_state.latest_return[0])
        ended = Ended(0, 0.0)
        for number in range(first + 1, first + num_updates + 1):
            act_key, update_key = jax.random.split(jax.random.fold_in(keys[0], number))
            weights = jax.tree.map(lambda x: x[0], algorithm.weights(learners))
            if self._actors is None:
                self._begin(algorithm, weights, jax.random.fold_in(act_key, WORLD_STREAM))
            assert self._actors is not None
            self._actors, experience, steps, ended = collect(
                algorithm, self.env, weights, self._actors, act_key
            )
            learners, metrics = _learn(algorithm, learners, experience, update_key)
            latest = ended.total_return / ended.number if ended.number else latest
            found = {"return": jnp.full(1, latest), "episodes": jnp.full(1, float(ended.number))}
            logged.append(metrics | found)
            if self.recorder is not None:
                recorded.append(self._take(steps))
        if self.recorder is not None:
            self._record(first + num_updates, recorded, algorithm, learners)
        means = jax.tree.map(lambda *x: jnp.mean(jnp.stack(x), axis=0), *logged)
        return learners, Latest(jnp.full(1, latest), jnp.full(1, float(ended.number))), means

    def _begin(self, algorithm: Algorithm, weights: Any, key: jax.Array) -> None:
        """New episodes everywhere, at the start of a run and wherever it is resumed."""
        if self.recorder is not None:
            self.recorder.drop_unfinished()
        self._actors = begin(algorithm, self.env, weights, key)

    def _take(self, steps: Steps) -> dict[str, np.ndarray]:
        """Steps [T, E, ...] of the environments that are recorded, as [B, T, ...]."""
        count = self.num_recorded or self.env.num_envs
        arrays = as_recorded(steps, self.env.spec)
        return {name: array[:, :count].swapaxes(0, 1) for name, array in arrays.items()}

    def _record(
        self, update: int, parts: list[dict[str, np.ndarray]], algorithm: Algorithm, learners: Any
    ) -> None:
        assert self.recorder is not None
        joined = {name: np.concatenate([part[name] for part in parts], 1) for name in parts[0]}
        self.recorder.append(update, joined)
        self.keep(update, jax.tree.map(lambda x: x[0], algorithm.weights(learners)))


@partial(jax.jit, static_argnames="algorithm", donate_argnames="learners")
def _learn(
    algorithm: Algorithm, learners: Any, experience: Experience, key: jax.Array
) -> tuple[Any, Metrics]:
    """The update of the only seed."""
    learner, metrics = algorithm.update(jax.tree.map(lambda x: x[0], learners), experience, key)
    return jax.tree.map(lambda x: x[None], (learner, metrics))
