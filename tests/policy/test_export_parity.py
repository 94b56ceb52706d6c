"""Exported policies act as the policies themselves, given the same noise."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import onnxruntime
import pytest
from exports import (
    SIZES,
    SPECS,
    Arrays,
    Reference,
    combinations,
    first_state,
    make_policy,
    next_state,
    random_steps,
)
from jax import export

from oryx_marl.networks.sable import NetworkConfig
from oryx_marl.policy import artifact
from oryx_marl.policy.artifact import PolicyArtifact
from oryx_marl.policy.contract import Contract, describe_actions, make_contract
from oryx_marl.policy.onnx.lower import lower
from oryx_marl.policy.onnx.model import to_model
from oryx_marl.policy.stablehlo import to_stablehlo
from oryx_marl.types import ActionSpace, Spec

ASSETS = Path(__file__).parents[2] / "assets"
TIE = 1e-5
CLOSE = 1e-4
ILL_CONDITIONED = 1e-5
"""Share of the parameters of Normals that may be farther: where the outputs of a retention head
hardly vary, its norm enlarges rounding, and JAX in float32 is as far from float64 as ONNX is. The
actions themselves are compared without exception."""
Run = Callable[[Arrays], Arrays]
QUICK = [("oryx", "discrete"), ("bc", "box"), ("madt", "discrete")]
"""Of every kind of network that has a state one; the others take their turn among the slow."""
ALL = combinations()


def test_every_algorithm_is_compared() -> None:
    assert len(ALL) >= 10
    assert {kind for _, kind in ALL} == {"discrete", "box"}
    assert set(QUICK) < set(ALL)


def load_stablehlo(contract: Contract) -> Run:
    content, _ = to_stablehlo(contract)
    call = jax.jit(export.deserialize(bytearray(content)).call)

    def run(inputs: Arrays) -> Arrays:
        found = call(*(inputs[name] for name in contract.inputs))
        return dict(zip(contract.outputs, map(np.asarray, found), strict=True))

    return run


def load_onnx(contract: Contract) -> Run:
    model = to_model(lower(contract.jaxpr, contract.inputs, contract.outputs, contract.batch))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    assert [each.name for each in session.get_inputs()] == list(contract.inputs)
    names = list(contract.outputs)
    return lambda inputs: dict(zip(names, session.run(names, inputs), strict=True))


def compare_exactly(policy: PolicyArtifact, contract: Contract, batch: int, count: int) -> None:
    run, reference = load_stablehlo(contract), Reference(policy, batch)
    state = first_state(contract, batch)
    for inputs in random_steps(policy.spec, batch, count):
        outputs = run(inputs | state)
        actions, info = reference.step(inputs)
        np.testing.assert_array_equal(outputs["actions"], actions)
        for name, value in describe_actions(info, actions).items():
            np.testing.assert_array_equal(outputs[name], value)
        state = next_state(outputs)
        for value, leaf in zip(state.values(), reference.leaves, strict=True):
            np.testing.assert_array_equal(value, leaf)


def require_ties(found: Arrays, known: Arrays, info: Any, inputs: Arrays) -> None:
    """Of environments with other actions, the first agent that differs had two that are as good."""
    differs = found["actions"] != known["actions"]
    scores = np.asarray(info.log_probs) + inputs["noise"]
    for row in np.flatnonzero(differs.any(axis=1)):
        agent = differs[row].argmax()
        pair = [scores[row, agent, each["actions"][row, agent]] for each in (found, known)]
        assert abs(pair[0] - pair[1]) < TIE


def compare_closely(policy: PolicyArtifact, contract: Contract, batch: int, count: int) -> int:
    """How often actions differed, which only ties may do; those environments go on together."""
    run, reference = load_onnx(contract), Reference(policy, batch)
    state, ties = first_state(contract, batch), 0
    far: dict[str, int] = {}
    entries = 0
    for inputs in random_steps(policy.spec, batch, count):
        outputs = run(inputs | state)
        actions, info = reference.step(inputs)
        state = next_state(outputs)
        equal = np.ones(batch, bool)
        if policy.spec.action.kind == "box":
            np.testing.assert_allclose(outputs["actions"], actions, rtol=0, atol=CLOSE)
        elif not np.array_equal(outputs["actions"], actions):
            require_ties(outputs, {"actions": actions}, info, inputs)
            equal = (outputs["actions"] == actions).all(axis=1)
            leaves = zip(state, reference.leaves, strict=True)
            state |= {
                name: np.where(_like(equal, leaf), state[name], leaf) for name, leaf in leaves
            }
        ties += int((~equal).sum())
        for name, value in describe_actions(info, actions).items():
            error = np.abs(outputs[name] - np.asarray(value))[equal]
            far[name] = far.get(name, 0) + int((error > CLOSE).sum())
            entries += error.size
    parameters = far.pop("mean", 0) + far.pop("log_std", 0)
    assert not any(far.values())
    assert parameters <= ILL_CONDITIONED * entries
    return ties


def _like(rows: np.ndarray, leaf: np.ndarray) -> np.ndarray:
    return rows.reshape(-1, *([1] * (leaf.ndim - 1)))


@pytest.mark.parametrize(("name", "kind"), QUICK)
def test_parity_in_short(name: str, kind: str) -> None:
    policy = make_policy(name, SPECS[kind], SIZES | {"num_blocks": 1})
    contract = make_contract(policy)
    compare_exactly(policy, contract, batch=3, count=25)
    assert compare_closely(policy, contract, batch=3, count=25) == 0


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 64])
@pytest.mark.parametrize(("name", "kind"), ALL)
def test_parity_over_a_thousand_steps(name: str, kind: str, batch: int) -> None:
    policy = make_policy(name, SPECS[kind])
    contract = make_contract(policy)
    compare_exactly(policy, contract, batch, count=1000)
    ties = compare_closely(policy, contract, batch, count=1000)
    assert ties <= 3


@pytest.mark.slow
@pytest.mark.parametrize("name", ["oryx", "madt", "mat_icq"])
def test_one_agent_with_one_feature(name: str) -> None:
    """Axes of length 1 are those that broadcasting and reshapes could confuse."""
    spec = Spec("", ("only",), (1,), ActionSpace("discrete", 2))
    policy = make_policy(name, spec)
    contract = make_contract(policy)
    compare_exactly(policy, contract, batch=2, count=50)
    compare_closely(policy, contract, batch=2, count=50)


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"agent_id": "none", "gate_stream": "query"},
        {"agent_id": "embedding", "feed_forward": False},
        {"autoregressive": False},
        {"remember_last_action": False},
    ],
)
def test_wirings_of_the_network(changes: dict[str, Any]) -> None:
    policy = make_policy("oryx", SPECS["discrete"], network=NetworkConfig(**changes))
    contract = make_contract(policy)
    compare_exactly(policy, contract, batch=2, count=50)
    compare_closely(policy, contract, batch=2, count=50)


@pytest.mark.slow
@pytest.mark.parametrize("file", ["con-10x10x10a/489.npz", "con-25x25x50a/1221.npz"])
def test_trained_policies_of_many_agents(file: str) -> None:
    policy = artifact.load(ASSETS / file)
    contract = make_contract(policy)
    compare_exactly(policy, contract, batch=2, count=100)
    assert compare_closely(policy, contract, batch=2, count=100) <= 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {"objective": "bc"},
        {"objective": "q_learning"},
        {"memory": False},
        {"standardise": False},
    ],
)
def test_settings_that_change_how_oryx_acts(settings: dict[str, Any]) -> None:
    policy = make_policy("oryx", SPECS["discrete"], **settings)
    contract = make_contract(policy)
    compare_exactly(policy, contract, batch=2, count=100)
    compare_closely(policy, contract, batch=2, count=100)
