"""Implicit-constraint Q-learning on given logits and Qs: the loss that Oryx and others share."""

from dataclasses import dataclass
from typing import Literal

import jax.numpy as jnp
from jaxtyping import Array, Float

from oryx_marl.algorithms.base import Metrics
from oryx_marl.ops import icq
from oryx_marl.ops.distributions import entropy, masked_log_softmax, take_action
from oryx_marl.ops.masked import masked_mean
from oryx_marl.ops.returns import td_rows
from oryx_marl.types import Window


@dataclass(frozen=True)
class IcqSettings:
    """How values are learned and actions weighed; see the Config of Oryx."""

    discount: float = 0.99
    trace: float = 0.0
    critic_weight: float = 1.0
    policy_temperature: float = 0.1
    value_temperature: float = 1000.0
    advantage: Literal["cumulative", "own"] = "own"
    objective: Literal["icq", "clone", "q_learning"] = "icq"


def icq_loss(
    logits: Float[Array, "B T N A"],
    q: Float[Array, "B T N A"],
    target_q: Float[Array, "B T N A"],
    window: Window,
    settings: IcqSettings,
) -> tuple[Float[Array, ""], Metrics]:
    """Critic and policy loss of a batch [B, T, N], agents in the order in which they choose."""
    observation, actions = window.observation, window.actions
    log_probs = masked_log_softmax(logits, observation.legal)
    q_taken = take_action(q, actions)

    rows, uses_next = td_rows(observation.present, window.terminal, observation.reset)
    rewards = window.rewards[:, :-1]
    if settings.objective == "q_learning":
        best = jnp.where(observation.legal, target_q, -jnp.inf).max(axis=-1)[:, 1:]
        targets = rewards + settings.discount * jnp.where(uses_next, best, 0)
    else:
        targets = icq.td_targets(
            rewards,
            take_action(target_q, actions)[:, 1:],
            rows,
            uses_next,
            settings.discount,
            settings.value_temperature,
            settings.trace,
        )
    critic = icq.critic_loss(q_taken[:, :-1], targets, rows)

    # Rows whose logged action is illegal would drive the logits away without bound.
    imitable = observation.present & take_action(observation.legal, actions)
    advantage = icq.own_advantage(q, log_probs, actions)
    if settings.advantage == "cumulative":
        advantage = icq.cumulative_advantage(advantage, observation.present)
    weights = icq.batch_weights(advantage, imitable, settings.policy_temperature)
    if settings.objective == "clone":
        weights = imitable.astype(weights.dtype)
    policy = icq.policy_loss(take_action(log_probs, actions), weights, imitable)

    total = settings.critic_weight * critic
    if settings.objective != "q_learning":
        total = total + policy
    return total, {
        "loss": total,
        "critic_loss": critic,
        "policy_loss": policy,
        "effective_sample_size": icq.effective_sample_size(weights, imitable),
        "max_logit": jnp.abs(logits).max(),
        "entropy": masked_mean(entropy(log_probs), imitable),
        "mean_q": masked_mean(q_taken, observation.present),
        "td_error": masked_mean(jnp.abs(targets - q_taken[:, :-1]), rows),
        "imitated_share": imitable.mean(),
    }
