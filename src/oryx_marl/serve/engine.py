"""One step of many episodes at once: compiled for a few sizes of the batch, and nothing else.

Rows do not know of each other: numbers in one cannot change the answer to another.
"""

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Float32, UInt8

from oryx_marl.policy.arranging import Arranged
from oryx_marl.policy.artifact import PolicyArtifact
from oryx_marl.policy.contract import NOISE, make_contract
from oryx_marl.serve.layout import StateLayout

GROWTH = 4
"""Ratio of the sizes of batches that are compiled."""


@dataclass(frozen=True, eq=False)
class Row:
    """A step of one episode."""

    shown: Arranged
    step_count: int
    """Steps since the episode began; at 0 the state is the initial one."""
    noise: np.ndarray | None
    """[N, A] float32, times the temperature; None is greedy."""
    slot: int = -1
    """Where the session has its state; -1 if there is no session."""
    state: UInt8[np.ndarray, "size"] | None = None
    """What a row without a session brings; None is the initial one."""


class Stepped(NamedTuple):
    """What a batch of rows gives."""

    actions: np.ndarray
    """[B, N] int32, or [B, N, A] float32 of a box."""
    states: UInt8[np.ndarray, "B size"]
    """For the next step."""
    is_number: Bool[np.ndarray, "B"]
    """Whether the row has numbers alone: too large ones overflow in a network."""


class Engine:
    """The policy, and the states of all sessions.

    Args:
        artifact: the policy.
        seed: number of the training's seed (default: the first).
        max_batch: most rows of a step.
        slots: sessions that there can be.
    """

    def __init__(
        self, artifact: PolicyArtifact, seed: int | None, max_batch: int, slots: int
    ) -> None:
        self.spec = artifact.spec
        self.noise = NOISE[artifact.spec.action.kind]
        self.sizes = batch_sizes(max_batch)
        contract = make_contract(artifact, seed)
        self.layout = StateLayout(contract.initial_state)
        chosen = artifact.seeds[0] if seed is None else seed
        identity = f"{artifact.sha256} {chosen} {self.layout.describe()}"
        self.policy_id = hashlib.sha256(identity.encode()).hexdigest()
        """Of the weights and of the form of the state: states of another are refused."""
        self._step = jax.jit(contract.step)
        self._slots = np.zeros((slots, self.layout.size), np.uint8)
        self.longest_step = 0.0
        """Seconds of a step of the largest batch, when it is compiled."""

    @property
    def slot_bytes(self) -> int:
        """Memory of the states of all sessions."""
        return self._slots.nbytes

    def compile(self, tell: Callable[[int, float], None] = lambda *_: None) -> None:
        """Compiles every size of the batch; tells each, and the seconds it took."""
        for size in self.sizes:
            began = time.monotonic()
            self.step([self._empty_row()] * size)
            compiled = time.monotonic()
            tell(size, compiled - began)
            self.step([self._empty_row()] * size)
            self.longest_step = time.monotonic() - compiled

    def draw_noise(
        self, random_seed: int, episode: int, step_count: int
    ) -> Float32[np.ndarray, "N A"]:
        """Standard noise of a step, as the runtime's player draws it: the same numbers."""
        rng = np.random.default_rng([random_seed, episode, step_count])
        size = (self.spec.num_agents, self.spec.action.size)
        drawn = rng.gumbel(size=size) if self.noise == "gumbel" else rng.normal(size=size)
        return drawn.astype(np.float32)

    def step(self, rows: Sequence[Row]) -> Stepped:
        """Actions of all rows; the states of those that have a slot are kept there."""
        count = len(rows)
        size = next(each for each in self.sizes if each >= count)
        filled = [*rows, *[self._empty_row()] * (size - count)]
        outputs = self._step(*self._shown(filled), *self._states(filled), self._noise(filled))
        actions, *rest = (np.asarray(each)[:count] for each in outputs)
        parts, told = rest[: len(self.layout.names)], rest[len(self.layout.names) :]
        is_number = np.ones(count, bool)
        for each in (actions, *parts, *told):
            if each.dtype.kind == "f":
                is_number &= ~np.isnan(each).reshape(count, -1).any(axis=1)
        states = self.layout.pack(parts, count)
        kept = [i for i, row in enumerate(rows) if row.slot >= 0 and is_number[i]]
        self._slots[[rows[i].slot for i in kept]] = states[kept]
        return Stepped(actions, states, is_number)

    def _shown(self, rows: Sequence[Row]) -> list[np.ndarray]:
        """The fields of an Observation, in their order."""
        steps = np.array([row.step_count for row in rows], np.int32)
        return [
            np.stack([row.shown.features for row in rows]),
            np.stack([row.shown.action_mask for row in rows]),
            np.stack([row.shown.agent_mask for row in rows]),
            steps == 0,
            steps,
            np.stack([row.shown.last_rewards for row in rows]),
        ]

    def _states(self, rows: Sequence[Row]) -> list[np.ndarray]:
        states = np.tile(self.layout.initial, (len(rows), 1))
        # Also where an episode begins, which the policy is told: a slot has another session's past.
        going = [i for i, row in enumerate(rows) if row.slot >= 0 and row.step_count > 0]
        states[going] = self._slots[[rows[i].slot for i in going]]
        for i, row in enumerate(rows):
            if row.state is not None:
                states[i] = row.state
        return self.layout.unpack(states)

    def _noise(self, rows: Sequence[Row]) -> np.ndarray:
        noise = np.zeros((len(rows), self.spec.num_agents, self.spec.action.size), np.float32)
        for i, row in enumerate(rows):
            if row.noise is not None:
                noise[i] = row.noise
        return noise

    def _empty_row(self) -> Row:
        agents, actions = self.spec.num_agents, self.spec.action.size
        shown = Arranged(
            np.zeros((agents, self.spec.observation_size), np.float32),
            np.ones((agents, actions), bool),
            np.ones(agents, bool),
            np.zeros(agents, np.float32),
        )
        return Row(shown, 0, None)


def batch_sizes(most: int) -> tuple[int, ...]:
    """1, 4, 16 ... up to the largest batch: few to compile, and at most 3/4 of a batch idle."""
    sizes = [1]
    while sizes[-1] * GROWTH < most:
        sizes.append(sizes[-1] * GROWTH)
    return (*sizes, most) if most > 1 else (1,)
