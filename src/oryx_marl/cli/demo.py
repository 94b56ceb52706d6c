"""The command `oryx demo`."""

import re
from dataclasses import dataclass, replace
from pathlib import Path

from oryx_marl import api, experiment, recipes
from oryx_marl.algorithms import oryx
from oryx_marl.algorithms._making import make_algorithm
from oryx_marl.algorithms.base import Algorithm
from oryx_marl.cli.console import console, errors, say
from oryx_marl.cli.train import show
from oryx_marl.errors import OryxError, StoppedError
from oryx_marl.experiment import Experiment, Named
from oryx_marl.runs.documents import RunConfig, Summary
from oryx_marl.runs.folder import Run
from oryx_marl.training.loop import TrainSettings

FIRST = re.compile(r"-\d+$")
"""The number behind the name of a folder."""


@dataclass(frozen=True)
class Demo:
    """Oryx learns to coordinate two agents from logs alone, in minutes on two CPU cores."""

    data: str = "tmaze/planner-expert"
    """Dataset to learn from; made first if that takes only seconds, as for tmaze/expert."""
    updates: int = 1_500
    """Gradient updates per seed."""
    seeds: int = 3
    """Independent repetitions."""
    out: Path = Path("runs/demo")
    """Folder for the run; an unfinished demo with the same settings is continued, all others are
    kept and the new one gets a number."""

    def __post_init__(self) -> None:
        self._settings()  # refuses bad values before any work

    def _settings(self) -> TrainSettings:
        every = max(self.updates // 10, 1)
        return TrainSettings(
            updates=self.updates,
            seeds=self.seeds,
            log_every=every,
            evaluate_every=every,
            checkpoint_every=every,
        )

    def run(self) -> None:
        if recipes.is_made_quickly(self.data):
            console.print(f"making {self.data} first")
            recipes.make(self.data, tell=console.print)
        dataset = recipes.open(self.data)
        solved = dataset.episode_returns.mean()
        console.print(
            f"Learning from {dataset.num_rows:,} logged steps of '{dataset.name}' "
            f"({dataset.num_episodes:,} episodes, mean return {solved:.2f}); no simulator is used "
            "to learn, only to score."
        )
        config = oryx.Config(batch_size=32, learning_rate=1e-3)
        work = Experiment(
            "oryx", config, dataset, self.out, self._settings(), named=Named(self.data)
        )
        try:
            show(api.run_experiment(choose_folder(work), True, errors))
        except StoppedError as stop:
            raise StoppedError(stop.what, "the same command continues it") from None


def choose_folder(work: Experiment) -> Experiment:
    """The experiment in its folder, or in one with a number where another one is in the way."""
    algorithm = make_algorithm(work.algorithm, work.config, work.learn_from.spec)
    number = 1
    while (why := _find_obstacle(work, algorithm)) is not None:
        number += 1
        out = work.out.with_name(f"{FIRST.sub('', work.out.name)}-{number}")
        say(f"{work.out} {why} and is kept; this one is in {out}")
        work = replace(work, out=out)
    return work


def _find_obstacle(work: Experiment, algorithm: Algorithm) -> str | None:
    """Why the folder cannot be used, or None if it is free or holds the beginning of the same."""
    run = Run(work.out)
    if run.has(Summary):
        return "holds a finished run"
    if not run.has(RunConfig):
        return None
    try:
        before = run.read(RunConfig)
    except OryxError as error:
        return f"cannot be continued ({error})"
    differing = run.compare(experiment.describe(work, algorithm))
    if before.updates != work.train.updates:
        differing.append(f"updates {before.updates:,}, not {work.train.updates:,}")
    return f"holds an unfinished run with {', '.join(differing)}," if differing else None
