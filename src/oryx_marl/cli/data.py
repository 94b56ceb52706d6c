"""The command `oryx data list`."""

from dataclasses import dataclass

from rich.table import Table

from oryx_marl import recipes
from oryx_marl.cli.console import console, print_json


@dataclass(frozen=True)
class DataList:
    """Datasets that can be opened or made by name."""

    json: bool = False
    """Print JSON."""
    remote: bool = False
    """Those of the Hugging Face hub instead, see `oryx data download`."""

    def run(self) -> None:
        if self.remote:
            from oryx_marl.cli.hub import list_remote

            list_remote(self.json)
            return
        entries = recipes.names()
        if self.json:
            print_json([entry._asdict() for entry in entries])
            return
        table = Table("name", "where", "what")
        for entry in entries:
            table.add_row(entry.name, entry.where, entry.description)
        console.print(table)
