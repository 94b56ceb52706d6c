"""A graph under construction: its values, nodes and constants, as plain data.

Nodes are ONNX's operators, but nothing here needs the package: `model.py` writes ONNX's format, and
the live page runs the same nodes.

Broadcasting is lazy. A value keeps an axis of length 1 where JAX has already repeated it, since
nodes that work entry by entry repeat it themselves; `Graph.fill` writes it out where it matters.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from oryx_marl.errors import OryxError

Size = Any
"""Length of an axis: an int, or a multiple of the batch's, as jax.export writes it."""
Shape = tuple[Size, ...]


@dataclass(frozen=True, eq=False)
class Value:
    """An array of the graph: by name, or by content where that is known when it is made."""

    shape: Shape
    """As the graph has it: 1 where it is yet to be repeated."""
    dtype: np.dtype
    name: str = ""
    array: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class Node:
    """One operator of ONNX: names of what it reads and gives."""

    op: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Any]
    """Numbers, types, and the Body of a loop."""


@dataclass(frozen=True, eq=False)
class Body:
    """A whole graph, or one round of a loop, which reads the values outside of it too."""

    name: str
    nodes: list[Node]
    inputs: list[Value]
    outputs: list[Value]
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    """Of the outermost graph."""


def constant(array: Any) -> Value:
    """A value that is known."""
    array = np.asarray(array)
    return Value(array.shape, array.dtype, array=array)


def is_known(shape: Shape) -> bool:
    """Whether no length depends on the batch."""
    return all(isinstance(size, int | np.integer) for size in shape)


def broadcast_shapes(*shapes: Shape) -> Shape:
    """The shape that nodes give to inputs of these."""
    rank = max(len(shape) for shape in shapes)
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    return tuple(
        next((n for n in sizes if not _is(n, 1)), 1) for sizes in zip(*padded, strict=True)
    )


def _is(size: Size, number: int) -> bool:
    return isinstance(size, int | np.integer) and int(size) == number


