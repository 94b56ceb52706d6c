"""Tasks whose updates are timed: their sizes, random data, and what cannot be done without."""

from dataclasses import dataclass
from typing import Literal

import jax
import jax.numpy as jnp

from oryx_marl.algorithms import oryx
from oryx_marl.data.sampler import DeviceData
from oryx_marl.networks.sable import NetworkConfig
from oryx_marl.types import ActionSpace, FeatureStatistics, Spec


@dataclass(frozen=True)
class Shape:
    """What an update's cost depends on."""

    num_agents: int
    width: int = 128
    num_heads: int = 4
    num_features: int = 100
    num_actions: int = 5
    num_rows: int = 100_000
    batch_size: int = 64
    sequence_length: int = 20
    precision: Literal["float32", "bfloat16"] = "float32"
    kind: Literal["discrete", "box"] = "discrete"
    """Of actions: as many ids, or as many dimensions, as `num_actions`."""

    @property
    def spec(self) -> Spec:
        agents = tuple(f"agent_{i}" for i in range(self.num_agents))
        bounds = () if self.kind == "discrete" else (1.0,) * self.num_actions
        low = tuple(-each for each in bounds)
        action = ActionSpace(self.kind, self.num_actions, low, bounds)
        return Spec("", agents, (self.num_features,) * self.num_agents, action)

    @property
    def algorithm(self) -> oryx.Oryx:
        network = NetworkConfig(
            width=self.width, num_heads=self.num_heads, precision=self.precision
        )
        config = oryx.Config(
            network=network, batch_size=self.batch_size, sequence_length=self.sequence_length
        )
        return oryx.make(config, self.spec)


SMALL = Shape(2, width=64, num_heads=1, num_features=11, num_actions=7)
SHAPES = {
    "2": SMALL,
    "10": Shape(10),
    "23": Shape(23),
    "50": Shape(50, num_rows=50_000),
    "100": Shape(100, num_rows=25_000),
    "250": Shape(250, num_rows=10_000),
    "1000": Shape(1000, num_rows=2_500),
    "10-long": Shape(10, sequence_length=40),
}
"""The paper's; from 50 agents on as many rows as keep the data at a gigabyte."""


def make_data(shape: Shape) -> DeviceData:
    """Random rows on the device; episodes of 50 steps."""
    rows, agents = shape.num_rows, shape.num_agents
    keys = jax.random.split(jax.random.key(0), 4)
    number = jnp.arange(rows)
    if shape.kind == "discrete":
        actions = jax.random.randint(keys[1], (rows, agents), 0, shape.num_actions, jnp.int8)
    else:
        drawn = (rows, agents, shape.num_actions)
        actions = jax.random.uniform(keys[1], drawn, minval=-1.0, maxval=1.0)
    return DeviceData(
        observations=jax.random.normal(keys[0], (rows, agents, shape.num_features)),
        actions=actions,
        rewards=jax.random.normal(keys[2], (rows, agents)),
        terminals=jnp.broadcast_to((number % 50 == 49)[:, None], (rows, agents)),
        action_mask=None,
        agent_mask=None,
        reset=number % 50 == 0,
        step_count=(number % 50).astype(jnp.int32),
        state=None,
        returns_to_go=None,
        every_action=jnp.ones(shape.num_actions, bool),
        feature_statistics=FeatureStatistics(
            jnp.zeros(shape.num_features), jnp.ones(shape.num_features)
        ),
        value_scale=jnp.ones(()),
    )


def count(shape: Shape) -> dict[str, float]:
    """Arithmetic and bytes that one update of one seed cannot do without.

    Arithmetic: every product once for the target network, three times for the other (forward, and
    backward to inputs and weights). Bytes: in float32 every layer reads and writes its features
    once in each of these passes, and the weights, both moments and the target are read and written
    once.
    """
    tokens = shape.batch_size * shape.sequence_length * shape.num_agents
    width, actions, head = shape.width, shape.num_actions, shape.width // shape.num_heads
    retentions, feed_forwards, heads = 3, 2, 2
    dense = (shape.num_features + shape.num_agents + 1 + 2 * actions) * width
    dense += (retentions * 5 + feed_forwards * 3 + heads) * width**2 + heads * width * actions
    # Blockwise: keys with values into states, states along time, queries on states.
    steps = shape.sequence_length / shape.num_agents
    mixing = retentions * shape.num_heads * (2 * head**2 + steps * head**2)
    layers = 2 + retentions * 6 + feed_forwards * 4 + heads * 2
    return {
        "gigaflop": 2 * 4 * tokens * (dense + mixing) / 1e9,
        "gigabytes": (4 * 2 * layers * tokens * width * 4 + 8 * dense * 4) / 1e9,
    }
