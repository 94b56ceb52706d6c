"""Datasets of the default T-Maze.

What needs JAX is imported where it is run: recipes are listed in a moment.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from oryx_marl.data.dataset import Dataset
from oryx_marl.recipes import _assets
from oryx_marl.recipes.base import Recipe, Request, one_part

FAMILIES = ("tmaze",)
USUAL_LENGTH, USUAL_TIME = 5, 20
CHECKPOINTS = tuple(f"tmaze/{when}.npz" for when in ("early", "middle", "late", "final"))


def plan(
    behaviour: str, request: Request, length: int = USUAL_LENGTH, time_limit: int = USUAL_TIME
) -> Iterator[Dataset]:
    """Episodes of the planner, in a maze with a stem of `length` cells."""
    from oryx_marl.envs.tmaze import TMaze
    from oryx_marl.recipes._tmaze_planner import BEHAVIOURS, record

    spec, arrays = record(
        TMaze(length=length, time_limit=time_limit),
        BEHAVIOURS[behaviour],
        request.rows,
        request.seed,
    )
    yield one_part(spec, arrays)


def make_replay_config() -> Any:
    """Settings of the training that is recorded.

    Slower than Sable's default on purpose: its default solves the maze after a fifth of the steps,
    and nearly all of the recording would be solved episodes. So about half of them are, as in the
    paper's recording.
    """
    from oryx_marl.algorithms import sable

    return sable.Config(learning_rate=2.5e-5, permute_agents=True)


def replay(request: Request) -> Iterator[Dataset]:
    """Everything that Sable does while it learns."""
    from oryx_marl.envs.tmaze import TMaze
    from oryx_marl.recipes._policies import record_training

    return record_training(TMaze(), make_replay_config(), request)


def draw(request: Request) -> Iterator[Dataset]:
    """Whole episodes of the recording."""
    from oryx_marl.recipes._policies import subsample

    return subsample("replay", request)


def act(names: tuple[str, ...], least: float | None, request: Request) -> Iterator[Dataset]:
    """Episodes of checkpoints of Sable's training, with at least this return."""
    from oryx_marl.envs.tmaze import TMaze
    from oryx_marl.recipes._policies import refuse_policy, roll_out

    if len(names) > 1:
        refuse_policy(request)
    policies = [request.policy] if request.policy else _assets.locate(names, request.tell)
    return roll_out(TMaze(), policies, least, request)


RECIPES = {
    "planner-expert": Recipe(
        description="an optimal planner, colours always different: every episode is solved, "
        "in as few steps as possible",
        run=partial(plan, "planner-expert"),
    ),
    "planner-mixed": Recipe(
        description="the planner with noise that differs by episode, colours at random half of "
        "the time: fewer than half of the episodes are solved",
        run=partial(plan, "planner-mixed"),
    ),
    "replay": Recipe(
        description="everything that Sable does while it learns for 20 million steps (hours "
        "without a GPU)",
        run=replay,
        rows=20_000_000,
        is_quick=False,
    ),
    "replay-small": Recipe(
        description="whole episodes drawn from tmaze/replay",
        run=draw,
        rows=100_000,
    ),
    "expert": Recipe(
        description="final Sable policy; only solved episodes",
        run=partial(act, CHECKPOINTS[-1:], 1.0),
        assets=CHECKPOINTS[-1:],
    ),
    "snapshots": Recipe(
        description="a mixture: four checkpoints of Sable's training, a quarter of the rows each",
        run=partial(act, CHECKPOINTS, None),
        assets=CHECKPOINTS,
    ),
}


PLANNED = ("planner-expert", "planner-mixed")
"""Recipes for mazes of any size."""
SIZED = re.compile(r"tmaze-([1-9]\d{0,2})x([1-9]\d{0,2})")
"""A maze with a stem of so many cells and so many steps of time, such as tmaze-18x60."""


def find_family(name: str) -> dict[str, Recipe]:
    """Datasets of the default maze, or the planner's of one like tmaze-18x60, which have about as
    many episodes: stems of 18 cells, and 60 steps of time."""
    if name in FAMILIES:
        return RECIPES
    found = SIZED.fullmatch(name)
    if found is None:
        return {}
    length, time = map(int, found.groups())
    return {
        planned: replace(
            RECIPES[planned],
            run=partial(plan, planned, length=length, time_limit=time),
            rows=RECIPES[planned].rows * time // USUAL_TIME,
        )
        for planned in PLANNED
    }
