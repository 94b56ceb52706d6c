"""Primitives that work entry by entry, and reductions over axes."""

from collections.abc import Callable
from typing import Any

import numpy as np
from jax import lax

from oryx_marl.policy.onnx.graph import Graph, Value, broadcast_shapes, constant

Handler = Callable[[Graph, Any, list[Value]], list[Value]]
"""`(graph, equation of the jaxpr, inputs) -> outputs`."""


def simple(op: str, **attributes: Any) -> Handler:
    """A primitive that is a node."""

    def handle(graph: Graph, equation: Any, inputs: list[Value]) -> list[Value]:
        shape = broadcast_shapes(*(each.shape for each in inputs))
        return [graph.add(op, inputs, shape, equation.outvars[0].aval.dtype, **attributes)]

    return handle


def on_booleans(logical: str, other: str) -> Handler:
    """A primitive that has a node of its own for booleans."""

    def handle(graph: Graph, equation: Any, inputs: list[Value]) -> list[Value]:
        op = logical if inputs[0].dtype == np.bool_ else other
        return simple(op)(graph, equation, inputs)

    return handle


def not_equal(graph: Graph, equation: Any, inputs: list[Value]) -> list[Value]:
    (same,) = simple("Equal")(graph, equation, inputs)
    return [graph.add("Not", [same], same.shape, np.bool_)]


def rsqrt(graph: Graph, equation: Any, inputs: list[Value]) -> list[Value]:
    (root,) = simple("Sqrt")(graph, equation, inputs)
    return [graph.add("Reciprocal", [root], root.shape, root.dtype)]


def square(graph: Graph, equation: Any, inputs: list[Value]) -> list[Value]:
    return simple("Mul")(graph, equation, [inputs[0], inputs[0]])


def integer_pow(graph: Graph, equation: Any, inputs: list[Value]) -> list[Value]:
    power = equation.params["y"]
    if power in (2, 3):  # Pow itself is slow
        (squared,) = square(graph, equation, inputs)
        return [squared] if power == 2 else simple("Mul")(graph, equation, [squared, inputs[0]])
    exponent = constant(np.asarray(power, inputs[0].dtype))
    return simple("Pow")(graph, equation, [inputs[0], exponent])


def add_one_then(op: str) -> Handler:
    """log(1 + x)."""

    def handle(graph: Graph, equation: Any, inputs: list[Value]) -> list[Value]:
        one = constant(np.ones((), inputs[0].dtype))
        added = simple("Add")(graph, equation, [inputs[0], one])
        return simple(op)(graph, equation, added)

    return handle


def expm1(graph: Graph, equation: Any, inputs: list[Value]) -> list[Value]:
    (grown,) = simple("Exp")(graph, equation, inputs)
    return simple("Sub")(graph, equation, [grown, constant(np.ones((), grown.dtype))])


def is_finite(graph: Graph, equation: Any, inputs: list[Value]) -> list[Value]:
    wrong = [simple(op)(graph, equation, inputs)[0] for op in ("IsInf", "IsNaN")]
    return simple("Not")(graph, equation, simple("Or")(graph, equation, wrong))


def remainder(graph: Graph, equation: Any, inputs: list[Value]) -> list[Value]:
    """With the sign of the dividend, as in C."""
    return simple("Mod", fmod=1)(graph, equation, inputs)


def round_(graph: Graph, equation: Any, inputs: list[Value]) -> list[Value]:
    if equation.params["rounding_method"] != lax.RoundingMethod.TO_NEAREST_EVEN:
        raise NotImplementedError("away from zero")
    return simple("Round")(graph, equation, inputs)


def convert(graph: Graph, equation: Any, inputs: list[Value]) -> list[Value]:
    return [graph.cast(inputs[0], equation.params["new_dtype"])]


def select(graph: Graph, equation: Any, inputs: list[Value]) -> list[Value]:
    """select_n(mask, where false, where true)."""
    mask, *cases = inputs
    if len(cases) != 2 or mask.dtype != np.bool_:
        raise NotImplementedError("of other than two cases")
    return [graph.where(mask, cases[1], cases[0])]


def clamp(graph: Graph, equation: Any, inputs: list[Value]) -> list[Value]:
    least, value, most = inputs
    raised = simple("Max")(graph, equation, [value, least])
    return simple("Min")(graph, equation, [*raised, most])


def same(graph: Graph, equation: Any, inputs: list[Value]) -> list[Value]:
    return inputs


