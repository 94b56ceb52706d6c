"""Progress for people: a bar with rate and time left in a terminal, else a line now and then."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

Report = Callable[[int, dict[str, np.ndarray]], None]
SECONDS_BETWEEN_LINES = 10.0


class _Rate(ProgressColumn):
    """Updates per second."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:.1f}/s" if task.speed else "", style="dim")


@contextmanager
def training_bar(total: int, console: Console, title: str = "training") -> Iterator[Report]:
    """`report(update, metrics)` shows how far it is and the losses, means over seeds."""
    if not console.is_terminal:
        yield _lines(total, console, title)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[losses]}", style="dim", markup=False),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(f"{title}: compiling", total=total, losses="")

        def report(update: int, metrics: dict[str, np.ndarray]) -> None:
            losses = _losses(metrics)
            progress.update(task, completed=update, description=title, losses=losses)

        yield report


Stages = Callable[[str, int, int], None]


@contextmanager
def stages_bar(console: Console) -> Iterator[Stages]:
    """`report(what, done, of)` shows how far each of several pieces of work is."""
    if not console.is_terminal:
        printed = -SECONDS_BETWEEN_LINES

        def print_line(what: str, done: int, of: int) -> None:
            nonlocal printed
            if time.monotonic() - printed >= SECONDS_BETWEEN_LINES:
                printed = time.monotonic()
                line = f"{what}: {done} of {of}"
                console.print(line, highlight=False, markup=False, soft_wrap=True)

        yield print_line
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        tasks: dict[str, TaskID] = {}

        def report(what: str, done: int, of: int) -> None:
            if what not in tasks:
                tasks[what] = progress.add_task(what, total=of)
            progress.update(tasks[what], completed=done)

        yield report


@contextmanager
def counting(title: str, unit: str, console: Console) -> Iterator[Callable[[int], None]]:
    """`report(count)` shows how far it is where nobody knows how much there is."""
    if not console.is_terminal:
        printed = time.monotonic()

        def print_line(count: int) -> None:
            nonlocal printed
            if time.monotonic() - printed >= SECONDS_BETWEEN_LINES:
                printed = time.monotonic()
                line = f"{title}: {count:,} {unit}"
                console.print(line, highlight=False, markup=False, soft_wrap=True)

        yield print_line
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(f"{title}: looking through it", total=None)
        yield lambda count: progress.update(task, description=f"{title}: {count:,} {unit}")


def now_and_then(title: str, unit: str, console: Console) -> Callable[[int, int], None]:
    """`report(count, total)` prints a line now and then, above a bar if there is one."""
    printed = time.monotonic()

    def report(count: int, total: int) -> None:
        nonlocal printed
        if time.monotonic() - printed >= SECONDS_BETWEEN_LINES:
            printed = time.monotonic()
            line = f"{title}: {count:,} of {total:,} {unit}"
            console.print(line, highlight=False, markup=False, soft_wrap=True)

    return report


def _lines(total: int, console: Console, title: str) -> Report:
    """A report that prints a plain line at first, at the end, and now and then between."""
    printed = -SECONDS_BETWEEN_LINES

    def report(update: int, metrics: dict[str, np.ndarray]) -> None:
        nonlocal printed
        now = time.monotonic()
        if update == total or now - printed >= SECONDS_BETWEEN_LINES:
            printed = now
            line = f"{title}: {update:,} of {total:,} updates  {_losses(metrics)}"
            console.print(line.rstrip(), highlight=False, markup=False, soft_wrap=True)

    return report


def _losses(metrics: dict[str, np.ndarray]) -> str:
    """And the return, where one learns by acting."""
    shown = [name for name in metrics if name.endswith("_loss") or name == "return"]
    if not shown and "loss" in metrics:  # an algorithm with a single one
        shown = ["loss"]
    return " ".join(f"{name.removesuffix('_loss')} {metrics[name].mean():.3f}" for name in shown)
