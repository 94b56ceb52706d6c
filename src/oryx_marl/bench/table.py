"""A table of scores, tasks down and algorithms across, and its renderings."""

import io
import math
from collections.abc import Iterable, Sequence
from csv import writer
from typing import NamedTuple

from oryx_marl.errors import OryxError


class Cell(NamedTuple):
    """A mean with its spread over seeds, and how it compares with the rest of its row."""

    mean: float
    std: float | None = None
    best: bool = False
    star: bool = False
    """Not significantly worse than the best."""
    decimals: int = 2
    aside: bool = False
    """Shown in parentheses and not compared: not the algorithm's own way of acting."""

    @property
    def mean_text(self) -> str:
        """The mean as it is printed."""
        return f"{self.mean:.{self.decimals}f}"

    @property
    def text(self) -> str:
        """`mean ± std`, or the mean alone where the spread is unknown."""
        has_spread = self.std is not None and not math.isnan(self.std)
        text = f"{self.mean_text} ± {self.std:.{self.decimals}f}" if has_spread else self.mean_text
        return f"({text})" if self.aside else text


class Entry(NamedTuple):
    """Where a cell stands: the labels of its row, and its column."""

    row: tuple[str, ...]
    column: str
    cell: Cell


class Row(NamedTuple):
    """Labels, and one cell per column; None where there is no score."""

    labels: list[str]
    cells: list[Cell | None]


class Table(NamedTuple):
    """Names of the labels, names of the columns, and the rows."""

    labels: list[str]
    columns: list[str]
    rows: list[Row]

    @property
    def header(self) -> list[str]:
        return self.labels + self.columns


def arrange(labels: Sequence[str], entries: Iterable[Entry]) -> Table:
    """Rows and columns in the order they come in; labels that are empty throughout are left out."""
    found: dict[tuple[str, ...], dict[str, Cell]] = {}
    for row, column, cell in entries:
        if column in found.setdefault(row, {}):
            raise OryxError(f"two scores of {column} on {' '.join(filter(None, row))}")
        found[row][column] = cell
    columns = list(dict.fromkeys(column for cells in found.values() for column in cells))
    kept = [index for index in range(len(labels)) if any(row[index] for row in found)]
    rows = [
        Row([row[index] for index in kept], [cells.get(column) for column in columns])
        for row, cells in found.items()
    ]
    return Table([labels[index] for index in kept], columns, rows)


def choose_columns(table: Table, columns: Sequence[str]) -> Table:
    """The columns that are there, in this order."""
    chosen = [column for column in columns if column in table.columns]
    places = [table.columns.index(column) for column in chosen]
    rows = [Row(row.labels, [row.cells[place] for place in places]) for row in table.rows]
    return Table(table.labels, chosen, rows)


def markdown(table: Table) -> str:
    """The best in bold, a star for what is not significantly worse."""
    rules = ["---"] * len(table.labels) + ["---:"] * len(table.columns)
    lines = [[_escape(name) for name in table.header], rules]
    for labels, cells in table.rows:
        lines.append(
            [_escape(label) for label in labels] + [_markdown_cell(cell) for cell in cells]
        )
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def csv(table: Table) -> str:
    """Three columns per algorithm, unrounded: mean, std, and `best` or `star`."""
    text = io.StringIO()
    rows = writer(text, lineterminator="\n")
    parts = [f"{column} {part}" for column in table.columns for part in ("mean", "std", "mark")]
    rows.writerow(table.labels + parts)
    for labels, cells in table.rows:
        rows.writerow(labels + [value for cell in cells for value in _csv_cell(cell)])
    return text.getvalue()


def plain(table: Table, legend: str, always: bool = False) -> str:
    """Aligned for a terminal: the best in brackets, a star for what is not significantly worse.

    The legend, which says what these are, stands below where there are any, or spreads, or always.
    """
    # A cell's text stands between two places for its marks, so that numbers stay in line.
    lines = [table.labels + [f" {column} " for column in table.columns]]
    lines += [labels + [_plain_cell(cell) for cell in cells] for labels, cells in table.rows]
    widths = [max(len(value) for value in column) for column in zip(*lines, strict=True)]
    num_labels = len(table.labels)
    padded = [
        [
            value.ljust(width) if index < num_labels else value.rjust(width)
            for index, (value, width) in enumerate(zip(line, widths, strict=True))
        ]
        for line in lines
    ]
    text = "".join("  ".join(line).rstrip() + "\n" for line in padded)
    cells = [cell for row in table.rows for cell in row.cells if cell is not None]
    is_marked = any(cell.best or cell.star or cell.text != cell.mean_text for cell in cells)
    return f"{text}\n{legend}\n" if is_marked or always else text


def _escape(text: str) -> str:
    return text.replace("|", r"\|")


def _markdown_cell(cell: Cell | None) -> str:
    if cell is None:
        return ""
    text = f"**{cell.text}**" if cell.best else cell.text
    return text + (r"\*" if cell.star else "")


def _csv_cell(cell: Cell | None) -> list[float | str | None]:
    if cell is None:
        return ["", "", ""]
    known = cell.std is not None and not math.isnan(cell.std)
    mark = "best" if cell.best else "star" if cell.star else ""
    return [cell.mean, cell.std if known else "", mark]


def _plain_cell(cell: Cell | None) -> str:
    if cell is None:
        return ""
    before, after = ("[", "]") if cell.best else (" ", "*" if cell.star else " ")
    return before + cell.text + after
