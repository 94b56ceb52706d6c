"""Primitives that look up and replace entries at places known only when the graph runs.

Of XLA's general gather and scatter, the forms that indexing with arrays, `vmap` and dynamic slices
give; others are refused.
"""

from typing import Any

import numpy as np
from jax.lax import GatherScatterMode

from oryx_marl.policy.onnx.elementwise import Handler
from oryx_marl.policy.onnx.graph import Graph, Value, broadcast_shapes, constant, is_known


def gather(graph: Graph, equation: Any, inputs: list[Value]) -> list[Value]:
    """Parts of some axes, from places of which each batch has its own."""
    operand, places = (variable.aval.shape for variable in equation.invars)
    numbers, sizes = equation.params["dimension_numbers"], equation.params["slice_sizes"]
    batch = [int(axis) for axis in numbers.operand_batching_dims]
    columns, looked = _looked_up(equation, operand)
    rest = [axis for axis in range(len(operand)) if axis not in (*batch, *looked)]
    if any(sizes[axis] != operand[axis] for axis in rest):
        raise NotImplementedError("of parts of axes that are not looked up")
    value = graph.transpose(graph.fill(inputs[0], operand), [*batch, *looked, *rest])
    # Places as [batch, others, axes looked up].
    own = [int(axis) for axis in numbers.start_indices_batching_dims]
    others = [axis for axis in range(len(places) - 1) if axis not in own]
    start = graph.cast(graph.fill(inputs[1], places), np.int64)
    start = graph.transpose(start, [*own, *others, len(places) - 1])
    if len(columns) < places[-1]:
        chosen, shape = constant(np.array(columns, np.int64)), (*start.shape[:-1], len(columns))
        start = graph.add("Gather", [start, chosen], shape, np.int64, axis=-1)
    most = np.array([operand[axis] - sizes[axis] for axis in looked], np.int64)
    inside = _clip(graph, start, most)
    count = len(own) + len(others)
    # With an axis for each of those looked up: the entries of a part are at places of their own.
    index = graph.expand_dims(inside, range(count, count + len(looked)))
    within = constant(np.moveaxis(np.indices([int(sizes[axis]) for axis in looked]), 0, -1))
    shape = broadcast_shapes(index.shape, within.shape)
    index = graph.add("Add", [index, within], shape, np.int64)
    taken = (*shape[:-1], *(operand[axis] for axis in rest))
    found = graph.add("GatherND", [value, index], taken, value.dtype, batch_dims=len(batch))
    if equation.params["mode"] == GatherScatterMode.FILL_OR_DROP:
        found = _fill_outside(graph, equation, found, (start, inside))
    return [_arrange(graph, equation, found, [*own, *others], [*looked, *rest])]


def _looked_up(equation: Any, operand: tuple) -> tuple[list[int], list[int]]:
    """Columns of the places that matter, and the axes they are of. Where places are moved inside,
    those of axes that are taken as a whole are 0, whatever they say."""
    numbers, sizes = equation.params["dimension_numbers"], equation.params["slice_sizes"]
    is_filled = equation.params["mode"] == GatherScatterMode.FILL_OR_DROP
    pairs = [
        (column, int(axis))
        for column, axis in enumerate(numbers.start_index_map)
        if is_filled or sizes[axis] != operand[axis]
    ]
    if not pairs:  # the whole array, as of a single agent: one axis is looked up, at 0
        axes = [int(axis) for axis in numbers.start_index_map]
        pairs = [(n, axis) for n, axis in enumerate(axes) if is_known((operand[axis],))][:1]
    if not pairs:
        raise NotImplementedError("of the whole batch")
    return [column for column, _ in pairs], [axis for _, axis in pairs]


def _clip(graph: Graph, start: Value, most: np.ndarray) -> Value:
    """Places at which a whole slice fits."""
    raised = graph.add("Max", [start, constant(np.zeros((), np.int64))], start.shape, np.int64)
    return graph.add("Min", [raised, constant(most)], start.shape, np.int64)


def _fill_outside(graph: Graph, equation: Any, found: Value, starts: tuple[Value, Value]) -> Value:
    """A number for what lies outside."""
    fill, dtype = equation.params["fill_value"], found.dtype
    if fill is None:
        fill = np.nan if dtype.kind == "f" else dtype.kind == "b" or np.iinfo(dtype).min
    start, inside = starts
    fits = graph.add("Equal", [start, inside], start.shape, np.bool_)
    number, axes = graph.cast(fits, np.int32), constant(np.array([-1], np.int64))
    fits = graph.add("ReduceMin", [number, axes], start.shape[:-1], np.int32, keepdims=0)
    fits = graph.cast(fits, np.bool_)
    fits = graph.expand_dims(fits, range(len(start.shape) - 1, len(found.shape)))
    return graph.where(fits, found, constant(np.array(fill, dtype)))


