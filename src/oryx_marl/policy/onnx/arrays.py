"""Primitives that rearrange arrays, and products of them."""

import math
from typing import Any

import numpy as np

from oryx_marl.policy.onnx.elementwise import Handler
from oryx_marl.policy.onnx.graph import Graph, Shape, Value, constant, is_known


def broadcast(graph: Graph, equation: Any, inputs: list[Value]) -> list[Value]:
    """New axes of length 1; they are repeated where that matters."""
    value, rank = inputs[0], len(equation.params["shape"])
    kept = [int(axis) for axis in equation.params["broadcast_dimensions"]]
    return [graph.expand_dims(value, [axis for axis in range(rank) if axis not in kept])]


def reshape(graph: Graph, equation: Any, inputs: list[Value]) -> list[Value]:
    value = graph.fill(inputs[0], equation.invars[0].aval.shape)
    return [graph.reshape(value, equation.outvars[0].aval.shape)]


def expand_dims(graph: Graph, equation: Any, inputs: list[Value]) -> list[Value]:
    return [graph.expand_dims(inputs[0], equation.params["dimensions"])]


def squeeze(graph: Graph, equation: Any, inputs: list[Value]) -> list[Value]:
    return [graph.squeeze(inputs[0], [int(axis) for axis in equation.params["dimensions"]])]


def transpose(graph: Graph, equation: Any, inputs: list[Value]) -> list[Value]:
    return [graph.transpose(inputs[0], equation.params["permutation"])]


def iota(graph: Graph, equation: Any, inputs: list[Value]) -> list[Value]:
    shape, axis = equation.params["shape"], equation.params["dimension"]
    dtype = np.dtype(equation.params["dtype"])
    if not is_known((shape[axis],)):
        raise NotImplementedError("over the batch")
    numbers = np.arange(shape[axis], dtype=dtype)
    return [constant(numbers.reshape([-1 if n == axis else 1 for n in range(len(shape))]))]


def slice_(graph: Graph, equation: Any, inputs: list[Value]) -> list[Value]:
    params, shape = equation.params, equation.invars[0].aval.shape
    value = graph.fill(inputs[0], shape)
    starts, stops = params["start_indices"], params["limit_indices"]
    steps = params["strides"] or (1,) * len(shape)
    axes = [
        axis
        for axis, size in enumerate(shape)
        if (starts[axis], stops[axis], steps[axis]) != (0, size, 1)
    ]
    if not is_known(tuple(each[axis] for each in (starts, stops) for axis in axes)):
        raise NotImplementedError("of a part of the batch")
    if not axes:
        return [value]
    parts = [[int(each[axis]) for axis in axes] for each in (starts, stops, steps)]
    out = equation.outvars[0].aval.shape
    return [graph.slice(value, parts[0], parts[1], axes, out, parts[2])]


def split(graph: Graph, equation: Any, inputs: list[Value]) -> list[Value]:
    axis = int(equation.params["axis"])
    value, at, parts = graph.fill(inputs[0], equation.invars[0].aval.shape), 0, []
    for size, output in zip(equation.params["sizes"], equation.outvars, strict=True):
        parts.append(graph.slice(value, [at], [at + int(size)], [axis], output.aval.shape))
        at += int(size)
    return parts


def concatenate(graph: Graph, equation: Any, inputs: list[Value]) -> list[Value]:
    pairs = zip(inputs, equation.invars, strict=True)
    filled = [graph.fill(value, variable.aval.shape) for value, variable in pairs]
    output, axis = equation.outvars[0].aval, int(equation.params["dimension"])
    return [graph.concat(filled, axis, output.shape)]


def stack(graph: Graph, equation: Any, inputs: list[Value]) -> list[Value]:
    axis, output = int(equation.params["axis"]), equation.outvars[0].aval
    pairs = zip(inputs, equation.invars, strict=True)
    filled = [graph.fill(value, variable.aval.shape) for value, variable in pairs]
    parts = [graph.expand_dims(value, [axis]) for value in filled]
    return [graph.concat(parts, axis, output.shape)]


def pad(graph: Graph, equation: Any, inputs: list[Value]) -> list[Value]:
    widths, output = equation.params["padding_config"], equation.outvars[0].aval
    if any(inner or low < 0 or high < 0 for low, high, inner in widths):
        raise NotImplementedError("between entries, or that takes away")
    value = graph.fill(inputs[0], equation.invars[0].aval.shape)
    numbers = [low for low, _, _ in widths] + [high for _, high, _ in widths]
    vector = constant(np.array(numbers, np.int64))
    return [graph.add("Pad", [value, vector, inputs[1]], output.shape, output.dtype)]


def reverse(graph: Graph, equation: Any, inputs: list[Value]) -> list[Value]:
    axes = [int(axis) for axis in equation.params["dimensions"]]
    shape, count = equation.invars[0].aval.shape, len(axes)
    value, before = graph.fill(inputs[0], shape), np.iinfo(np.int64).min
    return [graph.slice(value, [-1] * count, [before] * count, axes, shape, [-1] * count)]


def dot(graph: Graph, equation: Any, inputs: list[Value]) -> list[Value]:
    """A product over some axes as one of matrices: batch, own axes as one, those summed as one."""
    (summed, batch), output = equation.params["dimension_numbers"], equation.outvars[0].aval
    shapes = [variable.aval.shape for variable in equation.invars]
    own = [
        [axis for axis in range(len(shape)) if axis not in (*summed[side], *batch[side])]
        for side, shape in enumerate(shapes)
    ]
    left, right = (graph.fill(*pair) for pair in zip(inputs, shapes, strict=True))
    left = graph.transpose(left, [*batch[0], *own[0], *summed[0]])
    right = graph.transpose(right, [*batch[1], *summed[1], *own[1]])
    together = tuple(shapes[0][axis] for axis in batch[0])
    free = [tuple(shapes[side][axis] for axis in own[side]) for side in (0, 1)]
    depth = _product(tuple(shapes[0][axis] for axis in summed[0]))
    # Without batch axes the left side may keep its axes: the product is over the last one.
    rows = free[0] if not batch[0] and free[0] else (_product(free[0]),)
    left = graph.reshape(left, (*together, *rows, depth))
    right = graph.reshape(right, (*together, depth, _product(free[1])))
    shape = (*together, *rows, _product(free[1]))
    product = graph.add("MatMul", [left, right], shape, left.dtype)
    return [graph.cast(graph.reshape(product, output.shape), output.dtype)]


def _product(sizes: Shape) -> Any:
    return math.prod(sizes)


HANDLERS: dict[str, Handler] = {
    "broadcast_in_dim": broadcast,
    "concatenate": concatenate,
    "dot_general": dot,
    "expand_dims": expand_dims,
    "iota": iota,
    "pad": pad,
    "reshape": reshape,
    "rev": reverse,
    "slice": slice_,
    "split": split,
    "squeeze": squeeze,
    "stack": stack,
    "transpose": transpose,
}
