"""Small policies of every algorithm, and random steps to compare their exports on."""

import dataclasses
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from oryx_marl import registry
from oryx_marl.algorithms._making import make_algorithm
from oryx_marl.errors import OryxError
from oryx_marl.policy.artifact import PolicyArtifact
from oryx_marl.policy.contract import NEXT_STATE, STATE, Contract
from oryx_marl.types import ActionSpace, Observation, Spec

SIZES = {
    "width": 16,
    "linear_width": 16,
    "recurrent_width": 16,
    "num_heads": 2,
    "num_blocks": 2,
    "sequence_length": 6,
}
AGENTS, WIDTHS = ("ant", "bee", "cat"), (5, 3, 4)
SPECS = {
    "discrete": Spec("", AGENTS, WIDTHS, ActionSpace("discrete", 4), state_size=6),
    "box": Spec("", AGENTS, WIDTHS, ActionSpace("box", 2, (-1.0, 0.0), (1.0, 3.0))),
}
Arrays = dict[str, np.ndarray]


def shrink(config: Any, sizes: dict[str, int]) -> Any:
    """A config with other sizes, wherever it has them."""
    changes = {}
    for entry in dataclasses.fields(config):
        value = getattr(config, entry.name)
        if dataclasses.is_dataclass(value):
            changes[entry.name] = shrink(value, sizes)
        elif entry.name in sizes:
            changes[entry.name] = sizes[entry.name]
    return replace(config, **changes)


def make_policy(
    name: str, spec: Spec, sizes: dict[str, int] = SIZES, **settings: Any
) -> PolicyArtifact:
    """A policy of two seeds; no weight is as it begins, so that every part of it matters."""
    config = shrink(registry.load("algorithms", name).Config(**settings), sizes)
    algorithm = make_algorithm(name, config, spec)
    keys = jax.vmap(jax.random.key)(jnp.arange(2))
    weights = jax.device_get(algorithm.weights(jax.vmap(algorithm.init)(keys)))
    rng = np.random.default_rng(0)

    def move(leaf: np.ndarray) -> np.ndarray:
        if leaf.dtype != np.float32:
            return leaf
        moved = np.where(np.isfinite(leaf), leaf, 3) + 0.1 * rng.normal(size=leaf.shape)
        return moved.astype(np.float32)

    return PolicyArtifact(name, algorithm, spec, jax.tree.map(move, weights), (4, 7), {})


def combinations() -> list[tuple[str, str]]:
    """Every algorithm with every kind of action that it takes."""
    found = []
    for name in registry.names("algorithms"):
        for kind, spec in SPECS.items():
            module = registry.load("algorithms", name)
            try:
                module.make(module.Config(), spec)
            except OryxError:
                continue
            found.append((name, kind))
    return found


def random_steps(spec: Spec, batch: int, count: int, seed: int = 0) -> Iterator[Arrays]:
    """Inputs but the state: masks, agents that come and go, and episodes that begin anew."""
    rng = np.random.default_rng(seed)
    agents, actions = spec.num_agents, spec.action.size
    steps = np.zeros(batch, np.int32)
    widths = np.arange(spec.observation_size) < np.array(spec.observation_sizes)[:, None]
    for number in range(count):
        reset = (rng.random(batch) < 0.05) | (number == 0)
        steps = np.where(reset, 0, steps + 1).astype(np.int32)
        here = rng.random((batch, agents)) < 0.8
        mask = rng.random((batch, agents, actions)) < 0.7
        mask |= ~mask.any(-1, keepdims=True) | ~here[..., None] | (spec.action.kind == "box")
        draw = rng.gumbel if spec.action.kind == "discrete" else rng.normal
        noise = draw(size=(batch, agents, actions)) * rng.choice([0, 0.3, 1], (batch, 1, 1))
        yield {
            "features": _float(rng.normal(size=(batch, *widths.shape)) * widths * here[..., None]),
            "action_mask": mask,
            "agent_mask": here,
            "reset": reset,
            "step_count": steps,
            "last_rewards": _float(rng.normal(size=(batch, agents)) * ~reset[:, None]),
            "noise": _float(noise),
        }


def _float(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float32)


def first_state(contract: Contract, batch: int) -> Arrays:
    """The state before the first step."""
    start = contract.initial_state
    return {name: np.repeat(leaf[None], batch, axis=0) for name, leaf in start.items()}


def next_state(outputs: Arrays) -> Arrays:
    """The state after a step, as the next one takes it."""
    return {
        name.replace(NEXT_STATE, STATE, 1): value
        for name, value in outputs.items()
        if name.startswith(NEXT_STATE)
    }


class Reference:
    """The policy itself, as a player runs it, given the noise."""

    def __init__(self, artifact: PolicyArtifact, batch: int) -> None:
        weights = jax.tree.map(jnp.asarray, artifact.weights_of())
        self._policy = artifact.algorithm.policy(weights)
        self._act = jax.jit(self._policy.act)
        self.carry = self._policy.init(batch)

    def step(self, inputs: Arrays) -> tuple[np.ndarray, Any]:
        """Actions, and what the policy says of them."""
        shown = Observation(*(jnp.asarray(inputs[name]) for name in Observation._fields))
        self.carry, actions, info = self._act(self.carry, shown, jnp.asarray(inputs["noise"]))
        return np.asarray(actions), info

    @property
    def leaves(self) -> list[np.ndarray]:
        return [np.asarray(leaf) for leaf in jax.tree.leaves(self.carry)]
