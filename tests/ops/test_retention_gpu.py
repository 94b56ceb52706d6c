"""On a GPU retention runs at any length, width and number of agents, and equals the plain form.

Products are as precise as they are in training (TF32, or bfloat16), since it is for these that the
kernel has to fit; so they are compared with the plain form in full precision by the norm of the
difference. `test_retention_kernel.py` compares element by element in full precision.
"""

import functools
import os
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oryx_marl.algorithms import oryx
from oryx_marl.networks.retention import Context, MultiHeadRetention
from oryx_marl.networks.sable import NetworkConfig
from oryx_marl.types import ActionSpace, Observation, Spec, Window

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(jax.default_backend() != "gpu", reason="needs a GPU"),
    pytest.mark.filterwarnings("ignore:retention over"),  # where the plain form has to do
]
STEPS = (2, 20, 40, 50, 64, 100, 200)
WIDE_STEPS = (20, 50, 200)
"""Of the widest heads, whose kernels compile for most of a minute."""
WIDTHS = (16, 32, 64, 128)
AGENTS = (1, 2, 3, 10, 50)
BATCH = 4
TOLERANCE = {"float32": 3e-2, "bfloat16": 1e-1}
"""Of norms, ‖found - expected‖ / ‖expected‖."""


def make(steps: int, agents: int, width: int, dtype: str) -> tuple[Any, jax.Array, Context]:
    """Both kinds of layers, their input, and who is there; with a reset, and some agents absent."""
    keys = jax.random.split(jax.random.key(steps * agents + width), 4)
    layers = (
        MultiHeadRetention(keys[0], width, 1, causal=False),
        MultiHeadRetention(keys[1], width, 1, causal=True, gate_stream="key"),
    )
    # Not around zero: queries would be nearly orthogonal to keys, which rounding turns around.
    x = 1 + jax.random.normal(keys[2], (BATCH, steps, agents, width))
    agent_mask = jax.random.bernoulli(keys[3], 0.9, x.shape[:3])
    reset = jnp.zeros(x.shape[:2], bool).at[:, 2 * steps // 3].set(True)
    return layers, x.astype(dtype), Context(jnp.array([0.95]), reset, agent_mask)


@functools.partial(jax.jit, static_argnames="plain")
def outputs_and_gradients(layers: Any, x: jax.Array, context: Context, plain: bool) -> Any:
    """Of each layer; gradients with respect to weights and input."""
    assert plain == (os.environ.get("ORYX_KERNELS") == "0")

    def score(layers: Any, x: jax.Array) -> tuple[jax.Array, list[jax.Array]]:
        found = [layer(x, x[..., ::-1], context, None)[0].astype(jnp.float32) for layer in layers]
        towards = jnp.cos(jnp.arange(x.size)).reshape(x.shape)
        return sum(jnp.sum(y * towards) for y in found), found

    gradients, outputs = jax.grad(score, argnums=(0, 1), has_aux=True)(layers, x)
    return {"outputs": outputs, "of weights": gradients[0], "of input": gradients[1]}


def check(cases: dict[str, tuple[int, int, int]], dtype: str, monkeypatch: Any) -> None:
    """Each case (steps, agents, width) equals the plain form in full precision."""
    made = {name: make(*case, dtype) for name, case in cases.items()}
    found = {name: outputs_and_gradients(*one, plain=False) for name, one in made.items()}
    monkeypatch.setenv("ORYX_KERNELS", "0")
    errors, cpu = {}, jax.devices("cpu")[0]
    for name, (layers, x, context) in made.items():
        # On the CPU, where products are exact and compile in a fraction of the time.
        given = jax.device_put((layers, x.astype(jnp.float32), context), cpu)
        expected = outputs_and_gradients(*given, plain=True)
        for part, wanted in expected.items():
            errors[name, part] = relative_error(found[name][part], wanted)
    assert {k: error for k, error in errors.items() if not error < TOLERANCE[dtype]} == {}


def relative_error(found: Any, expected: Any) -> float:
    flat = [
        np.concatenate([np.asarray(x, np.float64).ravel() for x in jax.tree.leaves(tree)])
        for tree in (found, expected)
    ]
    return float(np.linalg.norm(flat[0] - flat[1]) / np.linalg.norm(flat[1]))


@pytest.mark.parametrize("width", WIDTHS)
def test_any_length_and_width(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = STEPS if width < 128 else WIDE_STEPS
    check({f"{steps} steps": (steps, 2, width) for steps in lengths}, "float32", monkeypatch)


@pytest.mark.parametrize("agents", AGENTS)
def test_any_number_of_agents(agents: int, monkeypatch: pytest.MonkeyPatch) -> None:
    check({f"{steps} steps": (steps, agents, 64) for steps in (20, 50)}, "float32", monkeypatch)


@pytest.mark.parametrize("width", WIDTHS)
def test_in_bfloat16(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = {"short": (20, 2, width), "long": (50, 2, width), "many": (20, 50, width)}
    check(cases, "bfloat16", monkeypatch)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("steps", [40, 50])
def test_training_on_long_sequences(
    steps: int, precision: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One update of Oryx as it is set up by default, for two agents."""
    spec = Spec("", ("a", "b"), (11, 11), ActionSpace("discrete", 7))
    network = NetworkConfig(precision=precision)
    config = oryx.Config(network=network, batch_size=BATCH, sequence_length=steps)
    keys = jax.random.split(jax.random.key(0), 5)
    shape = (BATCH, steps, 2)
    observation = Observation(
        jax.random.normal(keys[0], (*shape, 11)),
        jnp.ones((*shape, 7), bool),
        jnp.ones(shape, bool),
        jnp.zeros(shape[:2], bool).at[:, 30].set(True),
        jnp.zeros(shape[:2], jnp.int32),
    )
    actions = jax.random.randint(keys[1], shape, 0, 7)
    rewards = jax.random.normal(keys[2], shape)
    window = Window(observation, actions, rewards, jnp.zeros(shape, bool))

    def one_update() -> dict[str, jax.Array]:
        algorithm = oryx.make(config, spec)
        return jax.jit(algorithm.update)(algorithm.init(keys[3]), window, keys[4])[1]

    found = one_update()
    monkeypatch.setenv("ORYX_KERNELS", "0")
    for name, expected in one_update().items():
        np.testing.assert_allclose(found[name], expected, rtol=5e-2, atol=5e-2, err_msg=name)
