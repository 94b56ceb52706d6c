"""What stands beside an exported policy for people: a README and a program that runs it."""

from typing import Any

PROGRAM = '''"""Plays the exported policy on made-up observations; it needs {install}."""

import json
from pathlib import Path

{imports}

folder, batch, rng = Path(__file__).parent, 2, np.random.default_rng(0)
contract = json.loads((folder / "contract.json").read_text())
{load}
following = {{each["name"]: each["next"] for each in contract["inputs"] if "next" in each}}
inputs = {{}}
for each in contract["inputs"]:
    shape = [batch if size == "batch" else size for size in each["shape"]]
    inputs[each["name"]] = np.full(shape, each.get("initial", 0), each["dtype"])
inputs["action_mask"][:] = inputs["agent_mask"][:] = True
for step in range(5):
    inputs["features"] = rng.normal(size=inputs["features"].shape).astype(np.float32)
    inputs["reset"][:], inputs["step_count"][:] = step == 0, step
    inputs["noise"] = rng.{draw}(size=inputs["noise"].shape).astype(np.float32)  # zeros: greedy
    outputs = dict(zip((each["name"] for each in contract["outputs"]), {call}, strict=True))
    inputs |= {{name: outputs[after] for name, after in following.items()}}
    print(f"step {{step}}: actions {{outputs['actions'].tolist()}}")
'''
DRAWS = {"gumbel": "gumbel", "normal": "normal"}
PARTS = {
    "onnx": {
        "install": "numpy onnxruntime",
        "imports": "import numpy as np\nimport onnxruntime",
        "load": 'session = onnxruntime.InferenceSession(folder / contract["file"])',
        "call": "session.run(None, inputs)",
    },
    "stablehlo": {
        "install": "jax flatbuffers",
        "imports": "import numpy as np\nfrom jax import export, jit",
        "load": 'policy = export.deserialize(bytearray((folder / contract["file"]).read_bytes()))\n'
        "call = jit(policy.call)",
        "call": "call(*inputs.values())",
    },
}
README = """# A policy for {agents}

Exported by oryx-marl {version}{origin}. `{file}` is one step of the policy:

    {signature}

It keeps nothing and draws nothing: hand the state that it gives to the next step, and say with
`reset` when an episode begins. Noise of a standard {noise} distribution samples actions; times a
temperature t it acts at that temperature; zeros always take the likeliest action. The first axis of
everything is a batch of any length.

| input | type | shape | |
|---|---|---|---|
{inputs}

| output | type | shape | |
|---|---|---|---|
{outputs}

- `contract.json` has the same for programs, with the initial state, the names of agents and
  actions, versions, and the SHA-256 of every file here.
- `run.py` plays it on made-up observations: `pip install {install}`, then `python run.py`.
{further}"""
FURTHER = {
    "onnx": """- From Python, with observations by agent's name and all shapes checked: the package
  oryx-marl-runtime, which needs numpy and onnxruntime alone, and then
  `oryx_marl_runtime.load("this folder").act(observations, action_mask)`.
- Any runtime that knows opset {opset} can run it: onnxruntime has packages for C++, C#, Java and
  JavaScript.
""",
    "stablehlo": """- It runs on {platforms} with JAX {jax} or a newer one. JAX promises to
  read such files for six months: keep the run's policy file too, and export it again after them.
""",
}


def make_program(kind: str, noise: str) -> str:
    """The text of `run.py`."""
    return PROGRAM.format(draw=DRAWS[noise], **PARTS[kind])


def make_readme(contract: dict[str, Any]) -> str:
    """The text of `README.md`."""
    kind, versions = contract["kind"], contract["versions"]
    names = [[each["name"] for each in contract[side]] for side in ("inputs", "outputs")]
    policy = contract["policy"]
    update = "" if policy["update"] is None else f", update {policy['update']:,}"
    return README.format(
        agents=f"{len(contract['spec']['agents'])} agents",
        version=versions["oryx_marl"],
        origin=f": algorithm {policy['algorithm']}, seed {policy['seed']}{update}",
        file=contract["file"],
        signature=f"({', '.join(names[0])})\n        -> ({', '.join(names[1])})",
        noise={"gumbel": "Gumbel", "normal": "Normal"}[contract["noise"]["distribution"]],
        inputs="\n".join(_row(each) for each in contract["inputs"]),
        outputs="\n".join(_row(each) for each in contract["outputs"]),
        install=PARTS[kind]["install"],
        further=FURTHER[kind].format(
            opset=versions.get("opset"),
            platforms=", ".join(contract.get("platforms", [])),
            jax=versions["jax"],
        ),
    )


def _row(entry: dict[str, Any]) -> str:
    about = entry.get("about", "recurrent state")
    if not entry.get("used", True):
        about += " (this policy makes no use of it)"
    shape = " x ".join(map(str, entry["shape"]))
    return f"| `{entry['name']}` | {entry['dtype']} | {shape} | {about} |"