def reduction(op: str) -> Handler:
    """Over some axes; booleans are reduced as numbers."""

    def handle(graph: Graph, equation: Any, inputs: list[Value]) -> list[Value]:
        found, output = equation.invars[0].aval, equation.outvars[0].aval
        value = graph.fill(inputs[0], found.shape)
        number = graph.cast(value, np.int32) if value.dtype == np.bool_ else value
        axes = [int(axis) for axis in equation.params["axes"]]
        kept = tuple(1 if place in axes else size for place, size in enumerate(found.shape))
        vector = constant(np.array(axes, np.int64))
        # Most reductions are broadcast back: their axes stay, and go where they must.
        result = graph.add(op, [number, vector], kept, number.dtype, keepdims=1)
        return [graph.reshape(graph.cast(result, output.dtype), output.shape)]

    return handle


def arg_reduction(op: str) -> Handler:
    """Index of the first of the largest, or smallest."""

    def handle(graph: Graph, equation: Any, inputs: list[Value]) -> list[Value]:
        value = graph.fill(inputs[0], equation.invars[0].aval.shape)
        (axis,), output = equation.params["axes"], equation.outvars[0].aval
        number = graph.cast(value, np.int32) if value.dtype == np.bool_ else value
        found = graph.add(op, [number], output.shape, np.int64, axis=int(axis), keepdims=0)
        return [graph.cast(found, output.dtype)]

    return handle


def cumulative_sum(graph: Graph, equation: Any, inputs: list[Value]) -> list[Value]:
    shape, params = equation.invars[0].aval.shape, equation.params
    axis = constant(np.array(params["axis"], np.int64))
    value, backward = graph.fill(inputs[0], shape), int(params["reverse"])
    return [graph.add("CumSum", [value, axis], shape, value.dtype, reverse=backward)]


def cumulative_extreme(op: str) -> Handler:
    """The extreme up to each entry, which ONNX has not: that of a triangle of the axis's square."""

    def handle(graph: Graph, equation: Any, inputs: list[Value]) -> list[Value]:
        shape, axis = equation.invars[0].aval.shape, equation.params["axis"]
        value = graph.fill(inputs[0], shape)
        count, info = int(shape[axis]), np.iinfo if value.dtype.kind == "i" else np.finfo
        bounds = info(value.dtype)
        nothing = bounds.min if op == "ReduceMax" else bounds.max
        seen = np.tril(np.ones((count, count), bool))
        seen = seen.T if equation.params["reverse"] else seen
        seen = seen.reshape(count, count, *([1] * (len(shape) - axis - 1)))
        others = graph.expand_dims(value, [axis])
        square = graph.where(constant(seen), others, constant(np.array(nothing, value.dtype)))
        axes = constant(np.array([axis + 1], np.int64))
        return [graph.add(op, [square, axes], shape, value.dtype, keepdims=0)]

    return handle


HANDLERS: dict[str, Handler] = {
    "abs": simple("Abs"),
    "add": simple("Add"),
    "and": on_booleans("And", "BitwiseAnd"),
    "argmax": arg_reduction("ArgMax"),
    "argmin": arg_reduction("ArgMin"),
    "ceil": simple("Ceil"),
    "clamp": clamp,
    "convert_element_type": convert,
    "copy": same,
    "cos": simple("Cos"),
    "cummax": cumulative_extreme("ReduceMax"),
    "cummin": cumulative_extreme("ReduceMin"),
    "cumsum": cumulative_sum,
    "div": simple("Div"),
    "eq": simple("Equal"),
    "erf": simple("Erf"),
    "exp": simple("Exp"),
    "expm1": expm1,
    "floor": simple("Floor"),
    "ge": simple("GreaterOrEqual"),
    "gt": simple("Greater"),
    "integer_pow": integer_pow,
    "is_finite": is_finite,
    "le": simple("LessOrEqual"),
    "log": simple("Log"),
    "log1p": add_one_then("Log"),
    "logistic": simple("Sigmoid"),
    "lt": simple("Less"),
    "max": on_booleans("Or", "Max"),
    "min": on_booleans("And", "Min"),
    "mul": on_booleans("And", "Mul"),
    "ne": not_equal,
    "neg": simple("Neg"),
    "not": on_booleans("Not", "BitwiseNot"),
    "or": on_booleans("Or", "BitwiseOr"),
    "pow": simple("Pow"),
    "reduce_and": reduction("ReduceMin"),
    "reduce_max": reduction("ReduceMax"),
    "reduce_min": reduction("ReduceMin"),
    "reduce_or": reduction("ReduceMax"),
    "reduce_prod": reduction("ReduceProd"),
    "reduce_sum": reduction("ReduceSum"),
    "rem": remainder,
    "round": round_,
    "rsqrt": rsqrt,
    "select_n": select,
    "sign": simple("Sign"),
    "sin": simple("Sin"),
    "sqrt": simple("Sqrt"),
    "square": square,
    "stop_gradient": same,
    "sub": simple("Sub"),
    "tanh": simple("Tanh"),
    "xor": on_booleans("Xor", "BitwiseXor"),
}
