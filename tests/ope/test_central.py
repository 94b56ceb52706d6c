"""What clones and critics see beside the observations."""

from dataclasses import replace

import numpy as np

from oryx_marl.data.dataset import Dataset
from oryx_marl.ope.central import add_state
from oryx_marl.types import ActionSpace, Spec


def make_logs() -> Dataset:
    ends = np.zeros((4, 2), bool)
    ends[[1, 3]] = True
    return Dataset(
        Spec("", ("a", "b"), (1, 2), ActionSpace("discrete", 2), state_size=1),
        np.arange(16, dtype=np.int8).reshape(4, 2, 2),
        np.zeros((4, 2), np.int32),
        np.zeros((4, 2), np.float32),
        ends,
        np.zeros_like(ends),
        np.array([0, 2]),
        state=np.array([[0.1], [0.2], [0.3], [0.4]], np.float32),
        final_observations=np.full((2, 2, 2), 9, np.int8),
    )


def test_every_agent_sees_the_state() -> None:
    logs = make_logs()
    found = add_state(logs)
    assert found.spec.observation_sizes == (3, 3)
    np.testing.assert_array_equal(found.observations[..., :2], logs.observations)
    np.testing.assert_array_equal(found.observations[2, :, 2], np.float32([0.3, 0.3]))
    assert found.final_observations is not None
    np.testing.assert_array_equal(found.final_observations[1, 0], np.float32([9, 9, 0.4]))


def test_without_a_state_nothing_changes() -> None:
    logs = make_logs()
    without = replace(logs, state=None, spec=replace(logs.spec, state_size=0))
    assert add_state(without) is without
