"""What is seen of the T-Maze: by agents, by a mixer, by people."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tmaze_states import (
    DOWN,
    GREEN,
    KEY,
    LEFT,
    ORANGE,
    PAPER,
    PUBLISHED,
    RESET,
    STAY,
    UP,
    WINDOW,
    act,
    at,
)

from oryx_marl.envs.tmaze import State, TMaze


def test_observation_after_the_choice():
    start = at((0, 0), (0, 1), colours=(-1, -1), step_count=0)
    left, right = [1, 2, 0, 0, -1, -1, -1, -1, -1], [1, -1, 0, -1, 2, -1, -1, 0, -1]
    for actions, paper, published in [
        ((GREEN, ORANGE), (1, 2), (0, 1)),
        ((ORANGE, GREEN), (2, 1), (1, 0)),
        ((GREEN, GREEN), (1, 1), (0, 0)),
        ((ORANGE, ORANGE), (2, 2), (1, 1)),
        ((UP, ORANGE), (1, 2), (0, 1)),
    ]:
        for env, last in [(PAPER, paper), (PUBLISHED, published)]:
            features = act(start, *actions, env=env)[1].observation.features
            assert features.dtype == jnp.int8
            assert features.tolist() == [[*left, 1, last[0]], [*right, 1, last[1]]]


@pytest.mark.parametrize("env", [PAPER, PUBLISHED])
def test_observation_while_walking(env):
    """The last action is 0 for every move; the side of green stays in view."""
    features = act(at((4, 0), (4, 1), green_left=False), UP, STAY, env=env)[1].observation.features
    first = [1, 0, -1, -1, 0, 0, -1, -1, 2, 0, 0]
    second = [1, -1, 0, 0, 0, 0, 0, 2, -1, 0, 0]
    assert features.tolist() == [first, second]
    _, step = act(at((2, 0), (5, 3), green_left=True), DOWN, LEFT, env=env)
    assert step.observation.features.tolist() == [
        [1, 0, 0, 0, -1, 0, -1, -1, 0, 1, 0],
        [1, 0, -1, -1, 0, -1, 0, -1, -1, 1, 0],
    ]


def test_an_illegal_choice_while_walking_leaks_only_in_the_published_mode():
    for env, seen in [(PAPER, [0, 0]), (PUBLISHED, [1, 0])]:
        _, step = act(at((2, 0), (4, 1)), ORANGE, GREEN, env=env)
        assert step.observation.features[:, 10].tolist() == seen


def test_order_of_the_nine_cells():
    """The other agent on each of them in turn; in a wide stem all are floor."""
    step_in_wide = jax.jit(TMaze(length=4, width=3, time_limit=20).step)
    for place, (row, column) in enumerate(WINDOW[1:], start=1):
        state = at((2, 1), (2 + row, 1 + column))
        _, step = step_in_wide(state, jnp.array([STAY, STAY]), KEY)
        expected = [1, *(2 if other == place else 0 for other in range(1, 9)), 1, 0]
        assert step.observation.features[0].tolist() == expected


def test_global_state_by_hand():
    """Rows 0 to 5, columns -2 to 3 between 0 and 1; green left; orange, green; step 5 of 20."""
    env = TMaze()
    state = State(
        positions=jnp.array([[5, -2], [0, 1]], jnp.int32),
        green_left=jnp.bool_(True),
        colours=jnp.array([1, 0], jnp.int32),
        step_count=jnp.int32(5),
    )
    expected = [1, 0, 0, 0.6, 1, 0, 1, 1, 0, 0.25]
    np.testing.assert_allclose(env._global_state(state), expected, rtol=1e-6)
    undecided = env._global_state(state._replace(colours=jnp.array([-1, -1], jnp.int32)))
    np.testing.assert_allclose(undecided[5:9], 0)


def test_render_text():
    lines = PAPER.render_text(at((3, 0), (5, 2), green_left=False, step_count=4)).splitlines()
    assert lines == [
        "step 4: agent_0 green, agent_1 orange",
        "# # # # # # # #",
        "# O . . . 1 G #",
        "# # # . . # # #",
        "# # # 0 . # # #",
        "# # # . . # # #",
        "# # # . . # # #",
        "# # # . . # # #",
        "# # # # # # # #",
    ]
    assert "agent_0 undecided, agent_1 undecided" in PAPER.render_text(RESET(KEY)[0])


def test_render_rgb_shows_colours_and_agents():
    def cell(picture, row, column):
        top, left = (6 - row) * 32, (column + 3) * 32
        return picture[top : top + 32, left : left + 32].astype(int)

    picture = PAPER.render_rgb(at((3, 0), (2, 1), colours=(0, 1)))
    assert picture.shape == (256, 256, 3)
    assert picture.dtype == np.uint8
    green, orange = cell(picture, 5, -2)[3, 16], cell(picture, 5, 3)[3, 16]
    assert green.argmax() == 1
    assert orange.argmax() == 0
    assert (cell(picture, 3, 0)[22, 16] == green).all()
    assert (cell(picture, 2, 1)[22, 16] == orange).all()
    swapped = PAPER.render_rgb(at((3, 0), (2, 1), colours=(0, 0), green_left=False))
    assert (cell(swapped, 5, -2)[3, 16] == orange).all()
    # The same colour on both: the dots still tell the agents apart.
    assert (cell(swapped, 3, 0) != cell(swapped, 2, 1)).any()
    undecided = PAPER.render_rgb(at((3, 0), (2, 1), colours=(-1, -1), step_count=0))
    assert np.ptp(cell(undecided, 3, 0)[22, 16]) < 30
