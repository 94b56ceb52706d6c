"""The command line: `oryx demo | train | eval | data | bench | report`."""

import dataclasses
import json
import os
import sys
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import tyro
from rich.console import Console
from rich.table import Table
from rich.text import Text
from tyro.extras import SubcommandApp

import oryx_marl
from oryx_marl import config as configs
from oryx_marl import experiment, registry
from oryx_marl.algorithms import oryx
from oryx_marl.bench import settings
from oryx_marl.cli import bench as cli_bench
from oryx_marl.cli import data as cli_data
from oryx_marl.cli.data import DatasetName
from oryx_marl.data import catalog
from oryx_marl.data.dataset import Dataset
from oryx_marl.data.quality import screen as check
from oryx_marl.envs import base
from oryx_marl.envs.base import Env
from oryx_marl.errors import OryxError
from oryx_marl.eval import metrics
from oryx_marl.eval.evaluator import Evaluator
from oryx_marl.experiment import EvaluationSettings, Experiment
from oryx_marl.progress import training_bar
from oryx_marl.report import page
from oryx_marl.train.loop import StoppedError, TrainSettings
from oryx_marl.train.online import OnlineSettings

console = Console()
errors = Console(stderr=True)

FLAGS = (tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes)
"""Flags are called as the settings are, without the name of the group they belong to."""

INTERRUPTED = (
    "stopped; what was saved is kept: go on with the same command, `train` and `data make` with "
    "--resume"
)

RunFolder: TypeAlias = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]


def _train(work: Experiment, resume: bool) -> dict[str, Any]:
    with training_bar(work.train.updates, errors) as report:
        return experiment.run(work, resume, report)


def _interval(scores: dict[str, Any]) -> str:
    if scores["low"] is None:
        return f"{scores['mean']:.2f} (one seed: no interval)"
    return f"{scores['mean']:.2f} [{scores['low']:.2f}, {scores['high']:.2f}]"


def _show(summary: dict[str, Any], out: Path) -> None:
    """The scores, the page and, as the last line, the result."""
    metric = summary["metric"]
    table = Table("weights", "acting", f"{metric} \\[95% over seeds]", "per seed")
    for which in ("last", "best"):
        for acting in ("sampled", "greedy"):
            scores = summary[which][acting]
            per_seed = " ".join(f"{value:.2f}" for value in scores["per_seed"])
            table.add_row(which, acting, Text(_interval(scores)), per_seed)
    console.print(table)
    console.print(f"page: {page.write(out)}", soft_wrap=True)
    result = _interval(summary["last"]["sampled"])
    console.print(f"{metric} {result}", markup=False, highlight=False)


def _show_held_out(found: dict[str, Any]) -> None:
    """How well the actions of episodes that were held out are foretold."""
    seen = f"{found['episodes']:,} episodes ({found['steps']:,} steps) held out"
    table = Table("", "policy \\[95% over seeds]", "by frequency alone", title=seen)
    for name in ("log_likelihood", "agreement"):
        score = "none: it is not drawn" if found[name] is None else _interval(found[name])
        guess = f"{found['guess'][name]:.3f}"
        table.add_row(f"{name.replace('_', ' ')} of an action", Text(score), guess)
    console.print(table)
    if found["agreement"]["mean"] <= found["guess"]["agreement"]:
        console.print("no better than frequency alone: train longer before you use this policy")


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
        if catalog.is_made_quickly(self.data):
            console.print(f"making {self.data} first")
            catalog.make(self.data, tell=console.print)
        dataset = catalog.open(self.data)
        solved = dataset.episode_returns.mean()
        console.print(
            f"Learning from {dataset.num_rows:,} logged steps of '{dataset.name}' "
            f"({dataset.num_episodes:,} episodes, mean return {solved:.2f}); no simulator is used "
            "to learn, only to score."
        )
        out = self.out
        number = 1
        while (out / "summary.json").exists():
            number += 1
            out = self.out.with_name(f"{self.out.name}-{number}")
        config = oryx.Config(batch_size=32, learning_rate=1e-3)
        try:
            summary = _train(Experiment("oryx", config, dataset, out, self._settings()), True)
        except StoppedError:
            raise StoppedError("stopped", "the same command continues it") from None
        _show(summary, out)


