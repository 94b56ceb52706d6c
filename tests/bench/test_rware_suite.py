"""The suite of RWARE: cells in order, the paper's numbers, and the warning beside them."""

from oryx_marl.bench import suite as suites
from oryx_marl.bench import table
from oryx_marl.bench.runner import Bench
from oryx_marl.bench.summary import make_table

DATA = "rware-tiny-4ag-easy/expert"


def record(name: str) -> dict:
    scores = {"per_seed": [1.0, 2.0, 3.0]}
    return {
        "variant": name,
        "scores": {"last": {"sampled": scores, "greedy": scores}},
        "wall_seconds": 60.0,
        "references": {"random": 0.0, "data": 2.0, "expert": 4.0},
    }


def test_cells_that_must_be_complete_come_first():
    suite = suites.load("rware")
    cells = suite.cells()
    assert len(cells) == len({*cells}) == 6 * len(suite.variants)
    first = [name for name, _ in cells[:12]]
    assert first == [name for name in ("Oryx", "I-ICQ", "MAICQ", "BC") for _ in range(3)]
    assert all("-tiny-" in data for _, data in cells[:12])
    assert all("-small-" in data for _, data in cells[12:24])
    assert {"IQL-CQL", "MAT+ICQ", "MADT"} <= {name for name, _ in cells[24:]}


def test_the_papers_numbers_stand_beside_ours(tmp_path):
    suite = suites.load("rware")
    found = make_table(suite, {(name, DATA): record(name) for name in ("Oryx", "BC", "MADT")})
    column = found.columns.index("paper")
    cells = {row.labels[1]: row.cells[column] for row in found.rows}
    assert cells == {
        "Oryx": table.Cell(16.71, 0.32),
        "BC": table.Cell(11.12, 0.33),
        "MADT": None,
    }
    assert "reward of agent 0" in suite.note
    bench = Bench(suite, tmp_path, tmp_path, make_table=lambda *_: found)
    assert suite.note in bench.markdown()
