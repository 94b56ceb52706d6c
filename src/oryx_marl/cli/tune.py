"""The command `oryx tune`."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from rich.table import Table

from oryx_marl import recipes, tuning
from oryx_marl.cli.console import DatasetName, console, default_is, errors, print_json, say
from oryx_marl.cli.trust import tell
from oryx_marl.errors import OryxError
from oryx_marl.ope.settings import OpeSettings
from oryx_marl.tuning import Candidate, Tuned


@dataclass(frozen=True)
class Tune:
    """Choose an algorithm and its temperature by logs alone, without a simulator."""

    dataset: DatasetName
    """Name (see `oryx data list`) or folder of a dataset."""
    algorithms: tuple[str, ...] = ("oryx", "bc")
    """Algorithms to try."""
    temperatures: tuple[float, ...] = (0.1, 1.0)
    """Policy temperatures of Oryx to try beside its own choice."""
    updates: int = 4_000
    """Gradient updates of each."""
    out: Annotated[Path | None, default_is("runs/tune-<dataset>")] = None
    """Folder for the runs; what is done there is not done again."""
    settings: OpeSettings = field(default_factory=OpeSettings)
    """How much work goes into each estimate."""
    json: bool = False
    """Print JSON."""

    def __post_init__(self) -> None:
        if self.updates < 1:
            raise OryxError(f"updates must be at least 1, got {self.updates}")

    def run(self) -> None:
        dataset = recipes.open(self.dataset)
        out = self.out or Path("runs") / f"tune-{dataset.name.replace('/', '-')}"
        grid = [Candidate(name) for name in self.algorithms]
        if "oryx" in self.algorithms:
            grid += [Candidate("oryx", each) for each in self.temperatures]
        found = tuning.tune(
            dataset, grid, out, updates=self.updates, settings=self.settings, console=errors
        )
        if self.json:
            print_json(found.to_json())
            return
        show(found)


def show(found: Tuned) -> None:
    """The grid, best first, and the choice as the last line."""
    table = Table("algorithm", "temperature", "return [95%]", "outside of the logs", "verdict")
    for candidate, _, trust in found.candidates:
        temperature = "its own" if candidate.temperature is None else f"{candidate.temperature:g}"
        outside = f"{trust.support.share:.1%}"
        row = (candidate.algorithm, temperature, tell(trust.value), outside, trust.verdict.text)
        table.add_row(*row)
    console.print(table)
    _, folder, best = found.candidates[0]
    say(f"the logs: {tell(best.logged)}")
    loss = f"{found.expected_loss:.3g}"
    say(f"chosen: {folder}; expected to lose {loss} of return against the best of these")
