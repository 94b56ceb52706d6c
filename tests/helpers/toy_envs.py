"""The toy game "meet" as a JAX environment: with continuous actions, or with discrete ones of which
every one is legal. `parallel_env()` is the same game behind PettingZoo's interface."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from toy_parallel import AGENTS, LIMIT, NEAR, REACH, parallel_env

from oryx_marl.types import ActionSpace, Observation, Spec, Step

__all__ = ["MeetEnv", "make", "parallel_env"]


class State(NamedTuple):
    positions: jax.Array
    targets: jax.Array
    step_count: jax.Array


class MeetEnv:
    """Each agent has a position in [-1, 1] and a target; it is paid minus the distance to it."""

    name = "meet"
    version = 1
    return_name = "return"
    feature_range = (-1.0, 1.0)
    reset_pool_rate = 0.0
    num_starts: int | None = None

    def __init__(self, num_moves: int = 0) -> None:
        """With `num_moves` actions are as many discrete moves, evenly from left to right."""
        self.num_moves = num_moves
        self.spec = Spec(
            environment="toy_envs",
            agents=AGENTS,
            observation_sizes=(2,) * len(AGENTS),
            action=ActionSpace("discrete", num_moves)
            if num_moves
            else ActionSpace("box", 1, (-1.0,), (1.0,)),
            episode_limit=LIMIT,
            shared_reward=False,
            environment_config={"num_moves": num_moves} if num_moves else {},
        )
        self.action_names = tuple(f"move {index}" for index in range(num_moves)) or ("move",)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.num_moves == other.num_moves

    def __hash__(self) -> int:
        return hash((type(self), self.num_moves))

    def reset(self, key: jax.Array) -> tuple[State, Step]:
        draws = jax.random.uniform(key, (2, len(AGENTS)), minval=-1.0)
        state = State(draws[0], draws[1], jnp.int32(0))
        return state, self._answer(state, jnp.zeros(len(AGENTS)))

    def step(self, state: State, actions: jax.Array, key: jax.Array) -> tuple[State, Step]:
        if self.num_moves:
            moves = jnp.linspace(-1.0, 1.0, self.num_moves)[actions]
        else:
            moves = actions[:, 0]
        positions = jnp.clip(state.positions + REACH * moves, -1.0, 1.0)
        state = State(positions, state.targets, state.step_count + 1)
        return state, self._answer(state, -jnp.abs(positions - state.targets))

    def _answer(self, state: State, rewards: jax.Array) -> Step:
        distances = jnp.abs(state.positions - state.targets)
        observation = Observation(
            features=jnp.stack([state.positions, state.targets], axis=1),
            action_mask=jnp.ones((len(AGENTS), self.spec.action.size), bool),
            agent_mask=jnp.ones(len(AGENTS), bool),
            reset=state.step_count == 0,
            step_count=state.step_count,
        )
        return Step(
            observation,
            rewards,
            terminal=jnp.zeros(len(AGENTS), bool),
            truncated=jnp.full(len(AGENTS), state.step_count >= LIMIT),
            metrics={"near": jnp.mean(distances < NEAR, dtype=jnp.float32)},
        )

    def render_text(self, state: State) -> str:
        return " ".join(f"{x:+.1f}>{y:+.1f}" for x, y in zip(*state[:2], strict=True))

    def render_rgb(self, state: State) -> np.ndarray:
        """A line per agent: its target green, itself white."""
        picture = np.zeros((len(AGENTS), 21, 3), np.uint8)
        for row, (position, target) in enumerate(zip(*state[:2], strict=True)):
            picture[row, round(10 + 10 * float(target))] = (0, 160, 0)
            picture[row, round(10 + 10 * float(position))] = 255
        return picture


def make(**config: Any) -> MeetEnv:
    return MeetEnv(**config)