def _arrange(
    graph: Graph, equation: Any, found: Value, of_places: list[int], of_operand: list[int]
) -> Value:
    """From [places, operand] to the order of axes that the primitive gives."""
    numbers, count = equation.params["dimension_numbers"], len(of_places)
    collapsed = [int(axis) for axis in numbers.collapsed_slice_dims]
    gone = [count + place for place, axis in enumerate(of_operand) if axis in collapsed]
    found = graph.squeeze(found, gone)
    kept = [axis for axis in of_operand if axis not in collapsed]
    offsets = iter(np.argsort(kept)) if kept else iter(())
    batches = iter(np.argsort(of_places)) if of_places else iter(())
    offset_dims = {int(axis) for axis in numbers.offset_dims}
    order = [
        count + int(next(offsets)) if axis in offset_dims else int(next(batches))
        for axis in range(len(equation.outvars[0].aval.shape))
    ]
    return graph.transpose(found, order)


def scatter(graph: Graph, equation: Any, inputs: list[Value]) -> list[Value]:
    """Puts updates at one place of one axis, of which each batch has its own."""
    operand, places, updates = (variable.aval.shape for variable in equation.invars)
    numbers = equation.params["dimension_numbers"]
    batch = [int(axis) for axis in numbers.operand_batching_dims]
    axes = [int(axis) for axis in numbers.scatter_dims_to_operand_dims]
    own = [int(axis) for axis in numbers.scatter_indices_batching_dims]
    inserted = [int(axis) for axis in numbers.inserted_window_dims]
    if len(axes) != 1 or len(own) != len(places) - 1 or inserted != axes:
        raise NotImplementedError("to several places")
    (axis,), rank = axes, len(operand)
    index = graph.cast(graph.fill(inputs[1], places), np.int64)
    if equation.params["mode"] == GatherScatterMode.CLIP:
        index = _clip(graph, index, np.array([operand[axis] - 1], np.int64))
    # The places' axes as the operand has its own: [batch] where those are, 1 elsewhere.
    index = graph.squeeze(index, [len(places) - 1])
    index = graph.transpose(index, [own[place] for place in np.argsort(batch)])
    index = graph.expand_dims(index, [n for n in range(rank) if n not in batch])
    count = np.arange(operand[axis], dtype=np.int64)
    count = count.reshape([-1 if n == axis else 1 for n in range(rank)])
    shape = broadcast_shapes(index.shape, count.shape)
    here = graph.add("Equal", [index, constant(count)], shape, np.bool_)
    # Updates come as [places in their order, window in the operand's], at the axes that are told.
    windows = [int(n) for n in numbers.update_window_dims]
    scattered = [n for n in range(len(updates)) if n not in windows]
    of_axis = {n: scattered[own[place]] for place, n in enumerate(batch)}
    kept = [n for n in range(rank) if n not in (*batch, axis)]
    of_axis |= dict(zip(kept, windows, strict=True))
    new = graph.transpose(graph.fill(inputs[2], updates), [of_axis[n] for n in sorted(of_axis)])
    new = graph.expand_dims(new, [axis])
    return [graph.where(here, new, graph.fill(inputs[0], operand))]


def dynamic_slice(graph: Graph, equation: Any, inputs: list[Value]) -> list[Value]:
    """A part of a known size, that is moved inside where it would reach beyond an end."""
    shape, sizes = equation.invars[0].aval.shape, equation.params["slice_sizes"]
    value = graph.fill(inputs[0], shape)
    for axis, start in enumerate(inputs[1:]):
        if sizes[axis] == shape[axis]:
            continue
        if not is_known((sizes[axis], shape[axis])):
            raise NotImplementedError("of a part of the batch")
        length = int(sizes[axis])
        first = graph.reshape(graph.cast(start, np.int64), (1,))
        first = _clip(graph, first, np.array(shape[axis] - length, np.int64))
        numbers = constant(np.arange(length, dtype=np.int64))
        index = graph.add("Add", [first, numbers], (length,), np.int64)
        out = tuple(length if n == axis else size for n, size in enumerate(value.shape))
        value = graph.add("Gather", [value, index], out, value.dtype, axis=axis)
    return [value]


HANDLERS: dict[str, Handler] = {
    "dynamic_slice": dynamic_slice,
    "gather": gather,
    "scatter": scatter,
}
