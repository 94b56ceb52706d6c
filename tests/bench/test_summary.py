"""The table and the figure of a suite say what the records say."""

from typing import Any

import numpy as np
import pytest

from oryx_marl.bench import suite as suites
from oryx_marl.bench import table
from oryx_marl.bench.summary import make_figure, make_table
from oryx_marl.errors import OryxError
from oryx_marl.eval.metrics import summarise


def record(name: str, sampled: list[float], greedy: list[float]) -> dict[str, Any]:
    scores = {"last": {"sampled": {"per_seed": sampled}, "greedy": {"per_seed": greedy}}}
    return {"variant": name, "scores": scores, "acting": {}, "wall_seconds": 90.0}


def test_the_table_marks_the_best_and_stands_beside_the_paper() -> None:
    """I-ICQ is far below; MAICQ is within the noise of Oryx, so it gets a star."""
    data = "tmaze/expert"
    records = {
        ("Oryx", data): record("Oryx", [0.9, 1.0, 0.95], [1.0, 1.0, 1.0]),
        ("I-ICQ", data): record("I-ICQ", [0.1, 0.2, 0.15], [0.0, 0.0, 0.0]),
        ("MAICQ", data): record("MAICQ", [0.9, 0.96, 0.93], [0.0, 1.0, 1.0]),
    }
    found = make_table(suites.load("tmaze"), records)
    kinds = ("sampled", "greedy", "paper", "minutes")
    assert found.columns == [f"expert, {kind}" for kind in kinds]
    cells = {row.labels[0]: row.cells for row in found.rows}
    assert list(cells) == ["Oryx", "I-ICQ", "MAICQ"]
    best, worse, alike = (cells[name][0] for name in cells)
    assert best is not None
    assert worse is not None
    assert alike is not None
    assert (best.best, best.star) == (True, False)
    assert (worse.best, worse.star) == (False, False)
    assert (alike.best, alike.star) == (False, True)
    assert cells["Oryx"][2] == table.Cell(0.94, 0.03)
    assert cells["I-ICQ"][2] == table.Cell(0.0, 0.0)
    assert cells["I-ICQ"][3] == table.Cell(1.5, decimals=1)


def test_all_that_are_best_in_the_printed_digits_are_marked() -> None:
    """0.998 is printed as 1.00, as 1.000 is; 0.99 is not."""
    data = "tmaze/expert"
    scores = {
        "Oryx": [0.998, 0.998, 0.998],
        "I-ICQ": [1.0, 1.0, 1.0],
        "MAICQ": [0.97, 1.0, 1.0],
    }
    records = {(name, data): record(name, each, each) for name, each in scores.items()}
    cells = {row.labels[0]: row.cells[0] for row in make_table(suites.load("tmaze"), records).rows}
    marks = {name: (cell.best, cell.star) for name, cell in cells.items() if cell is not None}
    assert marks == {"Oryx": (True, False), "I-ICQ": (True, False), "MAICQ": (False, True)}


def test_each_is_compared_by_its_own_way_of_acting() -> None:
    """IQL-CQL acts greedily: what it samples is shown aside, and marked by nothing."""
    data = "tmaze/expert"
    records = {
        ("Oryx", data): record("Oryx", [0.9, 0.91, 0.92], [1.0, 1.0, 1.0]),
        ("IQL-CQL", data): record("IQL-CQL", [1.0, 1.0, 1.0], [0.5, 0.51, 0.52]),
    }
    cells = {row.labels[0]: row.cells for row in make_table(suites.load("tmaze"), records).rows}
    marks = [
        [(cell.best, cell.aside) for cell in cells[name][:2] if cell is not None]
        for name in ("Oryx", "IQL-CQL")
    ]
    assert marks == [[(True, False), (False, True)], [(False, True), (False, False)]]
    assert cells["Oryx"][1] is not None
    assert cells["Oryx"][1].text == "(1.00 ± 0.00)"


def test_the_number_of_runs_stands_beside_the_scores() -> None:
    data = "tmaze/expert"
    names = ("Oryx", "BC", "Oryx w/o ICQ", "Oryx, the paper's settings")
    records = {(name, data): record(name, [0.9], [1.0]) for name in names}
    found = make_table(suites.load("tmaze"), records)
    assert found.labels == ["algorithm", "tuned over"]
    assert dict(row.labels for row in found.rows) == {
        "Oryx": "untuned (23 earlier runs)",
        "BC": "untuned (1 setting)",
        "Oryx w/o ICQ": "as Oryx",
        "Oryx, the paper's settings": "fixed",
    }


