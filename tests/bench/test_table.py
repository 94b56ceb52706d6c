import math

import pytest

from oryx_marl.bench import table
from oryx_marl.bench.table import Cell, Entry, Row, Table
from oryx_marl.errors import OryxError

ENTRIES = [
    Entry(("maze", "", "replay"), "Oryx", Cell(0.99, 0.012, best=True)),
    Entry(("maze", "", "replay"), "a|b", Cell(0.5, 0.25, star=True)),
    Entry(("hall", "", "expert"), "BC", Cell(-12.34, 1.06, decimals=1)),
    Entry(("hall", "", "expert"), "Oryx", Cell(7.0, None, decimals=0)),
]
LABELS = ("environment", "source", "dataset")
SMALL = table.arrange(LABELS, ENTRIES)


def test_arrangement() -> None:
    """Order of appearance, gaps where there is no score, and no label that says nothing."""
    found = table.arrange(LABELS, ENTRIES)
    assert found == Table(
        ["environment", "dataset"],
        ["Oryx", "a|b", "BC"],
        [
            Row(["maze", "replay"], [ENTRIES[0].cell, ENTRIES[1].cell, None]),
            Row(["hall", "expert"], [ENTRIES[3].cell, None, ENTRIES[2].cell]),
        ],
    )
    assert found.header == ["environment", "dataset", "Oryx", "a|b", "BC"]


def test_two_scores_in_one_place_are_refused() -> None:
    with pytest.raises(OryxError, match="two scores of BC on hall expert"):
        table.arrange(LABELS, [ENTRIES[2], ENTRIES[2]])


def test_text_of_a_cell() -> None:
    assert Cell(0.4, 0.1).text == "0.40 ± 0.10"
    assert Cell(89.54, 3.66, decimals=1).text == "89.5 ± 3.7"
    assert Cell(0.4).text == Cell(0.4, math.nan).text == "0.40"


def test_markdown() -> None:
    assert table.markdown(SMALL) == (
        "| environment | dataset | Oryx | a\\|b | BC |\n"
        "| --- | --- | ---: | ---: | ---: |\n"
        "| maze | replay | **0.99 ± 0.01** | 0.50 ± 0.25\\* |  |\n"
        "| hall | expert | 7 |  | -12.3 ± 1.1 |\n"
    )


def test_csv() -> None:
    assert table.csv(SMALL) == (
        "environment,dataset,Oryx mean,Oryx std,Oryx mark,a|b mean,a|b std,a|b mark,"
        "BC mean,BC std,BC mark\n"
        "maze,replay,0.99,0.012,best,0.5,0.25,star,,,\n"
        "hall,expert,7.0,,,,,,-12.34,1.06,\n"
    )


def test_plain() -> None:
    assert table.plain(SMALL, "what they are") == (
        "environment  dataset          Oryx            a|b             BC\n"
        "maze         replay   [0.99 ± 0.01]   0.50 ± 0.25*\n"
        "hall         expert              7                   -12.3 ± 1.1\n"
        "\n"
        "what they are\n"
    )


def test_nothing_marked_needs_no_legend() -> None:
    bare = table.arrange(("task",), [Entry(("maze",), "Oryx", Cell(1.0))])
    assert table.plain(bare, "what they are") == "task   Oryx\nmaze   1.00\n"


def test_an_empty_table_renders() -> None:
    empty = table.arrange(("task",), [])
    assert table.plain(empty, "what they are") == "\n"
    assert table.markdown(empty).count("\n") == 2
