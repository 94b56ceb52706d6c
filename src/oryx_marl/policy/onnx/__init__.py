"""ONNX graphs of JAX functions: a node or a few for each primitive that policies are made of."""
