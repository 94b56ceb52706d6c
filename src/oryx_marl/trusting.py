"""Off-policy evaluation of runs by their folders: their data are found, their pages written."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Literal

from rich.console import Console

from oryx_marl import recipes, resuming
from oryx_marl.data import view as views
from oryx_marl.data.dataset import Dataset
from oryx_marl.data.quality import screen
from oryx_marl.data.view import View
from oryx_marl.errors import OryxError
from oryx_marl.ope.document import Trust
from oryx_marl.ope.run import Evaluator
from oryx_marl.ope.settings import OpeSettings
from oryx_marl.parallel import compilation
from oryx_marl.progress import Stages, stages_bar
from oryx_marl.report import page, trust_page
from oryx_marl.resuming import Begun
from oryx_marl.runs.folder import Run
from oryx_marl.training import streamed


def trust_all(
    runs: Sequence[Path],
    data: Dataset | str | Path | None,
    act: str | float | None,
    which: Literal["last", "best"],
    settings: OpeSettings,
    console: Console,
) -> list[Trust]:
    """What the policies of some runs are worth; those of one dataset share its clones."""
    compilation.use_cache()
    for folder in runs:
        Run(folder).require()
    begun = [resuming.read(each) for each in runs]
    evaluators: dict[tuple[str, bool], Evaluator] = {}
    watch: AbstractContextManager[Stages]
    watch = nullcontext(_ignore) if console.quiet else stages_bar(console)
    found = []
    with watch as report:
        for each in begun:
            dataset = _open_logs(each, data)
            key = dataset.fingerprint(), each.drop_invalid
            if key not in evaluators:
                clean = _clean(dataset, each.drop_invalid)
                evaluators[key] = Evaluator(clean, settings, report, key[0])
            found.append(evaluators[key].evaluate(each.run, act, which))
            trust_page.write(each.run.folder)
            if (each.run.folder / page.FILE).is_file():
                page.write(each.run.folder)  # it shows the estimate too
    return found


def place(found: Trust) -> tuple[bool, float]:
    """By which runs are ranked: the lower end of the interval; policies of which nothing can be
    told come last."""
    told = found.value.value if found.value.low is None else found.value.low
    return found.verdict.kind == "unknown", float("inf") if told is None else -told


def tell_stages(console: Console) -> Stages:
    """A line for each piece of work that follows a training, whose bar is still on the screen."""
    told: set[str] = set()

    def report(what: str, done: int, of: int) -> None:
        if what not in told and not console.quiet:
            told.add(what)
            line = f"what is it worth, without a simulator: {what}"
            console.print(line, highlight=False, markup=False, soft_wrap=True)

    return report


def _ignore(what: str, done: int, of: int) -> None:
    return None


def _clean(dataset: Dataset, drop_invalid: bool) -> Dataset:
    """As the run has seen it."""
    if drop_invalid:
        return screen.drop_invalid(dataset)
    screen.require_clean(dataset)
    return dataset


def _open_logs(begun: Begun, data: Dataset | str | Path | None) -> Dataset:
    """The logs that a run is evaluated on."""
    if begun.config.online and data is None:
        raise OryxError(
            f"{begun.run.folder} has learned in an environment, not from logs; name logs to "
            "evaluate it on (--data in the command line, data= in Python)"
        )
    if isinstance(data, str | Path):
        return recipes.open(data)
    found = resuming.open_data(begun, data)
    if not isinstance(found, View):
        raise OryxError(f"{found.name} is an environment; off-policy evaluation needs logs")
    if not isinstance(found, Dataset) and streamed.is_too_large(found):
        raise OryxError(
            f"'{found.name}' is too large for memory, and off-policy evaluation reads it whole; "
            "make a smaller one (`oryx data subsample`) and name it: --data, data= in Python"
        )
    return views.load(found)
