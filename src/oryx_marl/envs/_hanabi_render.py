"""Pictures of Hanabi's table, in characters and in pixels."""

from typing import NamedTuple

import numpy as np
from jaxtyping import UInt8

RANKS = 5
HEIGHT, WIDTH, GAP = 44, 32, 6
"""Pixels of a card, and between cards."""
TABLE = (52, 58, 70)
EMPTY = (72, 79, 92)
TURN = (240, 138, 36)
"""A bar beside the hand of the player on turn."""
LETTERS = "RYGWB"
TINTS = ((214, 69, 65), (232, 190, 52), (38, 155, 92), (238, 236, 228), (66, 124, 214))
DOT = (24, 26, 32)
DOTS = ((0, 0), (-1, -1), (1, 1), (-1, 1), (1, -1))
"""Where dots are, as on a die: odd ranks have the first one, and the others in pairs."""


class Scene(NamedTuple):
    """What there is to draw."""

    hands: np.ndarray
    """[N, cards, 25] bool: the type of each card, colour * 5 + rank; none where one is missing."""
    heights: np.ndarray
    """[5] int: cards on the pile of each colour."""
    hints: int
    lives: int
    deck: int
    on_turn: int
    score: int
    step: int


def text(scene: Scene) -> str:
    """Both hands, oldest card first, and the piles, under a line with the step and the tokens."""
    lines = [
        f"step {scene.step}: score {scene.score}, {scene.hints} hints, {scene.lives} lives, "
        f"{scene.deck} cards in the deck"
    ]
    for agent, hand in enumerate(scene.hands):
        cards = " ".join(_name(card) for card in hand)
        lines.append(f"agent_{agent} {cards}{' <' if agent == scene.on_turn else ''}")
    piles = zip(LETTERS, scene.heights.tolist(), strict=True)
    lines.append(f"piles   {' '.join(f'{letter}{height}' for letter, height in piles)}")
    return "\n".join(lines)


def rgb(scene: Scene) -> UInt8[np.ndarray, "height width 3"]:
    """The first hand, the piles with their highest card, the second hand; then hints and lives."""
    piles = np.zeros((RANKS, RANKS**2), bool)
    for colour, height in enumerate(scene.heights.tolist()):
        if height:
            piles[colour, colour * RANKS + height - 1] = True
    rows = [_row(scene.hands[0]), _row(piles), _row(scene.hands[1])]
    rows[2 * scene.on_turn][GAP:-GAP, : GAP // 2] = TURN
    tokens = np.full((2 * GAP, rows[0].shape[1], 3), TABLE, np.uint8)
    for index in range(scene.hints):
        tokens[GAP // 2 : -GAP // 2, GAP + 12 * index : 2 * GAP + 12 * index] = TINTS[-1]
    for index in range(scene.lives):
        tokens[GAP // 2 : -GAP // 2, -2 * GAP - 12 * index : -GAP - 12 * index] = TINTS[0]
    return np.concatenate([*rows, tokens])


def _name(card: np.ndarray) -> str:
    if not card.any():
        return "--"
    colour, rank = divmod(int(card.argmax()), RANKS)
    return f"{LETTERS[colour]}{rank + 1}"


def _row(cards: np.ndarray) -> UInt8[np.ndarray, "height width 3"]:
    """Cards side by side."""
    picture = np.full((HEIGHT + 2 * GAP, GAP + len(cards) * (WIDTH + GAP), 3), TABLE, np.uint8)
    for index, card in enumerate(cards):
        left = GAP + index * (WIDTH + GAP)
        picture[GAP:-GAP, left : left + WIDTH] = _card(card)
    return picture


def _card(card: np.ndarray) -> UInt8[np.ndarray, "height width 3"]:
    picture = np.full((HEIGHT, WIDTH, 3), EMPTY, np.uint8)
    if not card.any():
        return picture
    colour, rank = divmod(int(card.argmax()), RANKS)
    picture[:] = TINTS[colour]
    first = rank % 2  # which is 0 for ranks 1, 3 and 5, as `rank` counts from 0
    for down, right in DOTS[first : rank + 1 + first]:
        top, left = HEIGHT // 2 + 12 * down - 3, WIDTH // 2 + 8 * right - 3
        picture[top : top + 6, left : left + 6] = DOT
    return picture
