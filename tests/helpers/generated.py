"""Datasets with everything that a dataset can have, drawn by hypothesis."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from oryx_marl.data.dataset import Dataset
from oryx_marl.types import ActionSpace, Spec

DTYPES = [np.int8, np.uint8, np.int16, np.int32, np.int64, np.float16, np.float32, np.float64]


@contextmanager
def untouched_random() -> Iterator[None]:
    """The checks of types draw from `random`, which no strategy may."""
    before = random.getstate()
    yield
    random.setstate(before)


@st.composite
@untouched_random()
def datasets(draw: st.DrawFn) -> Dataset:
    """Unequal widths, agents that come and go, shared or own rewards, ids or boxes."""
    rows, agents, size = (draw(st.integers(1, high)) for high in (12, 4, 3))
    widths = draw(st.lists(st.integers(1, 4), min_size=agents, max_size=agents))
    is_box, has_state, is_shared = (draw(st.booleans()) for _ in range(3))
    names = draw(
        st.lists(st.text("ab_ é", min_size=1), min_size=agents, max_size=agents, unique=True)
    )
    starts = sorted({0, *(draw(st.sets(st.integers(1, rows), max_size=3)) - {rows})})
    kind = draw(st.sampled_from(DTYPES))
    step = (rows, agents)

    def array(dtype: type, *shape: int) -> np.ndarray:
        return draw(hnp.arrays(dtype, shape))

    def seen(*shape: int) -> np.ndarray:
        values = array(kind, *shape, agents, max(widths))
        return np.where(np.arange(max(widths)) < np.array(widths)[:, None], values, 0).astype(kind)

    rewards = array(np.float32, rows, 1 if is_shared else agents)
    ids = draw(hnp.arrays(np.int8, step, elements=st.integers(0, size - 1)))
    bounds = ((-1.0,) * size, (2.0,) * size) if is_box else ((), ())
    return Dataset(
        spec=Spec(
            environment="",
            agents=tuple(names),
            observation_sizes=tuple(widths),
            action=ActionSpace("box" if is_box else "discrete", size, *bounds),
            state_size=2 if has_state else 0,
            shared_reward=is_shared,
            episode_limit=draw(st.none() | st.integers(12, 20)),
        ),
        observations=seen(rows),
        actions=array(np.float32, *step, size) if is_box else ids,
        rewards=np.broadcast_to(rewards, step).copy(),
        terminals=array(np.bool_, *step),
        truncations=array(np.bool_, *step),
        episode_starts=np.array(starts),
        action_mask=array(np.bool_, *step, size) if draw(st.booleans()) else None,
        agent_mask=array(np.bool_, *step) if draw(st.booleans()) else None,
        state=array(np.float64, rows, 2) if has_state else None,
        final_observations=seen(len(starts)) if draw(st.booleans()) else None,
        name="drawn",
        origin={"seed": draw(st.integers(0, 9))},
    )


def assert_same_data(got: Dataset, expected: Dataset) -> None:
    """Equal Specs and arrays, types included; names and origins may differ."""
    assert got.spec == expected.spec
    assert got.arrays().keys() == expected.arrays().keys()
    for name, array in expected.arrays().items():
        assert got.arrays()[name].dtype == array.dtype, name
        np.testing.assert_array_equal(got.arrays()[name], array, err_msg=name)
