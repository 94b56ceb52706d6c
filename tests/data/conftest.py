"""Small datasets whose every number is known."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from oryx_marl.data.dataset import Dataset
from oryx_marl.types import ActionSpace, Spec


def build_dataset(rows: int = 7, starts: tuple[int, ...] = (0, 3, 5), **changes: Any) -> Dataset:
    """Two agents, three features, three actions; observation entries count up from 0."""
    spec = Spec(
        environment="",
        agents=("left", "right"),
        observation_sizes=(3, 3),
        action=ActionSpace("discrete", 3),
    )
    ends = np.zeros((rows, 2), bool)
    ends[[*(start - 1 for start in starts[1:]), rows - 1]] = True
    values: dict[str, Any] = {
        "spec": spec,
        "observations": np.arange(rows * 6, dtype=np.int32).reshape(rows, 2, 3),
        "actions": (np.arange(rows * 2, dtype=np.int8) % 3).reshape(rows, 2),
        "rewards": np.arange(rows * 2, dtype=np.float32).reshape(rows, 2) / 8,
        "terminals": ends,
        "truncations": np.zeros((rows, 2), bool),
        "episode_starts": np.array(starts),
        "name": "tiny",
    }
    return Dataset(**{**values, **changes})


def build_box_dataset(rows: int = 6) -> Dataset:
    """As above with actions in a box of two dimensions."""
    spec = Spec("", ("left", "right"), (3, 3), ActionSpace("box", 2, (-1.0, -1.0), (1.0, 1.0)))
    actions = np.linspace(-1, 1, rows * 4, dtype=np.float32).reshape(rows, 2, 2)
    return build_dataset(rows, (0, 4), spec=spec, actions=actions)


@pytest.fixture(name="build_dataset")
def _build_dataset() -> Callable[..., Dataset]:
    return build_dataset


@pytest.fixture(name="build_box_dataset")
def _build_box_dataset() -> Callable[..., Dataset]:
    return build_box_dataset


@pytest.fixture
def full_dataset() -> Dataset:
    """One that has every optional array."""
    rows = 7
    action_mask = np.ones((rows, 2, 3), bool)
    action_mask[2, 0, 0] = False  # action of row 2, agent 0 is 1
    agent_mask = np.ones((rows, 2), bool)
    agent_mask[4, 1] = False
    spec = replace(build_dataset().spec, state_size=4)
    return build_dataset(
        rows,
        spec=spec,
        action_mask=action_mask,
        agent_mask=agent_mask,
        state=np.arange(rows * 4, dtype=np.float64).reshape(rows, 4),
        final_observations=np.arange(18, dtype=np.int32).reshape(3, 2, 3) - 18,
        origin={"seed": 3},
    )
