"""Statistics against numbers worked out by hand."""

import json

import numpy as np

from oryx_marl.data.stats import describe, make_histogram


def test_describe(full_dataset):
    about = json.loads(json.dumps(describe(full_dataset)))
    assert about["transitions"] == 7
    assert about["episodes"] == 3
    assert about["agents"] == ["left", "right"]
    assert about["observation_width"] == 3
    assert about["actions"] == {"kind": "discrete", "size": 3}
    returns = about["returns"]
    assert (returns["min"], returns["max"]) == (15 / 16, 46 / 16)
    assert returns["mean"] == 91 / 48
    assert returns["quantiles"]["0.5"] == 30 / 16
    assert about["lengths"] == {"mean": 7 / 3, "min": 2, "max": 3}
    assert about["endings"] == {"terminal": 1.0, "truncated": 0.0, "neither": 0.0}
    # Actions count 0 1 2 0 1 2 ...: left takes entries 0, 2, 4 ..., right the others but row 4.
    assert about["action_counts"] == [[3, 2, 2], [1, 3, 2]]
    assert about["share_with_choice"] == 1.0
    assert about["fingerprint"] == full_dataset.fingerprint()


def test_endings(build_dataset):
    terminals, truncations = np.zeros((7, 2), bool), np.zeros((7, 2), bool)
    terminals[1, 0] = terminals[2, 1] = True  # both agents end, one earlier
    terminals[4, 0] = truncations[4, 1] = True  # one ends, one is cut off
    about = describe(build_dataset(terminals=terminals, truncations=truncations))
    assert about["endings"] == {"terminal": 1 / 3, "truncated": 1 / 3, "neither": 1 / 3}


def test_choice(build_dataset):
    action_mask = np.zeros((7, 2, 3), bool)
    action_mask[..., 0] = True
    action_mask[0] = True
    assert describe(build_dataset(action_mask=action_mask))["share_with_choice"] == 1 / 7


def test_box_actions_and_numbers_that_are_not_finite(build_box_dataset):
    dataset = build_box_dataset()
    dataset.rewards[0] = np.nan
    about = describe(dataset)
    json.dumps(about, allow_nan=False)
    assert about["action_counts"] is None
    assert about["non_finite_returns"] == 1


def test_histogram():
    two = make_histogram(np.array([0.0, 1.0, 1.0]))
    assert two == {"edges": [-0.5, 0.5, 1.5], "counts": [1, 2]}
    assert make_histogram(np.array([3.0])) == {"edges": [2.5, 3.5], "counts": [1]}
    assert make_histogram(np.array([])) == {"edges": [], "counts": []}
    assert make_histogram(np.array([0.3]))["counts"] == [1]
    assert make_histogram(np.arange(101.0))["counts"] == [6] * 16 + [5]
    far = make_histogram(np.array([1.0, 2.0, 30.0]))
    assert np.unique(np.diff(far["edges"])) == [2]
    assert sum(far["counts"]) == 3
    even = make_histogram(np.array([0.0, 0.5, 1.0]))
    np.testing.assert_allclose(even["edges"], [-0.25, 0.25, 0.75, 1.25])
    uneven = make_histogram(np.array([0.28, 0.5, 1.9, 2.0, 2.0 + 1e-7]))
    assert np.ptp(np.diff(uneven["edges"])) < 1e-9
    assert uneven["edges"][0] == 0.28
    many = make_histogram(np.linspace(0, 1, 100))
    assert len(many["counts"]) == 20
    assert sum(many["counts"]) == 100
