"""Steps whose every number is random, recorded; and what must come of them, by a plain loop."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from oryx_marl.data import vault
from oryx_marl.data.dataset import Dataset
from oryx_marl.data.record.segments import Recorder
from oryx_marl.types import ActionSpace, Spec

SPEC = Spec("", ("left", "right"), (3, 3), ActionSpace("discrete", 4), state_size=2)
NAMES = ("observations", "actions", "rewards", "terminals", "truncations")
OPTIONAL = ("action_mask", "agent_mask", "state")

Steps = dict[str, np.ndarray]
BORDERS = [0, 5, 6, 11, 15, 20, 20, 26, 33, 36, 40]


def make_steps(environments: int, length: int, seed: int = 0, ends: float = 0.2) -> Steps:
    """[B, T, ...] steps whose every number is random, some of which end one agent or both."""
    rng = np.random.default_rng(seed)
    step = (environments, length)
    is_end = rng.random((*step, 1)) < ends
    is_terminal = rng.random((*step, 2)) < 0.5  # each agent ends in one way or the other
    one_agent = (rng.random((*step, 1)) < 0.3) & [True, False]
    return {
        "observations": rng.integers(-9999, 9999, (*step, 2, 3), np.int16),
        "actions": rng.integers(0, 4, (*step, 2), np.int8),
        "rewards": rng.random((*step, 2), np.float32),
        "terminals": (is_end & is_terminal) | one_agent,
        "truncations": is_end & ~is_terminal,
        "final_observations": rng.integers(-9999, 9999, (*step, 2, 3), np.int16),
        "action_mask": rng.random((*step, 2, 4)) < 0.5,
        "agent_mask": rng.random((*step, 2)) < 0.9,
        "state": rng.random((*step, 2)),
    }


def cut(steps: Steps, borders: list[int]) -> Iterator[Steps]:
    """Chunks of time, each from one border to the next."""
    for low, high in itertools.pairwise(borders):
        yield {name: array[:, low:high] for name, array in steps.items()}


def record(folder: Path, chunks: Iterator[Steps] | list[Steps], first: int = 1) -> Recorder:
    recorder = Recorder(folder)
    for update, chunk in enumerate(chunks, first):
        recorder.append(update, chunk)
    return recorder


def find_episodes(steps: Steps, borders: list[int]) -> list[tuple[int, int, int]]:
    """(environment, first, last step), by a loop; ordered by the chunk in which they end."""
    found = []
    for environment in range(len(steps["rewards"])):
        first = 0
        for step in range(steps["rewards"].shape[1]):
            ended = steps["terminals"][environment, step] | steps["truncations"][environment, step]
            if ended.all():
                chunk = sum(step >= border for border in borders)
                found.append((chunk, environment, first, step))
                first = step + 1
    return [episode for _, *episode in sorted(found)]


def assert_holds(recorder: Recorder, steps: Steps, borders: list[int]) -> None:
    """The recorder has the episodes that a plain loop finds, in order, and nothing else."""
    episodes = find_episodes(steps, borders)
    parts = list(recorder.parts(SPEC, "made", {"seed": 1}))
    found = [
        {name: array[low : low + length] for name, array in part.arrays().items()}
        | {"final": part.final_observations[index]}
        for part in parts
        for index, (low, length) in enumerate(
            zip(part.episode_starts, part.episode_lengths, strict=True)
        )
    ]
    assert len(found) == len(episodes) == recorder.num_episodes
    for got, (environment, first, last) in zip(found, episodes, strict=True):
        for name in [*NAMES, *(name for name in OPTIONAL if name in steps)]:
            expected = steps[name][environment, first : last + 1]
            assert got[name].dtype == expected.dtype
            np.testing.assert_array_equal(got[name], expected, err_msg=name)
        np.testing.assert_array_equal(got["final"], steps["final_observations"][environment, last])
    assert recorder.num_rows == sum(part.num_rows for part in parts)
    returns = sum(part.episode_returns.sum() for part in parts)
    assert recorder.total_return == pytest.approx(returns, rel=1e-12)
    assert all((part.name, part.origin) == ("made", {"seed": 1}) for part in parts)


def read_all(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def join(recorder: Recorder, folder: Path) -> Dataset:
    """The whole recording as one dataset, through a vault."""
    return vault.read(vault.write_parts(recorder.parts(SPEC, "made", {}), folder))


def make_long_chunk(update: int) -> Steps:
    return make_steps(50, 200, seed=update, ends=0.01)
