"""Runs that are continued: their settings are read from their folders, and only from there.

Code is never imported because a run says so: environments and algorithms that are not part of the
package must be given again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from oryx_marl import config as configs
from oryx_marl import recipes, registry
from oryx_marl.algorithms._making import make_algorithm
from oryx_marl.data.view import View
from oryx_marl.envs import base
from oryx_marl.envs.adapters.accept import as_env
from oryx_marl.envs.base import Env, HostEnv
from oryx_marl.errors import OryxError, UnknownNameError
from oryx_marl.experiment import EvaluationSettings, Experiment, Named
from oryx_marl.runs.documents import RunConfig, SpecDocument
from oryx_marl.runs.folder import Run
from oryx_marl.training.loop import TrainSettings
from oryx_marl.training.online import OnlineSettings


@dataclass(frozen=True)
class Begun:
    """A run in its folder, with the settings that it was begun with."""

    run: Run
    config: RunConfig

    @cached_property
    def settings(self) -> Any:
        """The algorithm's Config."""
        try:
            kind = registry.load("algorithms", self.config.algorithm).Config
        except UnknownNameError as error:
            raise OryxError(f"{self.run.folder} needs more than the package: {error}") from error
        return configs.from_stored(kind, self.config.config)

    @cached_property
    def train(self) -> TrainSettings:
        """How long and how often."""
        seeds, own = self.config.seeds, {entry.name for entry in fields(TrainSettings)}
        rest = {name: value for name, value in self.config.rest.items() if name in own}
        counted = {"seeds": len(seeds), "first_seed": min(seeds), "updates": self.config.updates}
        return TrainSettings(**{**rest, **counted})

    @property
    def schedule(self) -> TrainSettings | OnlineSettings:
        """The same as the algorithm is told it: an online learner counts steps."""
        if not self.config.online:
            return self.train
        own = {entry.name for entry in fields(OnlineSettings)}
        values = {name: value for name, value in vars(self.train).items() if name in own}
        return OnlineSettings(steps=self.config.updates * self.config.steps_per_update, **values)

    @cached_property
    def evaluation(self) -> EvaluationSettings:
        """How the weights are scored."""
        return configs.from_dict(EvaluationSettings, self.config.rest.get("evaluation", {}))

    @property
    def drop_invalid(self) -> bool:
        return bool(self.config.rest.get("drop_invalid", False))

    @property
    def is_streamed(self) -> bool:
        """Whether its data stay on disk."""
        return bool(self.config.rest.get("streamed", False))

    @property
    def log(self) -> tuple[str, ...]:
        """The loggers that it was begun with."""
        return tuple(self.config.rest.get("log", ()))

    @cached_property
    def named(self) -> Named:
        """What the user has named, and how."""
        return Named.from_json(self.config.rest.get("named") or {})


def read(folder: Path) -> Begun:
    """The run in a folder."""
    run = Run(folder)
    if not folder.exists():
        raise UnknownNameError(f"there is no run at {folder} to resume; begin one without resume")
    run.require()
    return Begun(run, run.read(RunConfig))


def make_experiment(
    begun: Begun,
    *,
    updates: int | None = None,
    steps: int | None = None,
    data: View | Env | HostEnv | str | Path | None = None,
    env: Any = None,
    evaluation: EvaluationSettings | None = None,
    continue_on_divergence: bool | None = None,
    log: Sequence[str] | None = None,
) -> Experiment:
    """What the run does next; see `oryx_marl.resume`."""
    settings = begun.settings  # refuses what is unknown before data are read
    learn_from = open_data(begun, data)
    train = replace(begun.train, updates=_count_updates(begun, updates, steps))
    if continue_on_divergence is not None:
        train = replace(train, continue_on_divergence=continue_on_divergence)
    named = replace(begun.named, env=env) if isinstance(env, str) else begun.named
    return Experiment(
        begun.config.algorithm,
        settings,
        learn_from,
        begun.run.folder,
        train,
        keep_hold_out(begun, evaluation or begun.evaluation),
        begun.drop_invalid,
        find_env(begun, env),
        named,
        begun.log if log is None else tuple(log),
    )


