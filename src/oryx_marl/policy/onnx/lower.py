"""From a JAX function to a graph of ONNX's operators: its jaxpr, primitive by primitive.

What depends on weights alone is computed here, once. Loops over agents become nodes `Scan`, whose
body is written once however many agents there are.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jax.interpreters.partial_eval import dce_jaxpr

from oryx_marl.errors import OryxError
from oryx_marl.policy.onnx import arrays, elementwise, indexing
from oryx_marl.policy.onnx.graph import Body, Graph, Node, Size, Value, constant, is_known, is_read

HANDLERS = elementwise.HANDLERS | arrays.HANDLERS | indexing.HANDLERS
INSIDE = ("jaxpr", "call_jaxpr", "fun_jaxpr")
"""Parameters in which calls of functions have what they call."""
CALLS = ("jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "remat2")
LAZY = ("broadcast_in_dim", "iota")
"""Primitives whose constants stay small if they are not computed."""


def lower(closed: Any, inputs: Mapping[str, Any], outputs: Mapping[str, Any], batch: Size) -> Body:
    """The graph of a function, as `jax.make_jaxpr` has traced it.

    Inputs and outputs are shapes and types by name; `batch` is the first axis of the first input.

    Raises an OryxError that names the primitive where there is one that ONNX has no node for.
    """
    jaxpr, used = dce_jaxpr(closed.jaxpr, [True] * len(outputs))
    graph = Graph()
    given = [Value(each.shape, np.dtype(each.dtype), name) for name, each in inputs.items()]
    graph.set_batch(batch, given[0])
    consts = [constant(np.asarray(each)) for each in closed.consts]
    arguments = [value for value, is_used in zip(given, used, strict=True) if is_used]
    found = walk(graph, jaxpr, consts, arguments)
    told = []
    for value, (name, each) in zip(found, outputs.items(), strict=True):
        filled = graph.fill(value, each.shape)
        graph.nodes.append(Node("Identity", [graph.name_of(filled)], [name], {}))
        told.append(Value(filled.shape, filled.dtype, name))
    nodes, read = is_read(graph.nodes, list(outputs))
    known = {name: array for name, array in graph.constants.items() if name in read}
    return Body("policy", nodes, given, told, known)


def walk(
    graph: Graph, jaxpr: Any, consts: Sequence[Value], arguments: Sequence[Value]
) -> list[Value]:
    """Appends what a jaxpr computes; its outputs."""
    known: dict[Any, Value] = {}
    known.update(zip(jaxpr.constvars, consts, strict=True))
    known.update(zip(jaxpr.invars, arguments, strict=True))

    def read(variable: Any) -> Value:
        if hasattr(variable, "val"):  # a literal
            return constant(np.asarray(variable.val, variable.aval.dtype))
        return known[variable]

    for equation in jaxpr.eqns:
        outputs = _apply(graph, equation, [read(variable) for variable in equation.invars])
        known.update(zip(equation.outvars, outputs, strict=True))
    return [read(variable) for variable in jaxpr.outvars]


def _apply(graph: Graph, equation: Any, inputs: list[Value]) -> list[Value]:
    name = equation.primitive.name
    if name in CALLS:
        inner = next(equation.params[key] for key in INSIDE if key in equation.params)
        return walk(graph, inner.jaxpr, [constant(np.asarray(c)) for c in inner.consts], inputs)
    if name not in LAZY and _is_constant(equation, inputs):
        return _compute(equation, inputs)
    if name == "scan":
        return _scan(graph, equation, inputs)
    if name not in HANDLERS:
        raise OryxError(
            f"export to ONNX has no form of the JAX primitive '{name}', which this policy uses; "
            "export it with format stablehlo, or write that part with other operations"
        )
    try:
        return HANDLERS[name](graph, equation, inputs)
    except NotImplementedError as error:
        raise OryxError(
            f"export to ONNX has no form of the JAX primitive '{name}' {error}: "
            f"{str(equation).strip()[:300]}; export it with format stablehlo, or write that part "
            "with other operations"
        ) from error


def _is_constant(equation: Any, inputs: list[Value]) -> bool:
    known = all(value.array is not None for value in inputs)
    return known and all(is_known(variable.aval.shape) for variable in equation.outvars)


def _compute(equation: Any, inputs: list[Value]) -> list[Value]:
    """What a primitive gives for constants."""
    shapes = [variable.aval.shape for variable in equation.invars]
    full = [
        np.broadcast_to(np.asarray(value.array), shape)
        for value, shape in zip(inputs, shapes, strict=True)
    ]
    found = equation.primitive.bind(*full, **equation.params)
    results = found if equation.primitive.multiple_results else [found]
    return [constant(np.asarray(each)) for each in results]


def _scan(graph: Graph, equation: Any, inputs: list[Value]) -> list[Value]:
    """A loop; one of a single round is written out."""
    params = equation.params
    closed, count = params["jaxpr"], params["num_consts"]
    closed_consts = [constant(np.asarray(each)) for each in closed.consts]
    carried = count + params["num_carry"]
    consts, carry, rows = inputs[:count], inputs[count:carried], inputs[carried:]
    if params["length"] == 1:
        first = [graph.squeeze(value, [0]) for value in rows]
        found = walk(graph, closed.jaxpr, closed_consts, [*consts, *carry, *first])
        after, given = found[: len(carry)], found[len(carry) :]
        return [*after, *(graph.expand_dims(value, [0]) for value in given)]
    shapes = [variable.aval.shape for variable in equation.invars]
    full = [graph.fill(*pair) for pair in zip(inputs, shapes, strict=True)]
    if not rows:  # rounds are counted by what the loop runs over
        full.append(constant(np.arange(params["length"])))
    body = _body(graph, closed, closed_consts, consts, full[count:], len(carry))
    outputs = [
        Value(variable.aval.shape, np.dtype(variable.aval.dtype), graph.new_name("Scan"))
        for variable in equation.outvars
    ]
    directions: dict[str, Any] = {}
    if params["reverse"]:
        counts = {"input": len(full) - carried, "output": len(outputs) - len(carry)}
        directions = {f"scan_{side}_directions": [1] * n for side, n in counts.items() if n}
    names = [graph.name_of(value) for value in full[count:]]
    about = {"body": body, "num_scan_inputs": len(full) - carried, **directions}
    graph.nodes.append(Node("Scan", names, [value.name for value in outputs], about))
    return outputs


def _body(
    graph: Graph,
    closed: Any,
    closed_consts: list[Value],
    consts: list[Value],
    inputs: list[Value],
    num_carry: int,
) -> Body:
    """The graph of one round."""
    inner = Graph(graph)
    own = [
        Value(value.shape[place >= num_carry :], value.dtype, inner.new_name("round"))
        for place, value in enumerate(inputs)
    ]
    taken = own[: len(closed.jaxpr.invars) - len(consts)]
    found = walk(inner, closed.jaxpr, closed_consts, [*consts, *taken])
    outputs = []
    for value, variable in zip(found, closed.jaxpr.outvars, strict=True):
        filled = inner.fill(value, variable.aval.shape)
        # Outputs are values of the body, each once: neither an input nor one from outside.
        outputs.append(inner.add("Identity", [filled], filled.shape, filled.dtype))
    nodes, _ = is_read(inner.nodes, [value.name for value in outputs])
    return Body(inner.new_name("body"), nodes, own, outputs)
