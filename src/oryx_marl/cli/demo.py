"""The command `oryx demo`."""

from dataclasses import dataclass
from pathlib import Path

from oryx_marl import api, recipes
from oryx_marl.algorithms import oryx
from oryx_marl.cli.console import console, errors
from oryx_marl.cli.train import show
from oryx_marl.errors import StoppedError
from oryx_marl.experiment import Experiment
from oryx_marl.runs.documents import Summary
from oryx_marl.runs.folder import Run
from oryx_marl.training.loop import TrainSettings


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
    """Folder for the run; a finished demo is kept and the new one gets a number, an unfinished one
    is continued."""

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
        out = self.out
        number = 1
        while Run(out).has(Summary):
            number += 1
            out = self.out.with_name(f"{self.out.name}-{number}")
        config = oryx.Config(batch_size=32, learning_rate=1e-3)
        try:
            work = Experiment("oryx", config, dataset, out, self._settings())
            show(api.run_experiment(work, True, errors))
        except StoppedError:
            raise StoppedError("stopped", "the same command continues it") from None
