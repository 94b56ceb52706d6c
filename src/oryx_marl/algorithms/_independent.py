"""Agents that each act by themselves on a recurrent network with shared weights."""

from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from oryx_marl.algorithms._learner import require_sane
from oryx_marl.algorithms.base import Policy
from oryx_marl.networks.recurrent import RecurrentConfig, RecurrentNetwork
from oryx_marl.ops.distributions import choose_each, masked_log_softmax
from oryx_marl.types import Observation, Window


@dataclass(frozen=True)
class IndependentConfig:
    """Settings that all learners on the recurrent network have."""

    network: RecurrentConfig = field(default_factory=RecurrentConfig)
    batch_size: int = 64
    """Windows per update."""
    sequence_length: int = 20
    """Steps per window."""
    learning_rate: float = 3e-4
    max_gradient_norm: float = 10.0

    def __post_init__(self) -> None:
        require_sane(self)


def independent_log_probs(network: RecurrentNetwork, window: Window) -> Float[Array, "B T N A"]:
    """The network's outputs over logged sequences, as logits."""
    observation = window.observation
    return masked_log_softmax(network(observation), observation.legal)


def independent_policy(network: RecurrentNetwork, greedy: bool) -> Policy:
    """The network's outputs are logits; nobody knows what the others choose."""

    def init(batch: int) -> Array:
        memory = network.init_memory()
        return jnp.broadcast_to(memory, (batch, *memory.shape))

    def step(carry: Array, observation: Observation, key: Array) -> tuple[Array, Array, Array]:
        """Actions [B, N] and log-probabilities [B, N, A]."""
        carry, logits = jax.vmap(network.step)(carry, observation)
        log_probs = masked_log_softmax(logits, observation.legal)
        return carry, choose_each(log_probs, greedy, key), log_probs

    return Policy(init, step)
