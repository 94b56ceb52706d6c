"""The commands `oryx train ...`: one per algorithm, with its settings as flags."""

import dataclasses
import typing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import tyro
from rich.table import Table

from oryx_marl import api, experiment, recipes, registry, resuming
from oryx_marl import config as configs
from oryx_marl.algorithms import oryx
from oryx_marl.algorithms._making import make_algorithm
from oryx_marl.api import TrainedRun
from oryx_marl.bench import settings
from oryx_marl.cli import trust
from oryx_marl.cli.console import DatasetName, console, default_is, errors, say
from oryx_marl.cli.scores import interval, make_table
from oryx_marl.data.quality import screen as check
from oryx_marl.data.view import View
from oryx_marl.envs import base
from oryx_marl.envs.adapters.accept import as_env
from oryx_marl.envs.base import Env, HostEnv
from oryx_marl.errors import OryxError
from oryx_marl.experiment import EvaluationSettings, Experiment, Named
from oryx_marl.report import glossary
from oryx_marl.resuming import Begun
from oryx_marl.runs.documents import Summary
from oryx_marl.runs.held_out import HeldOut
from oryx_marl.training.loop import TrainSettings
from oryx_marl.training.online import OnlineSettings

ROOM = "algorithms"
NOTHING = Named()
LogTo = tuple[typing.Literal["tensorboard", "wandb", "csv"], ...]


def show(run: TrainedRun) -> None:
    """What a run has found out, its page and, as the last line, the result."""
    if run.held_out is not None:
        _show_held_out(run.held_out, is_all=run.trust is None)
    if run.trust is not None:
        trust.show(run.trust)
    if run.summary is not None:
        _show_scores(run.summary)
    if run.page is not None:
        console.print(f"page: {run.page}", soft_wrap=True)
    if run.summary is None:
        console.print(f"trained; there is no environment to score in. Run: {run.folder}")
        if run.trust is None:
            say(f"what it is worth by the logs alone: oryx trust {run.folder}")
        else:
            say(run.trust.verdict.text)
        return
    say(f"{run.summary.metric} {interval(run.score)}")


def _show_scores(summary: Summary) -> None:
    """The scores by weights and way of acting, and what the environment reports besides."""
    console.print(make_table(("weights", "acting"), summary.scores, summary.metric))


def _show_held_out(found: HeldOut, is_all: bool) -> None:
    """How well the actions of episodes that were held out are predicted: a diagnosis, which is
    judged only where it `is_all` that is known."""
    heads = ("", "policy [95% over seeds]", "marginal-action baseline")
    table = Table(*heads, title=f"likeness to the logs, not quality: {found.counted}")
    scores = {
        "log_likelihood": found.log_likelihood,
        "action_accuracy": found.action_accuracy,
    }
    for name, score in scores.items():
        told = "none: it is not drawn" if score is None else interval(score, decimals=3)
        table.add_row(glossary.name(name), told, f"{found.baseline[name]:.3f}")
    console.print(table)
    if found.verdict is not None and is_all:
        say(found.verdict)


@dataclass(frozen=True)
class _Train:
    """What every `train` command does; the algorithm's Config is added for each below."""

    algorithm: typing.ClassVar[str]
    begun: typing.ClassVar[Begun | None] = None
    """The run that is continued, if one is."""

    def _name_folder(self, task: str) -> Path:
        return Path("runs") / f"{self.algorithm}-{task.replace('/', '-')}"

    def _train(
        self,
        learn_from: View | Env | HostEnv,
        train: TrainSettings,
        config: Any,
        env: Env | HostEnv | None = None,
        named: Named = NOTHING,
    ) -> None:
        given: Any = self
        out = given.out or self._name_folder(learn_from.name)
        if given.resume and self.begun is None:
            resuming.read(out)  # says why it cannot be continued
        work = Experiment(
            self.algorithm,
            config,
            learn_from,
            out,
            train,
            given.evaluation,
            getattr(given, "drop_invalid", False),
            env,
            named,
            given.log,
        )
        show(api.run_experiment(work, given.resume, errors))