def complete(
    begun: Begun, work: Experiment, evaluation: EvaluationSettings | None, env: Any
) -> Experiment:
    """An experiment that continues a run, with what it was not told as the run has it."""
    return replace(
        work,
        evaluation=keep_hold_out(begun, evaluation or begun.evaluation),
        drop_invalid=work.drop_invalid or begun.drop_invalid,
        env=find_env(begun, env),
        named=replace(work.named, env=work.named.env or begun.named.env),
        log=work.log or begun.log,
    )


def open_data(
    begun: Begun, data: View | Env | HostEnv | str | Path | None = None
) -> View | Env | HostEnv:
    """What the run learns from: what is given, or else what it has learned from so far."""
    config = begun.config
    if data is not None and not isinstance(data, str | Path):
        return data
    if config.online:
        task = str(data or config.dataset)
        try:
            env = base.make_named(task)
        except UnknownNameError as error:
            raise _tell_custom(begun, task, "plug-in") from error
        algorithm = make_algorithm(config.algorithm, begun.settings, env.spec)
        return base.resize(env, task, algorithm.batch_size)
    names = [data] if data is not None else [begun.named.data, config.dataset]
    for name in dict.fromkeys(each for each in names if each):
        try:
            return recipes.open_for_training(name, begun.is_streamed)
        except UnknownNameError:
            if data is not None:
                raise
    opened = begun.named.data or config.dataset
    raise OryxError(
        f"the dataset of {begun.run.folder}, '{opened}', is not found from this folder; name it or "
        "its folder again (--data in the command line, data= in Python)"
    )


def find_env(begun: Begun, env: Any = None) -> Env | HostEnv | None:
    """Where the run is scored, if not in the environment that its data come from."""
    config, spec = begun.config, begun.run.read(SpecDocument).spec
    before = config.rest.get("environment")
    if env is not None:
        if before is None and not spec.environment and begun.evaluation.hold_out is None:
            raise OryxError(
                f"{begun.run.folder} was begun without an environment and holds out episodes "
                "instead; continue it as it was, and score it in the environment then (`oryx eval "
                "RUN --env ENV`, or oryx_marl.evaluate)"
            )
        return as_env(env, fits=spec)
    if before is None:
        return None
    try:
        return as_env(before, fits=spec)
    except UnknownNameError as error:
        raise _tell_custom(begun, begun.named.env or before, "environment") from error


def name_env(begun: Begun) -> str | None:
    """The name of the environment that a run is scored in, if that is not where its data are from.

    Code of the user's is not named: it must be given again.
    """
    before = begun.config.rest.get("environment")
    if before is None:
        return None
    name = begun.named.env or before
    try:
        base.find(name)
    except UnknownNameError as error:
        raise _tell_custom(begun, name, "environment") from error
    return name


def keep_hold_out(begun: Begun, evaluation: EvaluationSettings) -> EvaluationSettings:
    """How to score, with the same episodes held out as ever: the others were learned from."""
    return replace(evaluation, hold_out=_require_same(begun, evaluation.hold_out))


def _require_same(begun: Begun, hold_out: float | None) -> float | None:
    before = begun.evaluation.hold_out
    if hold_out not in (None, before):
        raise OryxError(
            f"{begun.run.folder} was begun with hold_out {before}, not {hold_out}: another share "
            "would let it learn from what it is tested on; leave it out, or choose another folder"
        )
    return before


def _count_updates(begun: Begun, updates: int | None, steps: int | None) -> int:
    """As many as are asked for, but not fewer than there were."""
    config = begun.config
    if steps is not None:
        if not config.online or updates is not None:
            raise OryxError("give steps for an online learner alone, and not beside updates")
        updates = -(-steps // config.steps_per_update)
    newest = begun.run.newest_update() or 0
    if updates is not None and updates < newest:
        raise OryxError(
            f"{begun.run.folder} is at update {newest:,} already, past {updates:,}; give a larger "
            "number, or none"
        )
    return config.updates if updates is None else updates


def _tell_custom(begun: Begun, name: str, what: str) -> OryxError:
    """Which code a run needs that is not part of the package."""
    ways = [] if what == "plug-in" else [f"--env {name} (env= in Python)"]
    files = begun.named.plugins or (("FILE",) if what == "plug-in" else ())
    ways += [f"--plugin {file} (oryx_marl.load_plugin in Python)" for file in files]
    return OryxError(
        f"{begun.run.folder} was made with the environment '{name}', which is not part of the "
        "package; code is never imported because a run says so, so give it again: "
        + ", ".join(ways)
    )