@dataclass(frozen=True)
class _Train:
    """What every `train` command does; the algorithm's Config is added for each below."""

    algorithm: typing.ClassVar[str]

    def _train(self, learn_from: Dataset | Env, train: TrainSettings, config: Any) -> None:
        given: Any = self
        task = Experiment(self.algorithm, config, learn_from, Path()).task
        out = given.out or Path("runs") / f"{self.algorithm}-{task.replace('/', '-')}"
        work = Experiment(
            self.algorithm,
            config,
            learn_from,
            out,
            train,
            given.evaluation,
            getattr(given, "leave_out_bad_rows", False),
        )
        if given.resume and not out.exists():
            raise OryxError(f"there is no run at {out} to resume; leave out --resume to begin one")
        summary = _train(work, given.resume)
        if found := summary.pop("held_out", None):
            _show_held_out(found)
        if not summary:
            if found:
                console.print(f"page: {page.write(out)}", soft_wrap=True)
            console.print(f"trained; there is no environment to score in. Run: {out}")
            return
        _show(summary, out)


@dataclass(frozen=True)
class _TrainOffline(_Train):
    """Fields of the algorithms that learn from a dataset."""

    dataset: DatasetName
    """Name (see `oryx data list`) or folder of a dataset."""
    train: TrainSettings = field(default_factory=TrainSettings)
    evaluation: EvaluationSettings = field(default_factory=EvaluationSettings)
    out: Path | None = None
    """Folder for the run (default: runs/<algorithm>-<dataset>)."""
    resume: bool = False
    """Continue a run that was stopped or killed, as if it had not been."""
    leave_out_bad_rows: bool = False
    """Train on faulty data all the same, without the rows that would poison it."""

    def run(self) -> None:
        dataset = catalog.open(self.dataset)
        if self.leave_out_bad_rows:
            errors.print(f"{check.count_left_out(dataset)}", highlight=False, soft_wrap=True)
        self._train(dataset, self.train, self._choose(dataset))

    def _choose(self, dataset: Dataset) -> Any:
        """The Config to train with."""
        return self.config  # type: ignore[attr-defined]


@dataclass(frozen=True)
class _TrainOryx(_TrainOffline):
    """Oryx can also be trained with the settings of its paper."""

    preset: typing.Literal["default", "paper"] = "default"
    """Settings to begin with: ours, or those of Oryx's paper for this kind of data."""

    def __post_init__(self) -> None:
        given, ours = configs.to_dict(self.config), configs.to_dict(oryx.Config())  # type: ignore[attr-defined]
        single = [f"{name} {value}" for name, value in given.items() if value != ours[name]]
        if self.preset == "paper" and single:
            raise OryxError(
                "give either --preset paper or single settings, not both; given were "
                + ", ".join(single)
            )

    def _choose(self, dataset: Dataset) -> Any:
        if self.preset == "default":
            return super()._choose(dataset)
        quality = dataset.name.split("/")[-1]
        found = settings.paper(dataset.spec.environment, quality)
        return configs.from_dict(oryx.Config, found)


@dataclass(frozen=True)
class _TrainOnline(_Train):
    """Fields of the algorithms that learn in an environment."""

    env: str
    """Name of the environment, such as tmaze, con-15x15x23a or smacv2_10_units."""
    train: OnlineSettings = field(default_factory=OnlineSettings)
    evaluation: EvaluationSettings = field(default_factory=EvaluationSettings)
    out: Path | None = None
    """Folder for the run (default: runs/<algorithm>-<environment>)."""
    resume: bool = False
    """Continue a run that was stopped or killed, as if it had not been."""

    def __post_init__(self) -> None:
        base.find(self.env)  # refuses an unknown name before any work

    def run(self) -> None:
        env = base.make_named(self.env)
        config = self.config  # type: ignore[attr-defined]
        algorithm = experiment.make_algorithm(self.algorithm, config, env.spec)
        per_update = algorithm.batch_size * algorithm.sequence_length
        self._train(env, self.train.in_updates(per_update), config)


def _train_commands() -> dict[str, type]:
    """One `train` command per algorithm found, with its Config's fields as flags."""
    commands = {}
    special = {"oryx": _TrainOryx}
    for name in registry.names("algorithms"):
        module = registry.load("algorithms", name)
        title = (module.__doc__ or name).split(":")[0]
        online = experiment.is_online(name)
        where = "in an environment" if online else "on a dataset"
        commands[name] = dataclasses.make_dataclass(
            f"Train{name.title()}",
            [("config", module.Config, field(default_factory=module.Config))],
            bases=(_TrainOnline if online else special.get(name, _TrainOffline),),
            namespace={"algorithm": name, "__doc__": f"Train {title} {where}."},
            frozen=True,
        )
    return commands


