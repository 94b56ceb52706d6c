"""Progress for people: a bar with rate and time left in a terminal, nothing elsewhere."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

Report = Callable[[int, dict[str, np.ndarray]], None]


class _Rate(ProgressColumn):
    """Updates per second."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:.1f}/s" if task.speed else "", style="dim")


@contextmanager
def training_bar(total: int, console: Console, title: str = "training") -> Iterator[Report]:
    """`report(update, metrics)` moves the bar and shows the losses, means over seeds."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[losses]}", style="dim"),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task(f"{title}: compiling", total=total, losses="")

        def report(update: int, metrics: dict[str, np.ndarray]) -> None:
            losses = " ".join(
                f"{name.removesuffix('_loss')} {values.mean():.3f}"
                for name, values in metrics.items()
                if name.endswith("_loss")
            )
            progress.update(task, completed=update, description=title, losses=losses)

        yield report
