"""The commands `oryx data info` and `oryx data plot`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.table import Table

from oryx_marl import recipes
from oryx_marl.cli.console import console, default_is, print_json
from oryx_marl.data.explore import explore
from oryx_marl.data.quality.validate import validate
from oryx_marl.errors import OryxError
from oryx_marl.report import data_page, document

DRAWN = (
    "name",
    "histogram",
    "length_histogram",
    "density",
    "features",
    "action_counts",
    "action_names",
)
"""What is too long for a table."""


@dataclass(frozen=True)
class DataInfo:
    """Statistics of a dataset: returns, lengths, actions, coverage, ranges of features."""

    dataset: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="DATASET")]
    """Name or folder."""
    json: bool = False
    """Print JSON."""

    def run(self) -> None:
        found = explore(recipes.view(self.dataset))
        if self.json:
            print_json(found)
            return
        table = Table("statistic", "value", title=found["name"])
        for name, value in found.items():
            if name not in DRAWN and value is not None:
                table.add_row(name, _short(value))
        for name, value in _summarise(found).items():
            table.add_row(name, value)
        console.print(table)
        _draw("return", found["histogram"])
        _draw("length", found["length_histogram"])


@dataclass(frozen=True)
class DataPlot:
    """Write one page with pictures of datasets, side by side, and what is wrong with them."""

    datasets: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="DATASET...")]
    """Names or folders."""
    out: Annotated[Path | None, default_is("the first dataset's name with .html, here")] = None
    """File to write."""

    def __post_init__(self) -> None:
        if not self.datasets:
            raise OryxError("name at least one dataset, such as tmaze/planner-mixed")

    def run(self) -> None:
        parts = []
        for name in self.datasets:
            view = recipes.view(name)
            parts.append((explore(view), validate(view)))
        first = parts[0][0]["name"].replace("/", "-")
        page = document.write(data_page.render(parts), self.out or Path(f"{first}.html"))
        console.print(f"written to {page}", highlight=False, soft_wrap=True)


def _summarise(found: dict[str, Any]) -> dict[str, str]:
    """The long parts in one line each."""
    features = found["features"]
    lows = [low for low in features["low"] if low is not None]
    highs = [high for high in features["high"] if high is not None]
    told = {"features": f"from {min(lows):.4g} to {max(highs):.4g}" if lows else "none is finite"}
    constant = sum(low == high for low, high in zip(features["low"], features["high"], strict=True))
    if constant:
        told["features"] += f", {constant} of {len(features['low'])} constant"
    for agent, counts in zip(found["agents"], found["action_counts"] or (), strict=False):
        total = max(1, sum(counts))
        names = [f"{name} " for name in found["action_names"] or ()] or [""] * len(counts)
        shares = (f"{n}{c / total:.1%}" for n, c in zip(names, counts, strict=True))
        told[f"actions of {agent}"] = " ".join(shares)
    return told


def _draw(noun: str, histogram: dict[str, list]) -> None:
    """Bars for a terminal."""
    edges, counts = histogram["edges"], histogram["counts"]
    for low, high, count in zip(edges, edges[1:], counts, strict=False):
        bar = "█" * round(40 * count / max(max(counts), 1))
        console.print(f"{noun} {low:8.2f} to {high:8.2f}  {count:8,}  {bar}", highlight=False)


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_short(part)}" for name, part in value.items())
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, int):
        return f"{value:,}"
    return str(value)
