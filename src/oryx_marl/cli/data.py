"""The commands `oryx data ...`."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeAlias

import tyro
from rich.console import Console
from rich.table import Table

from oryx_marl.bench import published
from oryx_marl.cli import sources as cli_sources
from oryx_marl.cli.check import DataCheck
from oryx_marl.cli.explore import DataInfo, DataPlot
from oryx_marl.cli.hub import DataDownload, list_remote
from oryx_marl.data import catalog, stats
from oryx_marl.data.dataset import Dataset
from oryx_marl.errors import OryxError
from oryx_marl.progress import training_bar

console = Console()
errors = Console(stderr=True)

DatasetName: TypeAlias = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="DATASET")]


@dataclass(frozen=True)
class DataList:
    """Datasets that can be opened or made by name."""

    json: bool = False
    """Print JSON."""
    remote: bool = False
    """Those of the Hugging Face hub instead, see `oryx data download`."""

    def run(self) -> None:
        if self.remote:
            list_remote(self.json)
            return
        entries = catalog.names()
        if self.json:
            print(json.dumps([entry._asdict() for entry in entries]))  # noqa: T201
            return
        table = Table("name", "where", "what")
        for entry in entries:
            table.add_row(entry.name, entry.where, entry.description)
        console.print(table)


@dataclass(frozen=True)
class DataMake:
    """Make a dataset by its recipe."""

    name: DatasetName
    """Name of the recipe, such as tmaze/planner-mixed."""
    rows: int | None = None
    """Logged steps (default: the recipe's)."""
    seed: int | None = None
    """Random seed (default: the recipe's)."""
    root: Path | None = None
    """Folder that holds datasets (default: $ORYX_DATA, or datasets/ here)."""
    resume: bool = False
    """Continue a recording that was stopped or killed, as if it had not been."""
    policy: Path | None = None
    """Run whose first seed acts, instead of the policy that comes with the package."""

    def __post_init__(self) -> None:
        if self.rows is not None and self.rows < 1:
            raise OryxError(f"rows must be at least 1, got {self.rows}")
        catalog.require_recipe(self.name)

    def run(self) -> None:
        made = catalog.make(
            self.name,
            self.root,
            self.rows,
            self.seed,
            resume=self.resume,
            policy=self.policy,
            tell=lambda message: console.print(message, highlight=False, soft_wrap=True),
            watch=lambda total: training_bar(total, errors),
        )
        console.print(f"made {made}", soft_wrap=True)
        DataInfo(str(made)).run()
        scenario, variant = self.name.split("/")
        facts = [each for each in published.datasets() if each.scenario == scenario]
        if variant == "replay" and facts:
            _print_beside(catalog.open(made), facts[0])


def _print_beside(made: Dataset, facts: published.DatasetFacts) -> None:
    """What the paper says of its own recording; its returns are those of the first agent."""
    returns = stats.first_agent_returns(made)
    table = Table("", "transitions", "first agent's mean return", "lowest", "highest")
    for name, transitions, *values in (
        ("this", made.num_rows, returns.mean(), returns.min(), returns.max()),
        ("paper", facts.transitions, facts.mean_return, facts.min_return, facts.max_return),
    ):
        table.add_row(name, f"{transitions:,}", *(f"{value:.2f}" for value in values))
    console.print(table)


COMMANDS = {
    "list": DataList,
    "info": DataInfo,
    "plot": DataPlot,
    "make": DataMake,
    "check": DataCheck,
    "download": DataDownload,
    **cli_sources.COMMANDS,
}
