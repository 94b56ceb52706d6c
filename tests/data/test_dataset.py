"""What a dataset refuses, and how it is identified."""

from dataclasses import replace

import numpy as np
import pytest

from oryx_marl.data.dataset import Dataset
from oryx_marl.errors import OryxError


def test_episodes(build_dataset):
    dataset = build_dataset()
    assert dataset.episode_lengths.tolist() == [3, 2, 2]
    # Rewards are i/8 for i = 0..13; the mean of row r is (4r + 1)/16.
    assert dataset.episode_returns.tolist() == [15 / 16, 30 / 16, 46 / 16]
    assert [dataset.locate(row) for row in (0, 2, 3, 6)] == [(0, 0), (0, 2), (1, 0), (2, 1)]


@pytest.mark.parametrize(
    ("name", "shape", "dtype"),
    [
        ("observations", (7, 2, 4), np.int32),
        ("actions", (7, 2, 3), np.float32),
        ("action_mask", (7, 2, 4), bool),
        ("state", (7, 1), np.float32),
        ("final_observations", (3, 2, 9), np.int32),
        ("rewards", (6, 2), np.float32),
    ],
)
def test_shapes_that_do_not_fit_the_spec(build_dataset, name, shape, dtype):
    dataset = build_dataset()
    object.__setattr__(dataset, name, np.zeros(shape, dtype))  # past the checks of types in tests
    with pytest.raises(OryxError, match=rf"{name} has shape \({shape[0]}, {shape[1]}.*Spec say"):
        Dataset.__post_init__(dataset)


@pytest.mark.parametrize("starts", [(1, 3), (0, 3, 3), (0, 7), (0, 4, 2)])
def test_episode_starts_that_make_no_sense(build_dataset, starts):
    with pytest.raises(OryxError, match="episode_starts must begin with 0"):
        build_dataset(episode_starts=np.array(starts))


def test_fingerprint_sees_values_types_shapes_and_spec_but_no_name(build_dataset):
    base = build_dataset()
    same = build_dataset(name="other", origin={"seed": 1})
    assert base.fingerprint() == same.fingerprint()
    assert len(base.fingerprint()) == 64
    changed = base.observations.copy()
    changed[6, 1, 2] += 1
    others = [
        build_dataset(observations=changed),
        build_dataset(observations=base.observations.astype(np.uint32)),
        build_dataset(episode_starts=np.array([0, 3])),
        build_dataset(agent_mask=np.ones((7, 2), bool)),
        build_dataset(spec=replace(base.spec, agents=("a", "b"))),
    ]
    assert len({base.fingerprint(), *(other.fingerprint() for other in others)}) == 6
