"""Names of RWARE's warehouses, and what they stand for; without JAX, so that lists are quick."""

import re
from typing import Any, NamedTuple

from oryx_marl.errors import OryxError


class Size(NamedTuple):
    """Of the blocks of shelves, in rware's words."""

    shelf_rows: int
    """Blocks from top to bottom."""
    shelf_columns: int
    """Blocks from left to right, an odd number: the middle one makes room before the goals."""
    column_height: int = 8
    """Shelves of a block from top to bottom; there are two side by side."""

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of cells."""
        return (self.column_height + 1) * self.shelf_rows + 2, 3 * self.shelf_columns + 1

    @property
    def num_shelves(self) -> int:
        """All but one of the blocks in the bottom row's middle are there."""
        return 2 * self.column_height * (self.shelf_rows * self.shelf_columns - 1)


SIZES = {"tiny": Size(1, 3), "small": Size(2, 3), "medium": Size(2, 5), "large": Size(3, 5)}
"""The warehouses that rware has names for."""
PAPER = tuple(f"rware-{size}-{agents}ag-easy" for size in ("tiny", "small") for agents in (2, 4, 6))
"""Those of the published datasets: twice as many requests as agents."""
REWARDS = ("individual", "global", "two-stage", "shaped", "agent0")
"""Who is rewarded for what; the last two are those of the published datasets."""
ACTION_MASKS = ("all", "effective")
SHORT = {"indiv": "individual", "twostage": "two-stage"}
"""Rewards as rware's names have them."""
SCENARIOS = (
    *PAPER,
    "any rware-<tiny|small|medium|large>-<N>ag[-easy|-hard|-<Q>req] and "
    "rware-<rows>x<columns>x<height>-<N>ag",
)
PATTERN = (
    rf"rware-(?P<size>{'|'.join(SIZES)}|\d+x\d+(?:x\d+)?)(?:-(?P<height>\d+)h)?-(?P<agents>\d+)ag"
    rf"(?:-(?P<queue>easy|hard|\d+req))?(?:-(?P<reward>{'|'.join((*REWARDS, *SHORT))}))?"
    r"(?P<masked>-masked)?(?:-v2)?"
)


def find_scenario(name: str) -> dict[str, Any] | None:
    """The settings of a warehouse, also as rware itself calls it: rware-tiny-2ag-easy-v2."""
    found = re.fullmatch(PATTERN, name)
    if found is None:
        return None
    numbers = found["size"].split("x")
    size = SIZES[numbers[0]] if numbers[0] in SIZES else Size(*map(int, numbers))
    if found["height"]:
        size = size._replace(column_height=int(found["height"]))
    num_agents, queue = int(found["agents"]), found["queue"] or ""
    by_word = {"": num_agents, "easy": 2 * num_agents, "hard": num_agents // 2}
    reward = found["reward"] or REWARDS[0]
    config = {
        **size._asdict(),
        "num_agents": num_agents,
        "num_requests": by_word[queue] if queue in by_word else int(queue.removesuffix("req")),
        "reward": SHORT.get(reward, reward),
        "action_mask": ACTION_MASKS[1 if found["masked"] else 0],
    }
    check_config(**config)
    return config


def name_of(size: Size, num_agents: int, num_requests: int, reward: str, action_mask: str) -> str:
    """The shortest name of a warehouse."""
    words = {each: word for word, each in SIZES.items()}
    by_number = f"{size.shelf_rows}x{size.shelf_columns}x{size.column_height}"
    queues = {num_agents // 2: "-hard", 2 * num_agents: "-easy", num_agents: ""}
    parts = (
        f"rware-{words.get(size, by_number)}-{num_agents}ag",
        queues.get(num_requests, f"-{num_requests}req"),
        "" if reward == REWARDS[0] else f"-{reward}",
        "" if action_mask == ACTION_MASKS[0] else "-masked",
    )
    return "".join(parts)


def check_config(
    shelf_rows: int,
    shelf_columns: int,
    column_height: int,
    num_agents: int,
    num_requests: int,
    reward: str,
    action_mask: str,
) -> None:
    """Raises unless there are such warehouses."""
    size = Size(shelf_rows, shelf_columns, column_height)
    if min(size) < 1 or shelf_columns % 2 == 0 or size.num_shelves == 0:
        raise OryxError(
            "rware: shelf_rows, shelf_columns and column_height must be at least 1 and "
            f"shelf_columns odd, with more than one block of shelves, got {shelf_rows} x "
            f"{shelf_columns} x {column_height}"
        )
    rows, columns = size.grid
    if not 1 <= num_agents <= rows * columns:
        raise OryxError(
            f"rware: num_agents must be between 1 and the number of cells, {rows * columns}, got "
            f"{num_agents}"
        )
    if not 1 <= num_requests < size.num_shelves:
        raise OryxError(
            f"rware: num_requests must be at least 1 and less than the number of shelves, "
            f"{size.num_shelves}, got {num_requests}"
        )
    for what, value, known in (
        ("reward", reward, REWARDS),
        ("action_mask", action_mask, ACTION_MASKS),
    ):
        if value not in known:
            raise OryxError(f"rware: {what} must be one of {', '.join(known)}, got '{value}'")
