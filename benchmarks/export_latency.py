"""Time of one step of exported policies beside the player's, on one core:
`python benchmarks/export_latency.py [ALGORITHM ...]`.

The player is `oryx_marl.load(run).act`, the runtime `oryx_marl_runtime.load(folder).act`: both take
observations by agent and check them. StableHLO and ONNX are the bare files, called with arrays.
Sampled actions, one environment, fresh weights (which ones does not matter for the time). Writes
results/speed/export-cpu.json, one row per algorithm and number of agents, times in milliseconds:
wall time (p50, p99), which other programs on the core lengthen, and processor time beside it.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

CORE = min(os.sched_getaffinity(0))
os.sched_setaffinity(0, {CORE})  # before JAX counts the cores

import jax  # noqa: E402
import numpy as np  # noqa: E402
import onnxruntime  # noqa: E402
from jax import export as jax_export  # noqa: E402

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "runtime" / "src"))

import oryx_marl_runtime  # noqa: E402
from oryx_marl import registry  # noqa: E402
from oryx_marl.algorithms._making import make_algorithm  # noqa: E402
from oryx_marl.policy import export  # noqa: E402
from oryx_marl.policy.artifact import PolicyArtifact  # noqa: E402
from oryx_marl.policy.player import Player  # noqa: E402
from oryx_marl.provenance import find_commit  # noqa: E402
from oryx_marl.types import ActionSpace, Spec  # noqa: E402

RESULTS = ROOT / "results" / "speed"
NAMES = ("oryx", "bc")
AGENTS = (2, 10, 50)
FEATURES, ACTIONS = 40, 6
WIDTH = 128
"""Of the networks, as the data of the paper's larger tasks choose."""
STEPS = 1000
WARM = 50


def make_policy(name: str, agents: int) -> PolicyArtifact:
    """Fresh weights for so many agents."""
    names = tuple(f"agent_{number}" for number in range(agents))
    spec = Spec("", names, (FEATURES,) * agents, ActionSpace("discrete", ACTIONS))
    config = registry.load("algorithms", name).Config()
    sizes = {
        key: WIDTH
        for key in ("width", "linear_width", "recurrent_width")
        if hasattr(config.network, key)
    }
    network = type(config.network)(**{**vars(config.network), **sizes})
    algorithm = make_algorithm(name, type(config)(**{**vars(config), "network": network}), spec)
    weights = algorithm.weights(jax.vmap(algorithm.init)(jax.random.key(0)[None]))
    return PolicyArtifact(name, algorithm, spec, jax.device_get(weights), (0,), {})


def measure(step: Callable[[np.ndarray], Any], agents: int, steps: int) -> dict[str, float]:
    """Percentiles of the wall time of a step, and of its processor time, in milliseconds."""
    rng = np.random.default_rng(0)
    seen = rng.normal(size=(WARM + steps, agents, FEATURES)).astype(np.float32)
    wall, processor = [], []
    for features in seen:
        began, spent = time.perf_counter(), time.process_time()
        step(features)
        processor.append(1e3 * (time.process_time() - spent))
        wall.append(1e3 * (time.perf_counter() - began))
    found = {"p50": np.percentile(wall[WARM:], 50), "p99": np.percentile(wall[WARM:], 99)}
    found["processor_p50"] = np.percentile(processor[WARM:], 50)
    return {name: round(float(value), 3) for name, value in found.items()}


def bare(folder: Path, call: Callable[[dict[str, np.ndarray]], list[Any]]) -> Callable:
    """A step with the state handed on, given what calls the file."""
    contract = json.loads((folder / export.CONTRACT).read_text())
    inputs = {
        each["name"]: np.full([1, *each["shape"][1:]], each.get("initial", 0), each["dtype"])
        for each in contract["inputs"]
    }
    inputs["action_mask"][:] = inputs["agent_mask"][:] = True
    after = {each["name"]: each["next"] for each in contract["inputs"] if "next" in each}
    names = [each["name"] for each in contract["outputs"]]

    def step(features: np.ndarray) -> np.ndarray:
        inputs["features"] = features[None]
        outputs = dict(zip(names, call(inputs), strict=True))
        inputs.update({name: outputs[other] for name, other in after.items()})
        return np.asarray(outputs["actions"])

    return step


def run(name: str, agents: int, steps: int, home: Path) -> dict[str, Any]:
    """A row of the table."""
    policy = make_policy(name, agents)
    folders = {kind: export.write(policy, home / f"{name}-{agents}-{kind}", kind) for kind in KINDS}
    content = (folders["stablehlo"] / "policy.stablehlo").read_bytes()
    call = jax.jit(jax_export.deserialize(bytearray(content)).call)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(folders["onnx"] / "policy.onnx", options)
    ways = {
        "player": Player(policy).act,
        "stablehlo": bare(folders["stablehlo"], lambda inputs: call(*inputs.values())),
        "runtime": oryx_marl_runtime.load(folders["onnx"]).act,
        "onnx": bare(folders["onnx"], lambda inputs: session.run(None, inputs)),
    }
    row: dict[str, Any] = {"algorithm": name, "num_agents": agents}
    for way, step in ways.items():
        row |= {f"{way}_{key}": value for key, value in measure(step, agents, steps).items()}
    return row | {"onnx_bytes": (folders["onnx"] / "policy.onnx").stat().st_size}


KINDS = ("onnx", "stablehlo")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("names", nargs="*", default=list(NAMES))
    parser.add_argument("--agents", type=int, nargs="+", default=list(AGENTS))
    parser.add_argument("--steps", type=int, default=STEPS)
    given = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as home:
        for name in given.names:
            for agents in given.agents:
                rows.append(run(name, agents, given.steps, Path(home)))
                print(*(f"{key}={value}" for key, value in rows[-1].items()), flush=True)
    found = {
        "command": f"python benchmarks/export_latency.py {' '.join(given.names)} "
        f"--agents {' '.join(map(str, given.agents))} --steps {given.steps}",
        "commit": find_commit(),
        "device": "cpu, one core",
        "jax": jax.__version__,
        "onnxruntime": onnxruntime.__version__,
        "width": WIDTH,
        "load_average": round(os.getloadavg()[0], 1),
        "rows": rows,
    }
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "export-cpu.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