@dataclass(frozen=True)
class Eval:
    """Score a run's newest weights on fresh episodes."""

    run_folder: RunFolder
    """Folder of the run."""
    episodes: int = 320
    """Episodes per seed."""
    greedy: bool = False
    """Always take the likeliest action, instead of sampling."""
    stream: int = 0
    """Another number gives other episodes."""
    json: bool = False
    """Print JSON."""

    def __post_init__(self) -> None:
        if self.episodes < 1:
            raise OryxError(f"episodes must be at least 1, got {self.episodes}")
        if self.stream < 0:
            raise OryxError(f"stream must not be negative, got {self.stream}")

    def run(self) -> None:
        loaded = experiment.load(self.run_folder)
        env = base.make(loaded.spec)
        evaluator = Evaluator(loaded.algorithm, env, loaded.config["seeds"])
        stream = experiment.STREAMS["replay"] + 1 + self.stream
        network = loaded.algorithm.weights(loaded.state.learners)
        returns = evaluator.returns(network, stream, self.episodes, self.greedy)
        scores = {
            "metric": env.return_name,
            "update": loaded.update,
            "episodes": self.episodes,
            "greedy": self.greedy,
            **metrics.summarise(returns, env.return_name),
        }
        if self.json:
            print(json.dumps(scores))  # noqa: T201
        else:
            acting = "greedy" if self.greedy else "sampled"
            console.print(
                f"update {loaded.update:,}, {len(returns)} seeds x {self.episodes} {acting} "
                f"episodes: {env.return_name} {_interval(scores)}",
                markup=False,
                soft_wrap=True,
            )


@dataclass(frozen=True)
class Report:
    """Write a run's page: curves, scores and a replay in one self-contained file."""

    run_folder: RunFolder
    """Folder of the run."""

    def run(self) -> None:
        console.print(f"page: {page.write(self.run_folder)}")


def _app() -> SubcommandApp:
    """Every command by name; algorithms are found on disk."""
    train, data, bench, app = (SubcommandApp() for _ in range(4))
    for name, command in _train_commands().items():
        train.command(name=name)(command)
    for name, command in cli_data.COMMANDS.items():
        data.command(name=name)(command)
    app.command(name="demo")(Demo)
    app.command(train, name="train", help="Train an algorithm on a dataset.")
    app.command(name="eval")(Eval)
    app.command(data, name="data", help="List, describe, check, make and download datasets.")
    for name, command in cli_bench.commands().items():
        bench.command(name=name)(command)
    app.command(bench, name="bench", help="Run the paper's experiments; print published scores.")
    app.command(name="report")(Report)
    return app


def _hush(problem: Any) -> None:
    """Orbax leaves futures behind when a read or write fails; its error itself reaches us."""
    if "Event loop is closed" not in str(problem.exc_value):
        sys.__unraisablehook__(problem)


def main(arguments: list[str] | None = None) -> None:
    """Runs a command; errors for people end with one message and a non-zero exit code."""
    sys.unraisablehook = _hush
    if (sys.argv[1:] if arguments is None else arguments) == ["--version"]:
        print(oryx_marl.__version__)  # noqa: T201
        return
    code = 2  # what is refused while the command is read was asked for wrongly
    try:
        command = _app().cli(
            prog="oryx",
            description="Learn coordinated multi-agent policies from logged data.",
            args=arguments,
            config=FLAGS,
        )
        code = 1
        command.run()
    except StoppedError as stop:
        errors.print(str(stop), highlight=False)
        sys.exit(130)
    except KeyboardInterrupt:
        errors.print(INTERRUPTED, highlight=False, soft_wrap=True)
        _leave(130)
    except BrokenPipeError:  # who reads has read enough; nothing more is to be flushed
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (OryxError, OSError) as error:
        errors.print("error:", style="bold red", end=" ")
        errors.print(str(error), highlight=False, markup=False, soft_wrap=True)
        sys.exit(code)


def _leave(code: int) -> None:
    """Ends the process at once: torn down after an interrupted compilation, JAX crashes."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
