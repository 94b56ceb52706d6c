"""A small game with two agents whose values are exact: three states, two actions each, three steps.

Both agents see the state. Joint actions that agree tend to move up a state, others down; the reward
is larger in higher states and where the agents differ in the highest. So good play needs both
agents, and the present action matters as much as what follows.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from oryx_marl.algorithms import bc
from oryx_marl.algorithms.base import Policy
from oryx_marl.data.dataset import Dataset
from oryx_marl.ops.distributions import Categorical, categorical
from oryx_marl.policy.artifact import PolicyArtifact
from oryx_marl.types import ActionSpace, Observation, Spec, Window

STATES, ACTIONS, LENGTH = 3, 2, 3
SPEC = Spec(
    "", ("one", "two"), (STATES, STATES), ActionSpace("discrete", ACTIONS), episode_limit=LENGTH
)
UP = 0.8
"""Probability to move up when the agents agree, and down when they differ."""


@dataclass(frozen=True, eq=False)
class Tabular:
    """A joint policy: probability of each joint action by step and state."""

    odds: Float[np.ndarray, "T states 2 2"]

    @staticmethod
    def uniform() -> "Tabular":
        return Tabular(np.full((LENGTH, STATES, ACTIONS, ACTIONS), 0.25))

    @staticmethod
    def coordinated(agree: float = 0.9) -> "Tabular":
        """Agrees below the highest state and differs in it."""
        odds = np.zeros((LENGTH, STATES, ACTIONS, ACTIONS))
        same = np.eye(ACTIONS) / 2
        for state in range(STATES):
            share = agree if state < STATES - 1 else 1 - agree
            odds[:, state] = share * same + (1 - share) * (0.5 - same)
        return Tabular(odds)

    def value(self) -> float:
        """Expected return by dynamic programming, from state 0."""
        following = np.zeros(STATES)
        for step in reversed(range(LENGTH)):
            now = np.zeros(STATES)
            for state in range(STATES):
                for pair in np.ndindex(ACTIONS, ACTIONS):
                    q = reward(state, pair) + move(state, pair) @ following
                    now[state] += self.odds[step, state][pair] * q
            following = now
        return float(following[0])


def reward(state: int, pair: tuple[int, ...]) -> float:
    return float(state) + (1.0 if state == STATES - 1 and pair[0] != pair[1] else 0.0)


def move(state: int, pair: tuple[int, ...]) -> Float[np.ndarray, " states"]:
    up = UP if pair[0] == pair[1] else 1 - UP
    odds = np.zeros(STATES)
    odds[min(state + 1, STATES - 1)] += up
    odds[max(state - 1, 0)] += 1 - up
    return odds


def play(
    policy: Tabular, episodes: int, seed: int = 0
) -> tuple[Int[np.ndarray, "E T"], Int[np.ndarray, "E T 2"], Float[np.ndarray, "E T"]]:
    """States, joint actions and rewards of logged episodes."""
    generator = np.random.default_rng(seed)
    states = np.zeros((episodes, LENGTH), int)
    actions = np.zeros((episodes, LENGTH, 2), int)
    rewards = np.zeros((episodes, LENGTH))
    state = np.zeros(episodes, int)
    moves = np.array([[[move(s, (a, b)) for b in range(2)] for a in range(2)] for s in range(3)])
    gains = np.array([[[reward(s, (a, b)) for b in range(2)] for a in range(2)] for s in range(3)])
    for step in range(LENGTH):
        odds = policy.odds[step][state].reshape(episodes, -1).cumsum(axis=1)
        drawn = (generator.random((episodes, 1)) > odds).sum(axis=1)
        first, second = drawn // ACTIONS, drawn % ACTIONS
        states[:, step], actions[:, step] = state, np.stack([first, second], axis=1)
        rewards[:, step] = gains[state, first, second]
        chances = moves[state, first, second].cumsum(axis=1)
        state = (generator.random((episodes, 1)) > chances).sum(axis=1)
    return states, actions, rewards


def log_odds(
    policy: Tabular, states: Int[np.ndarray, "E T"], actions: Int[np.ndarray, "E T 2"]
) -> Float[np.ndarray, "E T"]:
    """True log-probabilities of logged joint actions."""
    steps = np.broadcast_to(np.arange(LENGTH), states.shape)
    return np.log(policy.odds[steps, states, actions[..., 0], actions[..., 1]])


def as_dataset(policy: Tabular, episodes: int, seed: int = 0) -> Dataset:
    """Logged episodes that end by the task's end."""
    states, actions, rewards = play(policy, episodes, seed)
    rows = episodes * LENGTH
    ends = np.zeros((rows, 2), bool)
    ends[LENGTH - 1 :: LENGTH] = True
    seen = np.eye(STATES, dtype=np.float32)[states.reshape(-1)]
    return Dataset(
        SPEC,
        np.repeat(seen[:, None], 2, axis=1),
        actions.reshape(-1, 2).astype(np.int32),
        np.repeat(rewards.reshape(-1, 1), 2, axis=1).astype(np.float32),
        ends,
        np.zeros_like(ends),
        np.arange(0, rows, LENGTH),
        name="tabular",
    )


class Exact(bc.BC):
    """A tabular joint policy as an Algorithm: agent two knows what agent one does."""

    def __init__(self, table: Tabular) -> None:
        super().__init__(bc.Config(sequence_length=LENGTH), SPEC)
        object.__setattr__(self, "table", table)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def distribution(
        self, weights: Any, window: Window, carry: Any = None
    ) -> tuple[Categorical, Any]:
        first, second = self._logits(window.observation, window.actions[..., 0])
        logits = jnp.stack([first, second], axis=-2)
        return categorical(logits, window.observation.action_mask), carry

    def policy(self, weights: Any) -> Policy:
        def act(carry: Any, observation: Observation, noise: Any) -> tuple[Any, Any, Any]:
            first = jnp.argmax(self._logits(observation, None)[0] + noise[:, 0], axis=-1)
            second = jnp.argmax(self._logits(observation, first)[1] + noise[:, 1], axis=-1)
            return carry, jnp.stack([first, second], axis=-1).astype(jnp.int32), {}

        return Policy(
            lambda batch: jnp.zeros(batch), act, lambda key, b: jax.random.gumbel(key, (b, 2, 2))
        )

    def _logits(self, observation: Observation, first: Any) -> tuple[Any, Any]:
        state = observation.features[..., 0, :].argmax(axis=-1)
        odds = jnp.asarray(self.table.odds, jnp.float32)
        joint = odds[jnp.minimum(observation.step_count, LENGTH - 1), state]
        own = joint.sum(axis=-1)
        if first is None:
            return jnp.log(own), None
        taken = jnp.take_along_axis(joint, first[..., None, None], axis=-2)[..., 0, :]
        return jnp.log(own), jnp.log(taken)


def as_policy(table: Tabular) -> PolicyArtifact:
    """The policy as it would come out of a run."""
    weights = {"nothing": np.zeros((1, 1), np.float32)}
    return PolicyArtifact("exact", Exact(table), SPEC, weights, (0,), {}, "hash of the policy")