class Graph:
    """Nodes in the order in which they run; a body of a loop sees the values of its parent."""

    def __init__(self, parent: "Graph | None" = None) -> None:
        self.nodes: list[Node] = []
        self.root: Graph = self if parent is None else parent.root
        self._count = 0
        self._constants: dict[tuple, str] = {}
        self.constants: dict[str, np.ndarray] = {}
        self._batch: tuple[Size, Value] | None = None
        self._reshaped: dict[str, Value] = {}
        """What a value was before it was reshaped."""

    def new_name(self, stem: str) -> str:
        """A name that no other value has, in this graph or another of the model."""
        self.root._count += 1
        return f"{stem}_{self.root._count}"

    def add(
        self, op: str, inputs: Sequence[Value], shape: Shape, dtype: Any, **attributes: Any
    ) -> Value:
        """Appends a node with one output."""
        output = Value(tuple(shape), np.dtype(dtype), self.new_name(op))
        names = [self.name_of(value) for value in inputs]
        self.nodes.append(Node(op, names, [output.name], attributes))
        return output

    def name_of(self, value: Value) -> str:
        """Its name; what is known becomes a constant of the outermost graph, once."""
        if value.array is None:
            return value.name
        array, root = np.ascontiguousarray(value.array).reshape(value.array.shape), self.root
        key = array.dtype.str, array.shape, array.tobytes()
        if key not in root._constants:
            name = self.new_name("constant")
            root.constants[name] = array
            root._constants[key] = name
        return root._constants[key]

    def set_batch(self, size: Size, source: Value) -> None:
        """Says which length is the batch's, and of which value it is the first."""
        whole = self.add("Shape", [source], (len(source.shape),), np.int64)
        first = self.slice(whole, [0], [1], [0], (1,))
        self._batch = size, first

    def sizes(self, shape: Shape) -> Value:
        """A shape as a vector of int64, as nodes take it."""
        if is_known(shape):
            return constant(np.array(shape, np.int64).reshape(-1))
        assert self.root._batch is not None
        batch, first = self.root._batch
        pieces = []
        for size in shape:
            if is_known((size,)):
                pieces.append(constant(np.array([size], np.int64)))
                continue
            times = size // batch
            if not is_known((times,)) or not _is(size % batch, 0):
                raise OryxError(f"export to ONNX has no axes of length {size}")
            factor = constant(np.array([times], np.int64))
            pieces.append(first if _is(times, 1) else self.add("Mul", [first, factor], (1,), "i8"))
        return self.concat(pieces, 0, (len(shape),))

    def concat(self, values: Sequence[Value], axis: int, shape: Shape) -> Value:
        """One after the other along an axis; all must be written out."""
        if len(values) == 1:
            return values[0]
        return self.add("Concat", values, shape, values[0].dtype, axis=axis)

    def fill(self, value: Value, shape: Shape) -> Value:
        """The value with all its axes written out."""
        if value.array is not None and is_known(shape):
            return constant(np.broadcast_to(value.array, [int(n) for n in shape]))
        if tuple(value.shape) == tuple(shape):
            return value
        # An axis that is there already needs no number: 1 leaves it as it is.
        padded = (1,) * (len(shape) - len(value.shape)) + tuple(value.shape)
        pairs = zip(padded, shape, strict=True)
        wanted = tuple(1 if own == size and not is_known((size,)) else size for own, size in pairs)
        return self.add("Expand", [value, self.sizes(wanted)], shape, value.dtype)

    def reshape(self, value: Value, shape: Shape) -> Value:
        """All entries, in their order, in another shape; the value must be written out.

        It is taken from what was reshaped first, so that chains of reshapes are one or none.
        """
        shape = tuple(shape)
        if value.array is not None and is_known(shape):
            return constant(value.array.reshape([int(n) for n in shape]))
        value = self.root._reshaped.get(value.name, value)
        if value.shape == shape:
            return value
        unknown = [place for place, size in enumerate(shape) if not is_known((size,))]
        numbers = self.sizes(shape) if len(unknown) > 1 or 0 in shape else None
        if numbers is None:
            plain = [-1 if place in unknown else int(size) for place, size in enumerate(shape)]
            numbers = constant(np.array(plain, np.int64).reshape(-1))
        found = self.add("Reshape", [value, numbers], shape, value.dtype)
        self.root._reshaped[found.name] = value
        return found

    def transpose(self, value: Value, order: Sequence[int]) -> Value:
        """Axes in another order; where only axes of length 1 move, that is a reshape."""
        shape = tuple(value.shape[axis] for axis in order)
        if value.array is not None:
            return constant(value.array.transpose(order))
        long = [axis for axis in order if not _is(value.shape[axis], 1)]
        if long == sorted(long):
            return self.reshape(value, shape)
        return self.add("Transpose", [value], shape, value.dtype, perm=[int(n) for n in order])

    def slice(
        self,
        value: Value,
        starts: Sequence[int],
        stops: Sequence[int],
        axes: Sequence[int],
        shape: Shape,
        steps: Sequence[int] | None = None,
    ) -> Value:
        """A part of some axes."""
        numbers = [starts, stops, axes, [1] * len(axes) if steps is None else steps]
        vectors = [constant(np.array(each, np.int64)) for each in numbers]
        return self.add("Slice", [value, *vectors], shape, value.dtype)

    def expand_dims(self, value: Value, axes: Sequence[int]) -> Value:
        """New axes of length 1, at these places of the result."""
        shape = list(value.shape)
        for axis in sorted(axes):
            shape.insert(axis, 1)
        return self.reshape(value, tuple(shape))

    def squeeze(self, value: Value, axes: Sequence[int]) -> Value:
        """Without these axes of length 1."""
        shape = (size for place, size in enumerate(value.shape) if place not in axes)
        return self.reshape(value, tuple(shape))

    def cast(self, value: Value, dtype: Any) -> Value:
        """In another type."""
        dtype = np.dtype(dtype)
        if value.dtype == dtype:
            return value
        if value.array is not None:
            return constant(value.array.astype(dtype))
        return self.add("Cast", [value], value.shape, dtype, to=dtype)

    def where(self, mask: Value, this: Value, other: Value) -> Value:
        """`this` where the mask holds. Not all runtimes select among booleans, so those are
        combined."""
        if mask.array is not None and mask.array.all() == mask.array.any():
            return this if mask.array.all() else other
        shape = broadcast_shapes(mask.shape, this.shape, other.shape)
        if this.dtype != np.bool_:
            return self.add("Where", [mask, this, other], shape, this.dtype)
        held = self.add("And", [mask, this], broadcast_shapes(mask.shape, this.shape), np.bool_)
        rest = self.add("Not", [mask], mask.shape, np.bool_)
        rest = self.add("And", [rest, other], broadcast_shapes(mask.shape, other.shape), np.bool_)
        return self.add("Or", [held, rest], shape, np.bool_)


def is_read(nodes: Sequence[Node], outputs: Sequence[str]) -> tuple[list[Node], set[str]]:
    """The nodes that the outputs need, and all names that these read, those of bodies too."""
    read, kept = set(outputs), []
    for node in reversed(nodes):
        if not read.intersection(node.outputs):
            continue
        kept.append(node)
        read.update(node.inputs)
        for value in node.attributes.values():
            if isinstance(value, Body):
                read |= is_read(value.nodes, [each.name for each in value.outputs])[1]
    return kept[::-1], read
