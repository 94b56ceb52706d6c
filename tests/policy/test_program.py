"""A policy's program in JavaScript acts as the policy itself, given the same noise."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from exports import SIZES, SPECS, Reference, combinations, make_policy, random_steps
from live_scripts import needs_node, run_node, script

from oryx_marl.policy.artifact import PolicyArtifact
from oryx_marl.policy.contract import describe_actions
from oryx_marl.policy.program import make_program

QUICK = ["oryx", "madt"]
"""Of every kind of network that has a state one; the others take their turn among the slow."""
ALL = [name for name, kind in combinations() if kind == "discrete"]
"""Environments that pages play have discrete actions."""
CLOSE = 1e-4
STEP = """({program, steps}) => {
  const policy = Graph.load(program);
  let state = policy.start();
  return steps.map((given) => {
    const inputs = {...state};
    for (const {name, type, shape} of policy.inputs) {
      if (!(name in given)) continue;
      inputs[name] = Graph.tensor(type, shape);
      inputs[name].data.set(given[name].flat(Infinity));
    }
    const outputs = policy.step(inputs);
    state = policy.nextState(outputs);
    const told = Object.entries(outputs).filter(([name]) => !name.startsWith("next_state"));
    const write = (x) => (Number.isFinite(x) ? x : String(x));
    const tell = ([name, {data, shape}]) => [name, {data: [...data].map(write), shape}];
    return Object.fromEntries(told.map(tell));
  });
}"""


def compare(policy: PolicyArtifact, folder: Path, count: int) -> None:
    steps = list(random_steps(policy.spec, 1, count))
    given = {
        "program": make_program(policy),
        "steps": [{name: value.tolist() for name, value in step.items()} for step in steps],
    }
    found = run_node(folder, [script("graph.js")], STEP, given)
    reference = Reference(policy, 1)
    for step, outputs in zip(steps, found, strict=True):
        actions, info = reference.step(step)
        here = step["agent_mask"]
        np.testing.assert_array_equal(to_array(outputs["actions"])[here], actions[here])
        for name, value in describe_actions(info, actions).items():
            np.testing.assert_allclose(to_array(outputs[name]), value, rtol=CLOSE, atol=CLOSE)


def to_array(told: dict[str, Any]) -> np.ndarray:
    values = [float(str(x).replace("Infinity", "inf")) for x in told["data"]]
    return np.array(values, np.float32).reshape(told["shape"])


@needs_node
@pytest.mark.parametrize("name", QUICK)
def test_parity_in_short(name: str, tmp_path: Path) -> None:
    compare(make_policy(name, SPECS["discrete"], SIZES | {"num_blocks": 1}), tmp_path, 25)


@needs_node
@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_parity(name: str, tmp_path: Path) -> None:
    compare(make_policy(name, SPECS["discrete"]), tmp_path, 200)


CALL = """({calls}) => calls.map(([op, inputs, attributes]) => {
  const tensors = inputs.map(([type, shape, data]) => {
    const made = Graph.tensor(type, shape);
    made.data.set(data);
    return made;
  });
  return Graph.OPERATORS[op](tensors, attributes).map(({shape, data}) => [shape, [...data]]);
})"""


@needs_node
def test_operators_by_hand(tmp_path: Path) -> None:
    """Those that differ most from what JavaScript itself does."""
    row = ["float", [4], [-2.5, -1.5, 0.5, 2.5]]
    matrix = ["int", [2, 3], [1, 2, 3, 4, 5, 6]]
    calls = [
        ["Round", [row], {}],
        ["Div", [["int", [3], [7, -7, 1]], ["int", [1], [2]]], {}],
        ["Slice", [matrix, *(["int", [1], [x]] for x in (2, -100, 1, -1))], {}],
        ["Transpose", [matrix], {"perm": [1, 0]}],
        ["CumSum", [matrix, ["int", [], [1]]], {"reverse": 1}],
        ["ReduceSum", [matrix, ["int", [1], [0]]], {"keepdims": 0}],
        ["Where", [["bool", [2, 1], [1, 0]], matrix, ["int", [], [9]]], {}],
        ["ArgMax", [["float", [3], [1, 5, 5]]], {"axis": 0}],
        ["Erf", [["float", [3], [0, 1, -3]]], {}],
    ]
    found = [each for (each,) in run_node(tmp_path, [script("graph.js")], CALL, {"calls": calls})]
    assert found[0] == [[4], [-2, -2, 0, 2]]
    assert found[1] == [[3], [3, -3, 0]]
    assert found[2] == [[2, 3], [3, 2, 1, 6, 5, 4]]
    assert found[3] == [[3, 2], [1, 4, 2, 5, 3, 6]]
    assert found[4] == [[2, 3], [6, 5, 3, 15, 11, 6]]
    assert found[5] == [[3], [5, 7, 9]]
    assert found[6] == [[2, 3], [1, 2, 3, 9, 9, 9]]
    assert found[7] == [[], [1]]
    np.testing.assert_allclose(found[8][1], [0, 0.8427008, -0.9999779], atol=1e-7)


@needs_node
def test_an_unknown_operator_is_named(tmp_path: Path) -> None:
    load = "(program) => { try { Graph.load(program) } catch (error) { return error.message } }"
    program = make_program(make_policy("bc", SPECS["discrete"], SIZES | {"num_blocks": 1}))
    program["nodes"][0][0] = "Hardmax"
    message = run_node(tmp_path, [script("graph.js")], load, program)
    assert message == "this page cannot run the operator Hardmax"
