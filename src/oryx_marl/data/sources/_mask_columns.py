"""Which column of an action mask is which action: by its word, or else by its number."""

import re
from collections.abc import Sequence

from oryx_marl.errors import OryxError

EXPECTED = (
    "an action mask has 0 or 1 for each action, in the order of their ids, such as [1, 0, 1]; ids "
    "of actions that are words go by alphabet, or as --action-names says"
)
MARKS = "_."
"""What stands between the name of the mask and that of an action."""


def is_numbered(names: Sequence[str]) -> bool:
    """Whether the names differ in a number at their end alone: mask_0, mask_1."""
    return len({re.sub(r"\d+$", "", name) for name in names}) == 1 and all(
        re.search(r"\d$", name) for name in names
    )


def in_order(names: Sequence[str]) -> tuple[str, ...]:
    """Numbered columns by their numbers, mask_2 before mask_10; others as they stand."""
    if not is_numbered(names):
        return tuple(names)
    return tuple(sorted(names, key=lambda name: int(re.search(r"\d+$", name)[0])))  # type: ignore[index]


def match_words(
    names: tuple[str, ...], taken: set[str], told: tuple[str, ...], is_order_told: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The columns of a mask in the order of the ids, and the words of all actions.

    Args:
        names: the columns, at least two.
        taken: the words of the actions in the table.
        told: all words in the order of their ids, if a user gave them (`--action-names`).
        is_order_told: the user gave the columns one by one.
    """
    needed = set(told) or taken
    for stem in _stems(names):
        by_word = {name[len(stem) :]: name for name in names}
        if set(by_word) == needed or (not told and needed < set(by_word)):
            # An action that has a column but was never taken is an action all the same.
            words = told or tuple(sorted(by_word))
            return tuple(by_word[word] for word in words), words
    words = told or tuple(sorted(taken))
    if is_numbered(names) or (told and is_order_told and len(told) == len(names)):
        return names, words
    raise OryxError(_explain(names, words))


def _stems(names: Sequence[str]) -> list[str]:
    """What all names begin with, up to a mark: the longest last, as an action may hold marks."""
    first, last = min(names), max(names)  # what these two share, all share
    pairs = enumerate(zip(first, last, strict=False))
    common = first[: next((place for place, (one, other) in pairs if one != other), len(first))]
    return ["", *(common[: i + 1] for i, letter in enumerate(common) if letter in MARKS)]


def _explain(names: tuple[str, ...], words: tuple[str, ...]) -> str:
    """What the columns and the actions do not share, and what to do."""
    stems = _stems(names)
    stem = max(stems, key=lambda stem: len({name[len(stem) :] for name in names} & set(words)))
    if not {name[len(stem) :] for name in names} & set(words):
        stem = stems[-1]
    found = [name[len(stem) :] for name in names]
    without = [word for word in words if word not in found]
    unknown = [word for word in found if word not in words]
    parts = [f"no column for {', '.join(without[:20])}"] if without else []
    parts += [f"columns for {', '.join(unknown[:20])}, which are no actions"] if unknown else []
    return (
        f"the action mask {stem}* has {' and '.join(parts)}; the actions are "
        f"{', '.join(words[:20])}. Call each column by the word of its action, such as "
        f"{stem}{words[0]}, or number the columns in the order of the ids; all actions, also "
        "those that nobody took: --action-names"
    )
