"""Which ways of the retention kernel fit on this GPU, and how fast each is beside the plain form.

    python benchmarks/retention_ways.py [--out FILE]

Forward and backward of one layer's mixing for 64 sequences. Gives `WAYS` of ops/retention_fit.py
its order, and its estimate something to be compared with.
"""

import argparse
import json
import time
from pathlib import Path
from statistics import median
from typing import Any

import jax
import jax.numpy as jnp

from oryx_marl.networks.retention import HeadNorm, mix
from oryx_marl.ops._retention_chunks import cut
from oryx_marl.ops.retention import Layout
from oryx_marl.ops.retention_fit import estimate_shared_memory, shared_memory_limit
from oryx_marl.ops.retention_kernel import gated_retention

BATCH, REPEATS, CALLS = 64, 5, 20
WAYS = ((64, 2), (64, 1), (32, 2), (32, 1))
CASES = [
    # steps, agents, heads, head width, dtype
    (20, 2, 1, 64, "float32"),
    (50, 2, 1, 64, "float32"),
    (50, 2, 1, 64, "bfloat16"),
    (20, 10, 1, 64, "float32"),
    (20, 10, 4, 32, "float32"),
    (20, 50, 4, 32, "float32"),
    (20, 50, 2, 64, "float32"),
    (20, 2, 1, 128, "float32"),
    (50, 2, 1, 128, "float32"),
    (50, 2, 1, 128, "bfloat16"),
    (20, 50, 1, 128, "float32"),
]


def measure(form: Any, layout: Layout, steps: int, width: int, dtype: str) -> dict[str, Any]:
    """Microseconds of a forward and backward pass, or why it does not run."""
    heads, agents = layout.num_heads, layout.num_agents
    keys = jax.random.split(jax.random.key(0))
    x = jax.random.normal(keys[0], (BATCH, steps, agents, 4 * heads * width)).astype(dtype)
    agent_mask, reset = jnp.ones(x.shape[:3], bool), jnp.zeros(x.shape[:2], bool)
    towards = jax.random.normal(keys[1], (*x.shape[:3], heads * width)).astype(dtype)
    decays, norm = jnp.full(heads, 0.95), HeadNorm(heads, width)

    def score(x: Any, norm: Any) -> Any:
        def one(x: Any, reset: Any, agent_mask: Any) -> Any:
            return form(layout, (x,), None, reset, agent_mask, decays, norm)[0]

        return jnp.sum((jax.vmap(one)(x, reset, agent_mask) * towards).astype(jnp.float32))

    began = time.perf_counter()
    try:
        call = jax.jit(jax.value_and_grad(score, argnums=(0, 1))).lower(x, norm).compile()
    except jax.errors.JaxRuntimeError as error:
        return {"error": str(error).splitlines()[0][:200]}
    compiling = time.perf_counter() - began
    jax.block_until_ready(call(x, norm))
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        jax.block_until_ready([call(x, norm) for _ in range(CALLS)])
        times.append((time.perf_counter() - began) / CALLS)
    return {"microseconds": 1e6 * median(times), "compile_seconds": compiling}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="JSON file")
    arguments = parser.parse_args()
    device, rows = jax.devices()[0], []
    print(device.device_kind, "shared memory of a program:", shared_memory_limit(device))
    for steps, agents, heads, width, dtype in CASES:
        for causal in (False, True):
            layout = Layout(((0, 0), (0, 1), (0, 2), (0, 3)), agents, heads, causal)
            measured = {"plain": measure(mix, layout, steps, width, dtype)}
            for max_chunk, num_stages in WAYS:
                way = layout._replace(max_chunk=max_chunk, num_stages=num_stages)
                chunks = cut(steps, agents, causal, max_chunk)
                size = jnp.dtype(dtype).itemsize
                estimate = estimate_shared_memory(chunks, width, size, num_stages)
                found = measure(gated_retention, way, steps, width, dtype)
                measured[f"{max_chunk}x{num_stages}"] = {**found, "estimated_bytes": estimate}
            case = {"T": steps, "N": agents, "H": heads, "K": width, "dtype": dtype}
            rows.append({**case, "causal": causal, **measured})
            shown = {
                name: round(one["microseconds"], 1) if "microseconds" in one else one["error"]
                for name, one in measured.items()
            }
            print(*case.values(), "causal" if causal else "", shown, flush=True)
    if arguments.out:
        arguments.out.write_text(json.dumps({"device": device.device_kind, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
