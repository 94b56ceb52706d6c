"""A hand-written player of Hanabi that uses nothing but its own observation.

Both players follow one convention. The focus of a hint is the newest of its cards that had not been
hinted in the other way, by colour or by rank. Whoever is given a hint plays its focus if, by all
that is known of the card, it may fit. So a hint is given where its focus does fit, or else where it
cannot be mistaken. As the hint is the last move when it is answered, no memory is needed.

Every move has a score, by rules in this order; the best available one is taken:

    play the focus of the hint that was just given
    play a card that surely fits
    hint a card that fits
    hint a card that must not be lost and would be discarded next
    discard: surely useless cards first, then old ones that are likely to be of little use
    hint something that cannot be mistaken
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from oryx_marl.algorithms.base import Policy
from oryx_marl.envs.hanabi import COLOURS, COPIES, HAND, NUM_AGENTS, NUM_FEATURES, RANKS
from oryx_marl.recipes._scripted import draw_available, draw_uniform
from oryx_marl.types import Observation

TYPES = len(COLOURS) * RANKS
"""Kinds of cards: colour * 5 + rank."""
RANK_OF = np.tile(np.arange(RANKS), len(COLOURS))
COLOUR_OF = np.repeat(np.arange(len(COLOURS)), RANKS)
ALL = np.tile(COPIES, len(COLOURS))
"""Cards of each type in the game."""
HINTS = np.concatenate([np.eye(len(COLOURS))[:, COLOUR_OF], np.eye(RANKS)[:, RANK_OF]]).astype(bool)
"""[10, 25]: the types that each hint, by colour or by rank, is about."""
SURE = 0.99
RISK = 0.75
"""Chance of fitting with which a card is played while there are lives to spare."""


class View(NamedTuple):
    """What a player knows; `my` and `their` are the cards in both hands, oldest first."""

    their_cards: jax.Array
    """[5, 25] bool."""
    deck: jax.Array
    """[] cards left to draw."""
    heights: jax.Array
    """[5] cards on each pile."""
    lives: jax.Array
    discarded: jax.Array
    """[25] cards of each type."""
    hinted_now: jax.Array
    """[5] bool: my cards that the other player has just pointed at."""
    by_colour: jax.Array
    """[] bool: and by their colour, not by their rank."""
    my_types: jax.Array
    """[5, 25] bool: what each of my cards can be."""
    their_types: jax.Array
    """[5, 25] bool: what each of theirs can be, as they know it."""
    my_hints: jax.Array
    """[5, 2] bool: whether its colour and its rank were hinted."""
    their_hints: jax.Array


def make_policy(noise_levels: tuple[float, ...]) -> Policy:
    """The bot for both players. One of the levels is drawn for each game: the probability of a
    uniformly random available move in place of the bot's."""
    levels = jnp.array(noise_levels, jnp.float32)
    num_actions = 2 * HAND + len(HINTS) + 1

    def act(
        level: Array, observation: Observation, noise: Float[Array, "B N more"]
    ) -> tuple[Array, Int[Array, "B N"], dict]:
        drawn = levels[(noise[:, 0, -1] * len(noise_levels)).astype(jnp.int32)]
        level = jnp.where(observation.reset, drawn, level)
        best = jax.vmap(jax.vmap(choose))(observation.features, observation.action_mask)
        random = draw_available(observation.action_mask, noise[..., :num_actions])
        is_random = noise[..., num_actions] < level[:, None]
        return level, jnp.where(is_random, random, best), {}

    return Policy(jnp.zeros, act, draw_uniform(NUM_AGENTS, num_actions + 2))


def read(features: Int[Array, "O"]) -> View:
    """The parts of an observation."""
    sizes = [HAND * TYPES, 2, 40, TYPES, 8, 3, 50, 2, 4, 2, 5, 5, HAND, HAND, TYPES, 2]
    ends = np.cumsum(sizes)
    assert ends[-1] + 2 * HAND * (TYPES + 10) == NUM_FEATURES
    parts = jnp.split(features.astype(jnp.int32), ends)
    cards, _, deck, piles, _, lives, discards, _, move, target, _, _, touched = parts[:13]
    known = parts[-1].reshape(2, HAND, TYPES + 10)
    hints = known[..., TYPES:].reshape(2, HAND, 2, 5).any(axis=-1)
    by_rank = np.repeat(np.arange(RANKS), COPIES)
    discarded = discards.reshape(len(COLOURS), -1) @ jnp.asarray(np.eye(RANKS, dtype=int)[by_rank])
    return View(
        their_cards=cards.reshape(HAND, TYPES) > 0,
        deck=deck.sum(),
        heights=piles.reshape(len(COLOURS), RANKS) @ jnp.arange(1, RANKS + 1),
        lives=lives.sum(),
        discarded=discarded.ravel(),
        hinted_now=(touched > 0) & (target[0] > 0),
        by_colour=move[2] > 0,
        my_types=known[0, :, :TYPES] > 0,
        their_types=known[1, :, :TYPES] > 0,
        my_hints=hints[0],
        their_hints=hints[1],
    )


