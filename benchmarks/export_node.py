"""A run's policy in Node beside JAX: `python benchmarks/export_node.py RUN FOLDER`.

FOLDER must have an ONNX runtime of npm: `npm install onnxruntime-node` there (it also asks for CUDA
from elsewhere: without a way there, add --ignore-scripts), or onnxruntime-web. Writes the export
and 200 random steps there, with masks, absent agents, resets, greedy and sampled actions of two
environments, and has benchmarks/export_node.mjs play them.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from oryx_marl.policy import export
from oryx_marl.policy.artifact import PolicyArtifact
from oryx_marl.runs.folder import load_policy
from oryx_marl.types import Observation, Spec

BATCH, STEPS = 2, 200


def random_step(spec: Spec, rng: np.random.Generator, is_first: bool) -> dict[str, np.ndarray]:
    """Inputs of one step, without the state."""
    agents = (BATCH, spec.num_agents)
    actions = (*agents, spec.action.size)
    here = rng.random(agents) < 0.8
    mask = rng.random(actions) < 0.7
    mask |= ~mask.any(-1, keepdims=True) | ~here[..., None] | (spec.action.kind == "box")
    draw = rng.gumbel if spec.action.kind == "discrete" else rng.normal
    widths = np.arange(spec.observation_size) < np.array(spec.observation_sizes)[:, None]
    features = rng.normal(size=(*agents, spec.observation_size)) * widths * here[..., None]
    return {
        "features": features.astype(np.float32),
        "action_mask": mask,
        "agent_mask": here,
        "reset": (rng.random(BATCH) < 0.05) | is_first,
        "step_count": np.zeros(BATCH, np.int32),
        "last_rewards": rng.normal(size=agents).astype(np.float32),
        "noise": (draw(size=actions) * rng.choice([0, 1], (BATCH, 1, 1))).astype(np.float32),
    }


def play(artifact: PolicyArtifact) -> list[dict[str, Any]]:
    """Random steps, and what the policy does in them."""
    policy = artifact.algorithm.policy(jax.tree.map(jnp.asarray, artifact.weights_of()))
    act, carry, rng, steps = jax.jit(policy.act), policy.init(BATCH), np.random.default_rng(0), []
    count = np.zeros(BATCH, np.int32)
    for number in range(STEPS):
        step = random_step(artifact.spec, rng, number == 0)
        count = np.where(step["reset"], 0, count + 1).astype(np.int32)
        step["step_count"] = count
        seen = Observation(*(jnp.asarray(step[name]) for name in Observation._fields))
        carry, actions, _ = act(carry, seen, jnp.asarray(step["noise"]))
        steps.append({name: np.asarray(each).tolist() for name, each in step.items()})
        steps[-1]["actions"] = np.asarray(actions).tolist()
    return steps


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runtime", default="onnxruntime-node")
    given = parser.parse_args()
    policy, home = load_policy(given.run), given.folder.resolve()
    export.write(policy, home / "onnx", "onnx")
    (home / "steps.json").write_text(json.dumps(play(policy)))
    script = Path(__file__).with_suffix(".mjs").resolve()
    words = ["node", str(script), "onnx", "steps.json", given.runtime]
    sys.exit(subprocess.run(words, cwd=home, check=False).returncode)


if __name__ == "__main__":
    main()
