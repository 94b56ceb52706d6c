"""One step of a policy as plain data: a few hundred nodes and one block of numbers.

What the live page runs (`report/live/graph.js`), at a batch of 1. Values are numbered: the inputs
first, then the constants, then what each node gives. A node is `[op, inputs, outputs, attributes]`;
the body of a loop has nodes of its own, in the same numbering.
"""

import base64
from typing import Any

import jax
import numpy as np

from oryx_marl.policy.artifact import PolicyArtifact
from oryx_marl.policy.contract import NEXT_STATE, STATE, Contract, make_contract
from oryx_marl.policy.onnx.graph import Body, Node
from oryx_marl.policy.onnx.lower import lower

KINDS = {"f": "float", "i": "int", "u": "int", "b": "bool"}
"""Types in a page, by numpy's kinds: 32 bits each, booleans 8."""
STORED = {"float": np.float32, "int": np.int32, "bool": np.uint8}


def make_program(artifact: PolicyArtifact, seed: int | None = None) -> dict[str, Any]:
    """The program of one seed's policy, as JSON."""
    return to_program(make_contract(artifact, seed))


def to_program(contract: Contract) -> dict[str, Any]:
    """A contract as a program: inputs, initial state, constants, nodes and outputs."""
    body = lower(contract.jaxpr, contract.inputs, contract.outputs, contract.batch)
    numbers = _Numbers()
    inputs = [_input(value.name, contract, numbers) for value in body.inputs]
    constants, block = [], bytearray()
    for name, array in body.constants.items():
        stored = _store(array)
        constants.append([numbers[name], KINDS[array.dtype.kind], list(array.shape), len(block)])
        block += stored.tobytes() + b"\0" * (-stored.nbytes % 4)  # so that all begin at words
    return {
        "inputs": inputs,
        "constants": constants,
        "nodes": [_node(node, numbers) for node in body.nodes],
        "outputs": {value.name: numbers[value.name] for value in body.outputs},
        "size": len(numbers),
        "numbers": base64.b64encode(bytes(block)).decode(),
    }


class _Numbers(dict[str, int]):
    """The number of each value, given when it is first met."""

    def __missing__(self, name: str) -> int:
        self[name] = len(self)
        return self[name]


def _input(name: str, contract: Contract, numbers: _Numbers) -> dict[str, Any]:
    kind: jax.ShapeDtypeStruct = contract.inputs[name]
    entry = {
        "name": name,
        "value": numbers[name],
        "type": KINDS[np.dtype(kind.dtype).kind],
        "shape": [1, *kind.shape[1:]],
    }
    if name not in contract.initial_state:
        return entry
    start = _store(contract.initial_state[name])
    same = start.size > 0 and bool((start == start.flat[0]).all())
    initial = start.flat[0].item() if same else start.ravel().tolist()
    return entry | {"initial": initial, "next": name.replace(STATE, NEXT_STATE, 1)}


def _node(node: Node, numbers: _Numbers) -> list[Any]:
    attributes = {name: _attribute(value, numbers) for name, value in node.attributes.items()}
    read = [numbers[name] for name in node.inputs]
    return [node.op, read, [numbers[name] for name in node.outputs], attributes]


def _attribute(value: Any, numbers: _Numbers) -> Any:
    if isinstance(value, np.dtype):
        return KINDS[value.kind]
    if not isinstance(value, Body):
        return value
    return {
        "inputs": [numbers[each.name] for each in value.inputs],
        "nodes": [_node(node, numbers) for node in value.nodes],
        "outputs": [numbers[each.name] for each in value.outputs],
    }


def _store(array: np.ndarray) -> np.ndarray:
    """In 32 bits, booleans in 8; ends of slices beyond them are as far as can be."""
    kind = STORED[KINDS[array.dtype.kind]]
    if array.dtype.kind in "iu":
        bounds = np.iinfo(np.int32)
        array = np.clip(array, bounds.min, bounds.max)
    return np.ascontiguousarray(array, kind)
