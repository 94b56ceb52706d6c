"""The command `oryx report`."""

from dataclasses import dataclass

from oryx_marl.cli.console import RunFolder, console
from oryx_marl.report import page


@dataclass(frozen=True)
class Report:
    """Write a run's page: curves, scores and a replay in one self-contained file."""

    run_folder: RunFolder
    """Folder of the run."""

    def run(self) -> None:
        console.print(f"page: {page.write(self.run_folder)}")
