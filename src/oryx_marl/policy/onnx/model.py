"""A graph in ONNX's own format; the one file that needs its package."""

from typing import Any

import numpy as np

import oryx_marl
from oryx_marl.errors import OryxError
from oryx_marl.installation import how_to_install
from oryx_marl.policy.onnx.graph import Body, Node, Value, is_known

try:
    import onnx
    from onnx import helper, numpy_helper
except ImportError as error:
    raise OryxError(f"export to ONNX needs the package onnx: {how_to_install('export')}") from error

OPSET = 18
IR_VERSION = 8
"""Those of ONNX 1.13 (2022): what runtimes of several years know."""


def to_model(body: Body) -> Any:
    """The ONNX model of a graph, checked."""
    model = helper.make_model(
        _graph(body),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="oryx-marl",
        producer_version=oryx_marl.__version__,
    )
    onnx.checker.check_model(model, full_check=True)
    return model


def _graph(body: Body) -> Any:
    return helper.make_graph(
        [_node(node) for node in body.nodes],
        body.name,
        [_describe(value) for value in body.inputs],
        [_describe(value) for value in body.outputs],
        [numpy_helper.from_array(array, name) for name, array in body.constants.items()],
    )


def _node(node: Node) -> Any:
    attributes = {name: _attribute(value) for name, value in node.attributes.items()}
    return helper.make_node(node.op, node.inputs, node.outputs, **attributes)


def _attribute(value: Any) -> Any:
    if isinstance(value, Body):
        return _graph(value)
    return _type(value) if isinstance(value, np.dtype) else value


def _type(dtype: np.dtype) -> int:
    """ONNX's number of a type."""
    return int(helper.np_dtype_to_tensor_dtype(dtype))


def _describe(value: Value) -> Any:
    """Name, type and shape of an input or output; the batch's axis is called `batch`."""
    sizes = [int(size) if is_known((size,)) else "batch" for size in value.shape]
    return helper.make_tensor_value_info(value.name, _type(value.dtype), sizes)
