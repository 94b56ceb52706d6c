"""Faults are found where they were put, and left out as documented."""

import numpy as np
import pytest

from oryx_marl.data.quality.screen import (
    count_left_out,
    drop_invalid,
    find_problems,
    require_clean,
)
from oryx_marl.errors import OryxError


@pytest.fixture
def faulty(build_dataset):
    """One fault of each kind, each at a place of its own."""
    clean = build_dataset()
    observations = clean.observations.astype(np.float32)
    observations[1, 0, 2] = np.nan
    rewards = clean.rewards.copy()
    rewards[4, 1] = np.inf
    actions = clean.actions.copy()
    actions[2, 1] = 3
    actions[6] = (0, 2)
    action_mask = np.ones((7, 2, 3), bool)
    action_mask[6, 0] = (False, True, True)
    action_mask[5, 1] = False
    return build_dataset(
        observations=observations, rewards=rewards, actions=actions, action_mask=action_mask
    )


def test_clean_data_has_no_problem(full_dataset, build_box_dataset):
    assert find_problems(full_dataset) == []
    require_clean(full_dataset)
    require_clean(build_box_dataset())


def test_places_are_named(faulty):
    found = {p.kind: (p.episode, p.step, p.agent, p.what, p.count) for p in find_problems(faulty)}
    assert found == {
        "non-finite observation": (0, 1, "left", "observation entry 2 is nan", 1),
        "non-finite reward": (1, 1, "right", "reward entry 0 is inf", 1),
        "action out of range": (0, 2, "right", "action 3, but actions go from 0 to 2", 1),
        "illegal action": (2, 1, "left", "action 0 is not among the legal ones (1, 2)", 1),
        "no legal action": (2, 0, "right", "no action is legal (logged: 2)", 1),
    }


def test_only_the_first_places_are_listed_but_all_are_counted(build_dataset):
    rewards = np.full((7, 2), np.nan, np.float32)
    problems = find_problems(build_dataset(rewards=rewards), limit=2)
    assert [(p.episode, p.step, p.agent) for p in problems] == [(0, 0, "left"), (0, 0, "right")]
    assert problems[0].count == 14
    with pytest.raises(OryxError, match=r"(?s)14 agent-steps.*and 11 more.*--drop-invalid"):
        require_clean(build_dataset(rewards=rewards))


def test_leave_out(faulty):
    repaired = drop_invalid(faulty)
    absent = [(1, 0), (4, 1), (2, 1)]
    expected = np.ones((7, 2), bool)
    for place in absent:
        expected[place] = False
        assert not repaired.observations[place].any()
        assert repaired.rewards[place] == 0
        assert repaired.actions[place] == 0
    np.testing.assert_array_equal(repaired.agent_mask, expected)
    assert repaired.observations[1, 1].tolist() == faulty.observations[1, 1].tolist()
    # No legal action, 2 logged: all but the logged one, so that the learner leaves it out.
    assert repaired.action_mask[5, 1].tolist() == [True, True, False]
    # An illegal action stays for the values.
    assert repaired.actions[6, 0] == 0
    assert repaired.action_mask[6, 0].tolist() == [False, True, True]
    assert repaired.origin["left_out"] == {"agent_steps": 14, "marked_absent": 3, "policy_only": 2}
    assert count_left_out(faulty)._asdict() == repaired.origin["left_out"]
    assert "of 14 agent-steps, 3 are left out" in str(count_left_out(faulty))
    # What remains are the rows that the learner leaves out of the policy loss by itself.
    assert {problem.kind for problem in find_problems(repaired)} == {"illegal action"}
    assert faulty.actions[2, 1] == 3  # the original is untouched


def test_leave_out_of_clean_data_copies_nothing(full_dataset):
    repaired = drop_invalid(full_dataset)
    for name, array in full_dataset.arrays().items():
        np.testing.assert_array_equal(repaired.arrays()[name], array)
    assert repaired.observations is full_dataset.observations


def test_absent_agents_may_log_any_action_but_no_nan(build_dataset):
    actions = np.zeros((7, 2), np.int8)
    actions[3, 1] = -1
    agent_mask = np.ones((7, 2), bool)
    agent_mask[3, 1] = False
    action_mask = np.ones((7, 2, 3), bool)
    action_mask[3, 1] = False
    dataset = build_dataset(actions=actions, agent_mask=agent_mask, action_mask=action_mask)
    assert find_problems(dataset) == []
    repaired = drop_invalid(dataset)
    assert repaired.actions[3, 1] == 0
    assert repaired.action_mask[3, 1].all()
    observations = np.zeros((7, 2, 3), np.float32)
    observations[3, 1, 0] = np.nan
    dataset = build_dataset(agent_mask=agent_mask, observations=observations)
    (problem,) = find_problems(dataset)
    assert problem.kind == "non-finite observation"
    assert count_left_out(dataset).marked_absent == 0  # it was absent before
    require_clean(drop_invalid(dataset))


def test_numbers_too_large_for_float32_count_as_not_finite(build_dataset):
    rewards = np.zeros((7, 2))
    rewards[5, 0] = 1e300
    (problem,) = find_problems(build_dataset(rewards=rewards))
    assert (problem.kind, problem.episode, problem.step) == ("non-finite reward", 2, 0)


def test_fractional_and_negative_ids_are_out_of_range(build_dataset):
    actions = np.zeros((7, 2), np.float32)
    actions[0, 0], actions[1, 0], actions[2, 0] = 0.5, -1, np.nan
    problems = find_problems(build_dataset(actions=actions))
    assert [(p.kind, p.step) for p in problems] == [("action out of range", s) for s in range(3)]


def test_box_actions_must_be_finite(build_box_dataset):
    dataset = build_box_dataset()
    dataset.actions[4, 1, 1] = np.nan
    (problem,) = find_problems(dataset)
    assert (problem.kind, problem.episode, problem.step) == ("non-finite action", 1, 0)
    repaired = drop_invalid(dataset)
    assert repaired.actions[4, 1].tolist() == [0, 0]
    assert not repaired.agent_mask[4, 1]
    require_clean(repaired)


def test_a_single_action_without_legal_entry_becomes_legal(build_dataset):
    dataset = build_dataset()
    spec = dataset.spec.__class__.from_dict(
        {**dataset.spec.to_dict(), "action": {"kind": "discrete", "size": 1}}
    )
    action_mask = np.ones((7, 2, 1), bool)
    action_mask[2, 0] = False
    actions = np.zeros((7, 2), np.int8)
    repaired = drop_invalid(build_dataset(spec=spec, actions=actions, action_mask=action_mask))
    assert repaired.action_mask.all()
