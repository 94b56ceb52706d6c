"""All tests run with shapes and types of every annotated function checked."""

import jax
from jaxtyping import install_import_hook

with install_import_hook("oryx_marl", "beartype.beartype"):
    import oryx_marl  # noqa: F401

# Accelerators multiply float32 in lower precision by default; equalities are tested in full.
jax.config.update("jax_default_matmul_precision", "highest")