@dataclass(frozen=True)
class _TrainOffline(_Train):
    """Fields of the algorithms that learn from a dataset."""

    dataset: DatasetName
    """Name (see `oryx data list`) or folder of a dataset."""
    train: TrainSettings = field(default_factory=TrainSettings)
    """How long to train, and how often to log, evaluate and save."""
    evaluation: EvaluationSettings = field(default_factory=EvaluationSettings)
    out: typing.Annotated[Path | None, default_is("runs/<algorithm>-<dataset>")] = None
    """Folder for the run."""
    resume: bool = False
    """Continue a run that was stopped or killed, exactly as if it had not been
    interrupted."""
    drop_invalid: bool = False
    """Train on data with invalid rows all the same, without those rows."""
    stream: bool = False
    """Leave the data on disk and copy windows as they are needed. Data that are too large for
    memory stay there anyway; the result is the same."""
    env: typing.Annotated[str | None, default_is("that of the data")] = None
    """Environment to score in: a name, or package.module:make."""
    log: LogTo = ()
    """Pass metrics and scores on as they are written, to one or several: TensorBoard, W&B, CSV."""

    def find_out(self) -> Path:
        """The run's folder."""
        return self.out or self._name_folder(recipes.view(self.dataset).name)

    def run(self) -> None:
        dataset = recipes.open_for_training(self.dataset, self.stream)
        named = Named(self.dataset, self.env)
        env: Env | HostEnv | None
        if self.begun is None:
            env = None if self.env is None else as_env(self.env, fits=dataset.spec)
        else:
            env = resuming.find_env(self.begun, self.env)
            resuming.keep_hold_out(self.begun, self.evaluation)  # refuses another share
            named = replace(named, env=self.env or self.begun.named.env)
        if self.drop_invalid:
            errors.print(f"{check.count_left_out(dataset)}", highlight=False, soft_wrap=True)
        self._train(dataset, self.train, self._choose(dataset), env, named)

    def _choose(self, dataset: View) -> Any:
        """The Config to train with."""
        return self.config  # type: ignore[attr-defined]


@dataclass(frozen=True)
class _TrainOryx(_TrainOffline):
    """Oryx can also be trained with the settings of its paper."""

    preset: typing.Literal["default", "paper"] = "default"
    """Settings to begin with: ours, or those of Oryx's paper for this kind of data."""

    def __post_init__(self) -> None:
        default = oryx.Config() if self.begun is None else self.begun.settings
        given, ours = configs.to_dict(self.config), configs.to_dict(default)  # type: ignore[attr-defined]
        single = [f"{name} {value}" for name, value in given.items() if value != ours[name]]
        if self.preset == "paper" and single:
            raise OryxError(
                "give either --preset paper or single settings, not both; given were "
                + ", ".join(single)
            )

    def _choose(self, dataset: View) -> Any:
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
    """How long to train, and how often to log, evaluate and save."""
    evaluation: EvaluationSettings = field(default_factory=EvaluationSettings)
    out: typing.Annotated[Path | None, default_is("runs/<algorithm>-<environment>")] = None
    """Folder for the run."""
    resume: bool = False
    """Continue a run that was stopped or killed, exactly as if it had not been
    interrupted."""
    log: LogTo = ()
    """Pass metrics and scores on as they are written, to one or several: TensorBoard, W&B, CSV."""

    def __post_init__(self) -> None:
        base.find(self.env)  # refuses an unknown name before any work

    def find_out(self) -> Path:
        """The run's folder."""
        return self.out or self._name_folder(base.make_named(self.env).name)

    def run(self) -> None:
        env = base.make_named(self.env)
        config = self.config  # type: ignore[attr-defined]
        algorithm = make_algorithm(self.algorithm, config, env.spec)
        per_update = algorithm.batch_size * algorithm.sequence_length
        env = base.resize(env, self.env, algorithm.batch_size)
        self._train(env, self.train.in_updates(per_update), config)


def make_command(name: str, begun: Begun | None = None) -> type:
    """The command of one algorithm, with its Config's fields as flags; `begun` is continued."""
    module, special = registry.load(ROOM, name), {"oryx": _TrainOryx}
    title = (module.__doc__ or name).split(":")[0]
    online = experiment.is_online(name)
    where = "in an environment" if online else "on a dataset"
    kind: Any = module.Config
    settings_type = typing.Annotated[kind, tyro.conf.arg(name="algorithm")]
    return dataclasses.make_dataclass(
        f"Train{name.title()}",
        [("config", settings_type, field(default_factory=module.Config))],
        bases=(_TrainOnline if online else special.get(name, _TrainOffline),),
        namespace={"algorithm": name, "begun": begun, "__doc__": f"Train {title} {where}."},
        frozen=True,
    )


def continue_command(name: str, begun: Begun) -> Any:
    """The command that continues a run with its own settings."""
    before = begun.config
    if before.algorithm != name:
        raise OryxError(
            f"{begun.run.folder} was begun with the algorithm {before.algorithm}, not {name}; "
            f"continue it with `oryx train --resume {begun.run.folder}`"
        )
    values = values_of(begun) | {"out": begun.run.folder, "resume": True}
    return make_command(name, begun)(**values)


def values_of(begun: Begun) -> dict[str, Any]:
    """What the command that began a run was asked for, but for its folder."""
    values: dict[str, Any] = {
        "config": begun.settings,
        "train": begun.schedule,
        "evaluation": begun.evaluation,
        "log": begun.log,
    }
    if begun.config.online:
        return {**values, "env": begun.config.dataset}
    return {
        **values,
        "dataset": begun.named.data or begun.config.dataset,
        "drop_invalid": begun.drop_invalid,
        "stream": begun.is_streamed,
    }
