"""What a recipe is: a way to make a dataset again."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from oryx_marl.data.dataset import Dataset
from oryx_marl.types import Spec

CHECKPOINTS = 5
"""Of a training, which stand for all of it: the middle of each fifth."""
TRAINING = ".training"
"""What is added to a dataset's folder for that of the training it was recorded from."""
Report = Callable[[int, dict[str, np.ndarray]], None]
"""`report(update, metrics)`, as the training loop gives it."""


def _unwatched(total: int) -> AbstractContextManager[Report]:
    return nullcontext(lambda update, metrics: None)


@dataclass(frozen=True)
class Request:
    """What is asked of a recipe."""

    rows: int
    seed: int
    work: Path
    """Folder for what must survive a kill. When all is stored, `segments` in it is removed and the
    rest is kept under another name."""
    resume: bool = False
    """Go on with what is in `work`."""
    policy: Path | None = None
    """A run to act with instead of the pretrained policy, where the recipe acts with one."""
    tell: Callable[[str], None] = lambda message: None
    watch: Callable[[int], AbstractContextManager[Report]] = _unwatched
    """`with watch(total) as report`: shows the progress of a training."""


@dataclass(frozen=True)
class Recipe:
    """A dataset that can be made."""

    description: str
    """One line for a list of recipes."""
    run: Callable[[Request], Iterator[Dataset]]
    """Whole episodes in parts, cut after the first with which the rows are reached where that can
    be. The origin of the last part says what else is to be known of how they were made."""
    rows: int = 100_000
    """Steps it makes where no other number is asked for."""
    seed: int = 0
    """Seed it uses where no other is asked for."""
    is_quick: bool = True
    """Whether it needs no training, so that it may be made without asking."""
    after: str = ""
    """The dataset of the same family that must be made before it, if any."""
    assets: tuple[str, ...] = ()
    """Pretrained policies that it acts with, by their names in the manifest."""


def one_part(spec: Spec, arrays: dict[str, Any], **notes: Any) -> Dataset:
    """A part as recipes yield it; `make` adds the name and how it was asked for."""
    return Dataset(spec=spec, origin=notes, **arrays)
