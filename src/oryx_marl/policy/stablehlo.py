"""Export to StableHLO: one file that JAX runs on CPUs, NVIDIA GPUs and TPUs, for any batch."""

import importlib.util

import jax
from jax import export

from oryx_marl.errors import OryxError
from oryx_marl.installation import how_to_install
from oryx_marl.policy.contract import Contract

PLATFORMS = ("cpu", "cuda", "tpu")


def to_stablehlo(contract: Contract) -> tuple[bytes, int]:
    """A file for `jax.export.deserialize`, and the version of its calling convention."""
    if importlib.util.find_spec("flatbuffers") is None:
        raise OryxError(
            f"export to StableHLO needs the package flatbuffers: {how_to_install('export')}"
        )
    exported = export.export(jax.jit(contract.step), platforms=PLATFORMS)(*contract.inputs.values())
    return bytes(exported.serialize()), exported.calling_convention_version