def choose(features: Int[Array, "O"], action_mask: Bool[Array, "A"]) -> Int[Array, ""]:
    """The best available move by the rules; to wait where there is no other."""
    view = read(features)
    plays, discards, hints = score_plays(view), score_discards(view), score_hints(view)
    scores = jnp.concatenate([discards, plays, hints, jnp.zeros(1)])
    return jnp.where(action_mask, scores, -jnp.inf).argmax().astype(jnp.int32)


def fitting(view: View) -> Bool[Array, "types"]:
    """The types that score if they are played now."""
    return jnp.asarray(RANK_OF) == view.heights[COLOUR_OF]


def useless(view: View) -> Bool[Array, "types"]:
    """The types that will never score: they lie already, or a lower one is lost."""
    lost = (view.discarded == ALL) & (jnp.asarray(RANK_OF) >= view.heights[COLOUR_OF])
    blocked = jnp.cumsum(lost.reshape(len(COLOURS), RANKS), axis=1) > 0
    return (jnp.asarray(RANK_OF) < view.heights[COLOUR_OF]) | blocked.ravel()


def critical(view: View) -> Bool[Array, "types"]:
    """The types of which one card is left and still wanted."""
    return ~useless(view) & (view.discarded == ALL - 1)


def my_chances(view: View) -> Float[Array, "cards types"]:
    """How likely each of my cards is of each type, by the cards that I cannot see."""
    on_piles = jnp.asarray(RANK_OF) < view.heights[COLOUR_OF]
    unseen = ALL - view.discarded - on_piles - view.their_cards.sum(axis=0)
    weights = view.my_types * jnp.maximum(unseen, 0)
    return weights / jnp.maximum(weights.sum(axis=-1, keepdims=True), 1)


def find_focus(
    touched: Bool[Array, "cards"], hints: Bool[Array, "cards 2"], by_colour: Bool[Array, ""]
) -> Bool[Array, "cards"]:
    """The card that a hint is about: the newest not hinted in the other way, or the newest."""
    is_new = touched & ~jnp.where(by_colour, hints[:, 1], hints[:, 0])
    among = jnp.where(is_new.any(), is_new, touched)
    newest = jnp.where(among, jnp.arange(HAND), -1).max()
    return jnp.arange(HAND) == newest


def score_plays(view: View) -> Float[Array, "cards"]:
    chances = my_chances(view) @ fitting(view).astype(jnp.float32)
    may_fit = (view.my_types & fitting(view)).any(axis=-1)
    focus = find_focus(view.hinted_now, view.my_hints, view.by_colour) & view.hinted_now & may_fit
    enough = jnp.where(view.lives > 1, RISK, SURE)
    enough = jnp.where((view.deck == 0) & (view.lives > 1), 0.01, enough)
    return jnp.select([focus, chances >= enough], [100.0 + chances, 90.0 + chances], chances)


def score_discards(view: View) -> Float[Array, "cards"]:
    chances = my_chances(view)
    is_useless = chances @ useless(view).astype(jnp.float32)
    is_critical = chances @ critical(view).astype(jnp.float32)
    age = 0.01 * jnp.arange(HAND)
    worth = is_useless - 3 * is_critical - view.my_hints.any(axis=-1) - age
    return jnp.where(is_useless > SURE, 60.0, 50.0 + worth)


def score_hints(view: View) -> Float[Array, "hints"]:
    """Each hint by what the other player would make of it."""
    fits, wanted = fitting(view), critical(view)
    their = view.their_cards.astype(jnp.int32).argmax(axis=-1)
    has_card = view.their_cards.any(axis=-1)
    chop = find_chop(view.their_hints, has_card)
    in_danger = (chop & wanted[their]).any()
    known = ~(view.their_types & ~fits).any(axis=-1) & has_card
    busy = known.any()

    def score(about: Array, by_colour: Array) -> Array:
        touched = about[their] & has_card
        types = jnp.where(touched[:, None], view.their_types & about, view.their_types & ~about)
        hints = view.their_hints | (touched[:, None] & jnp.stack([by_colour, ~by_colour]))
        focus = find_focus(touched, hints, by_colour)
        may_fit = (focus & (types & fits).any(axis=-1)).any()
        does_fit = (focus & fits[their]).any()
        is_news = (focus & ~known).any()
        saves = in_danger & ~busy & (touched & chop).any()
        surely = ~(types & ~fits).any(axis=-1)
        value = (surely & ~known & has_card).sum() + 0.1 * touched.sum()
        return jnp.select(
            [may_fit & does_fit & is_news, may_fit & ~does_fit, saves],
            [80.0 + value, -10.0, 70.0 + value],
            20.0 + value,
        )

    by_colour = jnp.arange(len(HINTS)) < len(COLOURS)
    return jax.vmap(score)(jnp.asarray(HINTS), by_colour)


def find_chop(
    hints: Bool[Array, "cards 2"], has_card: Bool[Array, "cards"]
) -> Bool[Array, "cards"]:
    """The card that would be discarded next: the oldest of which nothing was hinted."""
    free = has_card & ~hints.any(axis=-1)
    return free & (jnp.cumsum(free) == 1)
