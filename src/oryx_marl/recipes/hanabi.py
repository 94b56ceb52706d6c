"""Datasets of Hanabi, played by a hand-written bot.

What needs JAX is imported where it is run: recipes are listed in a moment.
"""

from collections.abc import Iterator
from functools import partial

from oryx_marl.data.dataset import Dataset
from oryx_marl.recipes.base import Recipe, Request

FAMILIES = ("hanabi",)


def act(noise_levels: tuple[float, ...], request: Request) -> Iterator[Dataset]:
    """Games of the bot, with random moves at one of these rates in each game."""
    from oryx_marl.envs.hanabi import Hanabi
    from oryx_marl.recipes import _hanabi_bot, _scripted

    return _scripted.record(Hanabi(), _hanabi_bot.make_policy(noise_levels), request)


RECIPES = {
    "bot": Recipe(
        description="a hand-written bot with 5% random moves, about 10,000 games: a mean score of "
        "17.4 of 25",
        run=partial(act, (0.05,)),
        rows=610_000,
    ),
    "mixed": Recipe(
        description="the bot with 0, 10 or 30% random moves, drawn for each game, about 10,000 "
        "games: a mean score of 10.7 of 25",
        run=partial(act, (0.0, 0.1, 0.3)),
        rows=475_000,
    ),
}


def find_family(name: str) -> dict[str, Recipe]:
    return RECIPES if name in FAMILIES else {}
