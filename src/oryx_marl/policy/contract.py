"""One step of a policy as a function of arrays alone, by name: what every export promises.

    (features, action_mask, agent_mask, reset, step_count, last_rewards, state ..., noise)
        -> (actions, next_state ..., what is said of the actions)

It keeps nothing: the recurrent state comes in and goes out. It draws nothing: the noise comes in.
Standard noise samples, τ times as much acts at temperature τ, and zeros take the likeliest actions.
Every policy has all inputs; those it makes no use of are marked.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import export
from jax.interpreters.partial_eval import dce_jaxpr
from jaxtyping import Array

from oryx_marl.algorithms.base import Policy
from oryx_marl.ops.distributions import Categorical, SquashedNormal
from oryx_marl.policy.artifact import PolicyArtifact
from oryx_marl.trees import flatten
from oryx_marl.types import Observation, Spec

BATCH = "batch"
"""Name of the first axis of every input and output, whose length is free."""
STATE, NEXT_STATE = "state", "next_state"
NOISE = {"discrete": "gumbel", "box": "normal"}
"""The distribution of the noise, standard and independent in every entry."""
ABOUT = {
    "features": "what each agent sees, filled up with zeros; zeros for absent agents",
    "action_mask": "the actions that each agent may take; all for absent agents and boxes",
    "agent_mask": "the agents that take part in this step",
    "reset": "whether this step begins an episode: the state that comes in is forgotten",
    "step_count": "steps since the episode began",
    "last_rewards": "rewards of the step before, 0 in the first",
    "noise": "standard noise samples, t times as much acts at temperature t, zeros greedily",
    "actions": "of each agent; those of absent agents mean nothing",
    "log_probs": "log-probability of every action, at temperature 1",
    "log_prob": "log-probability of the action taken, at temperature 1",
    "mean": "of the Normal before tanh and bounds, at temperature 1",
    "log_std": "log standard deviation of the Normal before tanh and bounds, at temperature 1",
}


class Contract(NamedTuple):
    """A policy's step, and the arrays it takes and gives."""

    step: Callable[..., tuple[Array, ...]]
    """Takes the inputs and returns the outputs, in their orders."""
    jaxpr: Any
    """The same, traced."""
    inputs: dict[str, jax.ShapeDtypeStruct]
    outputs: dict[str, jax.ShapeDtypeStruct]
    initial_state: dict[str, np.ndarray]
    """Of the inputs that are part of the state, without the axis of the batch."""
    used: frozenset[str]
    """Inputs that make a difference."""
    batch: Any
    """The symbol that stands for the length of the batch in the shapes."""


def make_contract(artifact: PolicyArtifact, seed: int | None = None) -> Contract:
    """The contract of one seed's policy."""
    weights = jax.tree.map(jnp.asarray, artifact.weights_of(seed))
    policy = artifact.algorithm.policy(weights)
    start = policy.init(1)
    names = [f"{STATE}/{name}" if name else STATE for name in flatten(start)]
    (batch,) = export.symbolic_shape(BATCH)
    leaves = jax.tree.leaves(start)
    shown = _shown(artifact.spec, batch)
    noise = jax.ShapeDtypeStruct(shown["action_mask"].shape, jnp.float32)
    state = {
        name: jax.ShapeDtypeStruct((batch, *leaf.shape[1:]), leaf.dtype)
        for name, leaf in zip(names, leaves, strict=True)
    }
    inputs = {**shown, **state, "noise": noise}
    act = _flat(policy, jax.tree.structure(start))
    jaxpr, shapes = jax.make_jaxpr(act, return_shape=True)(*inputs.values())
    after = [name.replace(STATE, NEXT_STATE, 1) for name in names]
    given = ["actions", *after, *sorted(shapes[2])]
    _, is_used = dce_jaxpr(jaxpr.jaxpr, [True] * len(given))
    return Contract(
        lambda *arguments: tuple(jax.tree.leaves(act(*arguments))),
        jaxpr,
        inputs,
        dict(zip(given, jax.tree.leaves(shapes), strict=True)),
        {name: np.asarray(leaf[0]) for name, leaf in zip(names, leaves, strict=True)},
        frozenset(name for name, each in zip(inputs, is_used, strict=True) if each),
        batch,
    )


def _shown(spec: Spec, batch: Any) -> dict[str, jax.ShapeDtypeStruct]:
    """Shapes of the fields of an Observation."""
    agents, actions = (batch, spec.num_agents), (batch, spec.num_agents, spec.action.size)
    shapes = {
        "features": jax.ShapeDtypeStruct((*agents, spec.observation_size), jnp.float32),
        "action_mask": jax.ShapeDtypeStruct(actions, jnp.bool_),
        "agent_mask": jax.ShapeDtypeStruct(agents, jnp.bool_),
        "reset": jax.ShapeDtypeStruct((batch,), jnp.bool_),
        "step_count": jax.ShapeDtypeStruct((batch,), jnp.int32),
        "last_rewards": jax.ShapeDtypeStruct(agents, jnp.float32),
    }
    return {name: shapes[name] for name in Observation._fields}


def _flat(policy: Policy, structure: Any) -> Callable[..., tuple[Array, Any, dict[str, Array]]]:
    """`act` of flat arguments: actions, recurrent state, and what is said of the actions."""
    count = len(Observation._fields)

    def act(*arguments: Array) -> tuple[Array, Any, dict[str, Array]]:
        carry = jax.tree.unflatten(structure, arguments[count:-1])
        carry, actions, info = policy.act(carry, Observation(*arguments[:count]), arguments[-1])
        return actions, carry, describe_actions(info, actions)

    return act


def describe_actions(info: Any, actions: Array | np.ndarray) -> dict[str, Array]:
    """What a policy says of its actions, by name: log-probabilities, or parameters of a Normal.

    Of a vector alone no density is told: near a bound it changes with the vector's last digit.
    """
    if isinstance(info, Categorical):
        return {"log_probs": info.log_probs}
    if isinstance(info, SquashedNormal):
        return {"log_std": info.log_std, "mean": info.mean}
    told = getattr(info, "log_probs", None)
    is_id = jnp.issubdtype(actions.dtype, jnp.integer)
    return {"log_prob": told} if told is not None and is_id else {}


def to_json(contract: Contract, spec: Spec) -> dict[str, Any]:
    """What a program must know to call the step."""
    return {
        "inputs": [_input(contract, name) for name in contract.inputs],
        "outputs": [_entry(name, each) for name, each in contract.outputs.items()],
        "noise": {
            "distribution": NOISE[spec.action.kind],
            "sampled": "standard noise",
            "greedy": "zeros",
            "temperature": "standard noise times the temperature",
        },
    }


def _input(contract: Contract, name: str) -> dict[str, Any]:
    entry = _entry(name, contract.inputs[name]) | {"used": name in contract.used}
    if name not in contract.initial_state:
        return entry
    start = contract.initial_state[name]
    same = start.size > 0 and bool((start == start.flat[0]).all())
    initial = start.flat[0].item() if same else start.tolist()
    return entry | {"initial": initial, "next": name.replace(STATE, NEXT_STATE, 1)}


def _entry(name: str, kind: jax.ShapeDtypeStruct) -> dict[str, Any]:
    shape = [size if isinstance(size, int) else BATCH for size in kind.shape]
    about = {"about": ABOUT[name]} if name in ABOUT else {}
    return {"name": name, "dtype": np.dtype(kind.dtype).name, "shape": shape, **about}