def scaling_record(name: str, agents: int, scores: list[float], expert: float) -> dict[str, Any]:
    return {
        **record(name, scores, scores),
        "scores": {"last": {"sampled": _summary(scores), "greedy": _summary(scores)}},
        "num_agents": agents,
        "references": {"random": -0.5, "data": 0.25, "expert": expert},
    }


def _summary(scores: list[float]) -> dict[str, Any]:
    return summarise(np.array(scores)[:, None], "return")


@pytest.fixture
def scaling() -> dict[tuple[str, str], dict[str, Any]]:
    """Oryx reaches the expert with three agents and half of the way with ten, MAICQ a quarter."""
    return {
        ("Oryx", "con-5x5x3a/snapshots"): scaling_record("Oryx", 3, [0.4, 0.5, 0.6], 0.5),
        ("MAICQ", "con-5x5x3a/snapshots"): scaling_record("MAICQ", 3, [-0.3, -0.25, -0.2], 0.5),
        ("Oryx", "con-10x10x10a/snapshots"): scaling_record("Oryx", 10, [-0.1, 0.0, 0.1], 0.5),
    }


def test_scores_stand_beside_what_they_are_measured_against(scaling: Any) -> None:
    found = make_table(suites.load("connector"), scaling)
    assert found.labels == ["dataset", "algorithm", "tuned over"]
    rows = {
        tuple(row.labels[:2]): dict(zip(found.columns, row.cells, strict=True))
        for row in found.rows
    }
    assert [*rows] == [
        ("con-5x5x3a/snapshots", "Oryx"),
        ("con-5x5x3a/snapshots", "MAICQ"),
        ("con-10x10x10a/snapshots", "Oryx"),
    ]
    shares = [rows[row]["of expert"].mean for row in rows]
    assert shares == pytest.approx([1.0, 0.25, 0.5])
    first = rows["con-5x5x3a/snapshots", "Oryx"]
    assert first["sampled"].best
    assert first["sampled"].mean == pytest.approx(0.5)
    assert first["of expert"].std == pytest.approx(0.1)
    assert [first[name].mean for name in ("random", "data", "expert")] == [-0.5, 0.25, 0.5]
    assert first["minutes"].mean == 1.5


def test_the_figure_has_a_point_for_each_cell(scaling: Any) -> None:
    picture = make_figure(suites.load("connector"), scaling)
    assert picture.count("<circle") == 3
    assert picture.count("<polyline") == 2
    for name in ("Oryx", "MAICQ", "agents", "0: random, 1: expert"):
        assert f">{name}</text>" in picture
    scaling.popitem()
    assert make_figure(suites.load("connector"), scaling).count("<circle") == 2


def test_without_an_expert_nothing_is_normalised(scaling: Any) -> None:
    for each in scaling.values():
        each["references"]["expert"] = None
    assert "of expert" not in make_table(suites.load("connector"), scaling).columns
    assert "<circle" not in make_figure(suites.load("connector"), scaling)


def test_what_diverged_is_a_cross_and_marked_by_nothing(scaling: Any) -> None:
    record = scaling["MAICQ", "con-5x5x3a/snapshots"]
    record["scores"]["last"]["sampled"]["per_seed"] = [-90.0, 0.5, 0.6]
    marks = []
    for diverged in (None, "not finite"):
        record["diverged"] = diverged
        found = make_table(suites.load("connector"), scaling)
        place = found.columns.index("sampled")
        marks.append([(row.cells[place].best, row.cells[place].star) for row in found.rows[:2]])
    best, starred, plain = (True, False), (False, True), (False, False)
    assert marks == [[best, starred], [best, plain]]  # so wide a spread hides any difference
    picture = make_figure(suites.load("connector"), scaling)
    assert picture.count("<circle") == 2
    assert picture.count("l8 8m0 -8l-8 8") == 1
    assert "(cross: diverged)" in picture


def test_the_first_cells_are_those_that_show_the_curve() -> None:
    connector = suites.load("connector")
    first = connector.cells()[:8]
    assert {variant for variant, _ in first} == {"Oryx", "MAICQ"}
    assert [data for _, data in first[::2]] == [
        f"con-{size}/snapshots" for size in ("5x5x3a", "10x10x10a", "15x15x23a", "25x25x50a")
    ]
    assert len(set(connector.cells())) == len(connector.cells())
    assert {data for _, data in connector.cells()} == set(connector.datasets)
    assert len(suites.load("smax").cells()) == 12
    with pytest.raises(OryxError, match="has no MADT on con-7x7x5a/snapshots, only on con-5x5x3a"):
        connector.choose(("MADT", "con-7x7x5a/snapshots"))
    with pytest.raises(OryxError, match="suite 'connector_replay' has no small version"):
        suites.load("connector_replay", quick=True)
