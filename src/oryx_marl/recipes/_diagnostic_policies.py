"""Hand-written policies of the diagnostic tasks: what is logged of anti-coordination and recall."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from oryx_marl.algorithms.base import Policy
from oryx_marl.envs import anticoordination, recall
from oryx_marl.recipes._scripted import draw_available, draw_uniform
from oryx_marl.types import Observation


def make_random_first() -> Policy:
    """The first agent draws an action, the second draws one of the others."""
    draw_noise = draw_uniform(anticoordination.NUM_AGENTS, anticoordination.NUM_ACTIONS)
    return Policy(lambda batch: (), _differ, draw_noise)


def make_random() -> Policy:
    """Both agents of anti-coordination draw any action."""
    draw_noise = draw_uniform(anticoordination.NUM_AGENTS, anticoordination.NUM_ACTIONS)
    return Policy(lambda batch: (), _draw, draw_noise)


def make_half_right() -> Policy:
    """In half of the episodes both agents name the cue, in all others each answers at random."""
    draw_noise = draw_uniform(recall.NUM_AGENTS, 1 + recall.NUM_CUES)
    return Policy(_begin, _answer, draw_noise)


def _differ(
    carry: Any, observation: Observation, noise: Float[Array, "B N A"]
) -> tuple[Any, Int[Array, "B N"], dict]:
    first = draw_available(observation.action_mask[:, 0], noise[:, 0])
    is_other = jnp.arange(noise.shape[-1]) != first[:, None]
    second = draw_available(observation.action_mask[:, 1] & is_other, noise[:, 1])
    return carry, jnp.stack([first, second], axis=1), {}


def _draw(
    carry: Any, observation: Observation, noise: Float[Array, "B N A"]
) -> tuple[Any, Int[Array, "B N"], dict]:
    return carry, draw_available(observation.action_mask, noise), {}


def _begin(batch: int) -> tuple[Array, Array]:
    """The cue of the episode, and whether the answers will be right."""
    return jnp.zeros(batch, jnp.int32), jnp.zeros(batch, bool)


def _answer(
    carry: tuple[Array, Array], observation: Observation, noise: Float[Array, "B N A"]
) -> tuple[tuple[Array, Array], Int[Array, "B N"], dict]:
    seen = observation.features[:, 0, : recall.NUM_CUES].argmax(axis=-1).astype(jnp.int32)
    # The first step decides nothing else, so its noise is free to decide this.
    is_right = jnp.where(observation.reset, noise[:, 0, 0] < 0.5, carry[1])
    cue = jnp.where(observation.reset, seen, carry[0])
    drawn = draw_available(observation.action_mask, noise)
    names_cue = is_right[:, None] & (drawn != recall.WAIT)
    return (cue, is_right), jnp.where(names_cue, 1 + cue[:, None], drawn), {}
