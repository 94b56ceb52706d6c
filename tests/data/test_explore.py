"""Coverage, entropy, densities and ranges against numbers worked out by hand."""

import json
from dataclasses import replace

import numpy as np
import pytest
from planted import build_clean

from oryx_marl.cli import main as cli
from oryx_marl.data import explore as exploring
from oryx_marl.data import view
from oryx_marl.data.explore import (
    explore,
    find_coverage,
    find_entropy,
    find_ranges,
    hash_rows,
    make_density,
)


def test_coverage_counts_distinct_pairs_of_state_and_joint_action(build_dataset, monkeypatch):
    # States 0 0 0 0 1 1 1 with joint actions aa aa ab ba aa aa bb: 5 distinct pairs in 7 rows.
    spec = replace(build_dataset().spec, state_size=1)
    state = np.array([0, 0, 0, 0, 1, 1, 1], np.float32)[:, None]
    actions = np.array([[0, 0], [0, 0], [0, 1], [1, 0], [0, 0], [0, 0], [1, 1]])
    found = find_coverage(build_dataset(spec=spec, state=state, actions=actions))
    assert found == {"joint_saco": 5 / 7, "distinct_pairs": 5, "state": "global state"}
    # Without a state, what all agents see counts: here every row differs.
    found = find_coverage(build_dataset(actions=actions))
    assert found == {"joint_saco": 1.0, "distinct_pairs": 7, "state": "joint observation"}
    same = build_dataset(actions=actions, observations=np.zeros((7, 2, 3), np.float32))
    assert find_coverage(same)["distinct_pairs"] == 4
    monkeypatch.setattr(view, "MOST_VALUES", 16)  # two rows at a time
    assert find_coverage(same)["distinct_pairs"] == 4


def test_coverage_is_numpys_count_of_unique_rows():
    rng = np.random.default_rng(0)
    spec = replace(build_clean().spec, state_size=3)
    dataset = replace(
        build_clean(spec=spec),
        state=rng.integers(0, 2, (120, 3)).astype(np.float32),
        actions=rng.integers(0, 2, (120, 3)).astype(np.int32),
    )
    pairs = np.concatenate([dataset.state, dataset.actions], axis=1)
    assert find_coverage(dataset)["distinct_pairs"] == len(np.unique(pairs, axis=0))


def test_more_pairs_than_can_be_kept_are_estimated(build_dataset, monkeypatch):
    """Of 50,000 rows with 20,000 distinct pairs: within 3 of the errors that such a sample has."""
    rng = np.random.default_rng(0)
    rows = 50_000
    observations = np.zeros((rows, 2, 3), np.int32)
    observations[:, 0, 0] = rng.permutation(np.arange(rows) % 20_000)
    dataset = build_dataset(rows, observations=observations, actions=np.zeros((rows, 2), np.int8))
    exact = find_coverage(dataset)
    assert exact == {"joint_saco": 0.4, "distinct_pairs": 20_000, "state": "joint observation"}
    monkeypatch.setattr(exploring, "MOST_HASHES", 2_000)
    monkeypatch.setattr(exploring, "MOST_NEW_HASHES", 500)
    monkeypatch.setattr(view, "MOST_ROWS", 700)
    found = find_coverage(dataset)
    assert found["is_estimate"] is True
    assert found["distinct_pairs"] == pytest.approx(20_000, rel=3 / np.sqrt(1_000))
    assert found["joint_saco"] == found["distinct_pairs"] / rows
    monkeypatch.setattr(exploring, "MOST_HASHES", 20_000)
    assert find_coverage(dataset) == exact


def test_hashes_tell_rows_and_columns_apart():
    rows = np.array([[0.0, 1.0], [1.0, 0.0], [-0.0, 1.0], [1.0, 1.0], [0.0, 0.0]])
    hashes = hash_rows(rows)
    assert hashes[0] == hashes[2]  # -0.0 is 0.0
    assert len(set(hashes.tolist())) == 4
    many = np.random.default_rng(0).integers(0, 50, (20_000, 3)).astype(np.float64)
    assert len(np.unique(hash_rows(many))) == len(np.unique(many, axis=0))


def test_entropy(build_dataset):
    actions = np.array([[0, 0], [1, 0], [0, 0], [1, 0], [0, 0], [1, 0], [2, 0]])
    agent_mask = np.ones((7, 2), bool)
    agent_mask[6, 0] = False  # so left takes 0 and 1 three times each
    action_mask = np.ones((7, 2, 3), bool)
    action_mask[:, 1, 1:] = False
    found = find_entropy(
        build_dataset(actions=actions, agent_mask=agent_mask, action_mask=action_mask)
    )
    assert found["bits"] == {"left": 1.0, "right": 0.0}
    assert found["choice"] == pytest.approx(6 * np.log2(3) / 13)
    assert found["most"] == np.log2(3)


def test_no_entropy_of_box_actions_but_ranges(build_box_dataset):
    found = explore(build_box_dataset())
    assert found["entropy"] is None
    assert found["action_ranges"]["low"] == pytest.approx([-1, -1 + 2 / 23])
    assert found["action_ranges"]["high"] == pytest.approx([1 - 2 / 23, 1])


def test_ranges_leave_out_what_is_not_finite():
    values = np.array([[1.0, np.nan, np.inf], [3.0, np.inf, np.nan], [2.0, 5.0, -np.inf]])
    found = find_ranges(values)
    assert found["low"] == [1.0, 5.0, None]
    assert found["high"] == [3.0, 5.0, None]
    assert found["mean"] == [2.0, 5.0, None]
    assert found["std"][0] == pytest.approx(np.sqrt(2 / 3))


def test_absent_agents_are_not_in_the_ranges(build_dataset):
    agent_mask = np.ones((7, 2), bool)
    agent_mask[6, 1] = False  # the largest of each column
    found = explore(build_dataset(agent_mask=agent_mask))
    assert found["features"]["high"] == [36.0, 37.0, 38.0]


def test_density():
    assert make_density(np.array([])) == {"values": [], "density": []}
    assert make_density(np.array([2.0, 2.0])) == {"values": [2.0], "density": [1.0]}
    values = np.concatenate([np.full(900, 0.0), np.full(100, 10.0)])
    found = make_density(values + np.random.default_rng(0).normal(size=1000) / 10)
    density = np.array(found["density"])
    assert max(density) == 1
    assert np.argmax(density) < 8
    assert density[-8:].max() == pytest.approx(1 / 9, rel=0.3)
    assert density[20:40].max() < 1e-3


def test_all_of_it_fits_into_json(full_dataset):
    found = explore(full_dataset)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["length_histogram"]["counts"] == [2, 1]  # two of 2 steps, one of 3


def test_info_in_a_terminal(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    cli.main(["data", "info", "tmaze/planner-mixed"])
    told = capsys.readouterr().out
    for text in ("joint_saco 0.4235", "agent_0 2.383", "actions of agent_1", "from -1 to 2"):
        assert text in told
    assert "length    19.50 to    20.50     3,523" in told
