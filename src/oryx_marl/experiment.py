"""One run from data, or from an environment, to its outcomes; nothing but orchestration."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

import oryx_marl
from oryx_marl import config as configs
from oryx_marl import registry
from oryx_marl.algorithms._learner import require_trainable
from oryx_marl.algorithms._making import make_algorithm
from oryx_marl.algorithms._size import fill_size
from oryx_marl.algorithms.base import Algorithm
from oryx_marl.data import mapped, prepared, stats
from oryx_marl.data.dataset import Dataset
from oryx_marl.data.gathered import HostData
from oryx_marl.data.record.segments import Recorder
from oryx_marl.data.sampler import put_on_device
from oryx_marl.data.split import Split
from oryx_marl.data.view import View
from oryx_marl.envs import base
from oryx_marl.envs.base import Env, HostEnv, is_host
from oryx_marl.errors import OryxError
from oryx_marl.eval.evaluator import Evaluator
from oryx_marl.loggers.base import Callback, Callbacks
from oryx_marl.loggers.base import make as make_loggers
from oryx_marl.ope.document import Trust
from oryx_marl.ope.evaluate import FEWEST
from oryx_marl.ope.settings import OpeSettings
from oryx_marl.outcomes.base import Outcome, Trained
from oryx_marl.outcomes.held_out import HeldOutLikelihood
from oryx_marl.outcomes.scores import EnvironmentScores
from oryx_marl.outcomes.trust import Progress as TrustProgress
from oryx_marl.outcomes.trust import TrustOutcome
from oryx_marl.parallel import devices
from oryx_marl.policy.acting import Act, by_name, ways_in
from oryx_marl.runs.documents import (
    DatasetCard,
    RunConfig,
    SpecDocument,
    Summary,
    hash_spec,
)
from oryx_marl.runs.folder import NoBestError, Run
from oryx_marl.runs.held_out import HeldOut
from oryx_marl.runs.sealed import Document
from oryx_marl.training import loop, online_host
from oryx_marl.training.loop import TrainSettings, TrainState
from oryx_marl.training.offline import DatasetSource
from oryx_marl.training.online import EnvSource
from oryx_marl.training.streamed import StreamedSource


@dataclass(frozen=True)
class EvaluationSettings:
    """How learned weights are scored."""

    episodes: int = 320
    """Episodes per seed for the final scores."""
    episodes_while_training: int = 32
    """Episodes per seed each time the curve gets a point."""
    replays: int = 6
    """Episodes kept for the page's replay."""
    hold_out: float | None = None
    """Share of the logged episodes that are not learned from: how well are their actions predicted?
    Unset: 0.1 where no environment is known, else none."""
    act: tuple[Act, ...] | None = None
    """How the policy acts when it is scored: sampled, greedy, or a temperature between them. Each
    is scored at the end; the first is the headline, and that of the learning curve and replay.
    Unset: sampled and greedy, of continuous actions greedy (the mode) and sampled."""
    trust: bool = True
    """Where no environment is known, estimate at the end what the policy is worth from the logs
    alone, as `oryx trust` does; not after trainings of less than 5,000 updates."""

    def __post_init__(self) -> None:
        for name in ("episodes", "episodes_while_training"):
            if getattr(self, name) < 1:
                raise OryxError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.replays < 0:
            raise OryxError(f"replays must not be negative, got {self.replays}")
        if self.hold_out is not None and not 0 <= self.hold_out < 1:
            raise OryxError(f"hold_out must be at least 0 and below 1, got {self.hold_out}")
        if self.act is not None:
            by_name(self.act)  # refuses what is no way of acting


@dataclass(frozen=True)
class Named:
    """What the user has named, in the user's words: a command that repeats a run needs them."""

    data: str | None = None
    """Name or folder of the dataset."""
    env: str | None = None
    """Environment to score in, such as package.module:make."""
    plugins: tuple[str, ...] = ()
    """Files of plug-ins."""

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> "Named":
        """As config.json has it."""
        return Named(values.get("data"), values.get("env"), tuple(values.get("plugins", ())))


@dataclass(frozen=True)
class Experiment:
    """What is learned from what, and where it is kept."""

    algorithm: str
    config: Any
    """The algorithm's Config."""
    learn_from: View | Env | HostEnv
    """Logged data, or for an online learner the environment itself. A Dataset is held in memory and
    on the device; any other view stays on disk, and windows are copied as they are needed."""
    out: Path
    train: TrainSettings = field(default_factory=TrainSettings)
    evaluation: EvaluationSettings = field(default_factory=EvaluationSettings)
    drop_invalid: bool = False
    """Train on data with invalid rows all the same, without those rows."""
    env: Env | HostEnv | None = None
    """Where the policy is scored; None: in the environment that the data come from, if known."""
    named: Named = Named()
    log: tuple[str, ...] = ()
    """Loggers that the training's metrics are passed on to, by name."""

    @property
    def task(self) -> str:
        """Name of the dataset, or of the environment."""
        return self.learn_from.name


class Result(NamedTuple):
    """What a run has found out, as its folder keeps it."""

    run: Run
    summary: Summary | None
    """Scores, where there is an environment."""
    held_out: HeldOut | None
    """Likelihood of held-out actions, where episodes were held out."""
    trust: Trust | None = None
    """What the policy is worth by the logs alone, where there is no environment."""


Progress = Callable[[int, dict[str, np.ndarray]], None]


class Record(NamedTuple):
    """Where an online learner's steps go, and who is shown its weights now and then."""

    recorder: Recorder
    keep: Callable[[int, Any], None] = lambda update, weights: None
    num_recorded: int | None = None
    """Environments whose steps are recorded, if not all."""


def run(
    experiment: Experiment,
    resume: bool = False,
    on_progress: Progress = lambda *_: None,
    record: Record | None = None,
    on_unpack: prepared.Report = lambda *_: None,
    on_trust: TrustProgress = lambda *_: None,
    callbacks: Sequence[Callback] = (),
) -> Result:
    """Trains, and finds out what there is to be known of the weights.

    With `record` every step of an online learner is recorded. Several devices are used as
    parallel/devices.py says. `on_unpack(rows, of)` is told how far data that stay on disk are
    prepared.
    """
    told = [*make_loggers(experiment.log), *callbacks]  # before work: a package may be missing
    experiment = replace(experiment, config=_complete(experiment))
    algorithm = make_algorithm(experiment.algorithm, experiment.config, experiment.learn_from.spec)
    _require_fit(experiment, algorithm)
    seeds = experiment.train.seeds
    with devices.spread(algorithm, seeds), devices.own_folder(experiment.out) as folder:
        parts = _split(experiment, algorithm, on_unpack)
        run, events = Run(folder), Callbacks(told if jax.process_index() == 0 else ())
        try:
            return _run(
                experiment, algorithm, parts, run, resume, on_progress, record, on_trust, events
            )
        finally:
            events.close()


def _run(
    experiment: Experiment,
    algorithm: Algorithm,
    parts: Split[Dataset] | None,
    run: Run,
    resume: bool,
    on_progress: Progress,
    record: Record | None,
    on_trust: TrustProgress,
    events: Callbacks,
) -> Result:
    scores = _scores(experiment, algorithm)  # before a folder is made: it may be refused
    outcomes: list[Outcome] = [] if scores is None else [scores]
    if parts is not None and parts.validation is not None:
        outcomes.append(HeldOutLikelihood(parts))
    if isinstance(experiment.learn_from, Dataset) and scores is None and _can_trust(experiment):
        settings = OpeSettings()
        logged = experiment.learn_from
        dataset = prepared.clean(logged, experiment.drop_invalid)
        outcomes.append(TrustOutcome(dataset, logged.fingerprint(), settings, on_trust))
    evaluate = None if scores is None else scores.while_training
    with run.lock():
        source = _prepare(experiment, algorithm, run, resume, record, parts)
        state = loop.train(
            algorithm, source, experiment.train, run, evaluate, resume, on_progress, events
        )
        trained = _keep_policies(experiment, algorithm, state, run)
        found = _find_all(outcomes, trained)
        events.on_end(found.summary)
        return found


def _find_all(outcomes: list[Outcome], trained: Trained) -> Result:
    found: dict[type, Any] = {}
    for outcome in outcomes:
        document = outcome.find(trained)
        found[type(document)] = document
    return Result(trained.run, found.get(Summary), found.get(HeldOut), found.get(Trust))


def _split(
    experiment: Experiment, algorithm: Algorithm, on_unpack: prepared.Report
) -> Split[Dataset] | None:
    """Clean data in two, whole episodes each; None for an online learner."""
    logged, share = experiment.learn_from, experiment.evaluation.hold_out
    if not isinstance(logged, View):
        return None
    if share is None and experiment.env is not None:
        share = 0.0  # it is scored there
    length = algorithm.sequence_length
    return prepared.prepare(logged, share, length, experiment.drop_invalid, on_unpack)


def _can_trust(experiment: Experiment) -> bool:
    """Whether it is asked for, the logs are enough for it, and it would not take far longer than
    the training. Several devices are taken up by the training's mesh."""
    found = experiment.learn_from
    enough = isinstance(found, Dataset) and found.num_episodes >= FEWEST
    is_long = experiment.train.updates >= SHORTEST_TRAINING
    return experiment.evaluation.trust and enough and is_long and jax.device_count() == 1


def _scores(experiment: Experiment, algorithm: Algorithm) -> EnvironmentScores | None:
    """What scores the policy, where there is an environment to do it in."""
    spec, settings = experiment.learn_from.spec, experiment.evaluation
    env = experiment.env
    if env is None:
        if not spec.environment:
            return None
        env = base.make(spec)
    evaluator = Evaluator(algorithm, env, experiment.train.seed_numbers)
    return EnvironmentScores(
        evaluator,
        settings.episodes,
        settings.episodes_while_training,
        settings.replays,
        ways_in(settings.act, spec.action),
    )


def _keep_policies(
    experiment: Experiment, algorithm: Algorithm, state: TrainState, run: Run
) -> Trained:
    """Writes the policies of a training that has ended."""
    weights = {"last": algorithm.weights(state.learners), "best": state.best}
    was_evaluated = np.isfinite(devices.fetch(state.best_return)).all()
    for which in ("last", "best") if was_evaluated else ("last",):
        run.write_policy(which, algorithm, devices.fetch(weights[which]))
    seeds = tuple(experiment.train.seed_numbers)
    return Trained(experiment.algorithm, experiment.task, algorithm, seeds, weights, run)


def _complete(experiment: Experiment) -> Any:
    """The config, with what follows from the data."""
    require_trainable(experiment.config)
    found = experiment.learn_from
    rows = found.num_rows if isinstance(found, View) else None
    return fill_size(experiment.config, found.spec, rows)


def _require_fit(experiment: Experiment, algorithm: Algorithm) -> None:
    """Raises unless the algorithm can learn from what it is given, and be scored where it is."""
    online = algorithm.config.online
    if online == isinstance(experiment.learn_from, View):
        needs = "an environment, not a dataset" if online else "a dataset, not an environment"
        raise OryxError(
            f"'{experiment.algorithm}' learns from {needs}; given was {experiment.task}"
        )
    if not isinstance(experiment.learn_from, View) and is_host(experiment.learn_from):
        online_host.require_fit(experiment.learn_from, algorithm, experiment.train.seeds)
    if experiment.env is not None:
        if is_host(experiment.env) and experiment.env is experiment.learn_from:
            raise OryxError(
                f"{experiment.task} learns and would be scored in the same environments, which "
                "scoring would reset amid their episodes; make another set of them to score in"
            )
        misfits = experiment.learn_from.spec.misfits(experiment.env.spec)
        if misfits:
            raise OryxError(
                f"a policy for {experiment.task} cannot act in {experiment.env.name}: "
                f"{'; '.join(misfits)}"
            )


def is_online(algorithm: str) -> bool:
    """Whether an algorithm learns in an environment."""
    return registry.load("algorithms", algorithm).Config.online


def _prepare(
    experiment: Experiment,
    algorithm: Algorithm,
    run: Run,
    resume: bool,
    record: Record | None,
    parts: Split[Dataset] | None,
) -> loop.Source:
    """Opens the run's folder; where the learner's experience comes from."""
    found = experiment.learn_from
    run.begin(describe(experiment, algorithm), resume, _describe_data(found, parts))
    needs_returns, discount = algorithm.needs_returns_to_go, algorithm.value_discount
    if isinstance(found, View):
        assert parts is not None
        if _is_streamed(found):
            return StreamedSource(HostData(parts.train, needs_returns, discount))
        place = devices.everywhere()
        return DatasetSource(put_on_device(parts.train, needs_returns, place, discount))
    if record is not None:
        record.recorder.rewind((run.newest_update() or 0) if resume else 0)
    given: Any = () if record is None else record
    if is_host(found):
        return online_host.HostSource(found, *given)
    return EnvSource(base.require_jax(found, "this source"), *given)


def _is_streamed(found: View | Env | HostEnv) -> bool:
    """Whether logged data stay on disk."""
    return isinstance(found, View) and not isinstance(found, Dataset)


def _describe_data(found: View | Env | HostEnv, parts: Split[Dataset] | None) -> Iterator[Document]:
    """What is learned from, once it is known that the run is begun."""
    yield SpecDocument(found.spec)
    if isinstance(found, View):
        assert parts is not None
        yield DatasetCard.from_json(stats.describe(parts.train, mapped.fingerprint(found)))


def describe(experiment: Experiment, algorithm: Algorithm) -> RunConfig:
    """Everything needed to do it again, for config.json."""
    found = experiment.learn_from
    logged = found if isinstance(found, View) else None
    return RunConfig(
        algorithm=experiment.algorithm,
        dataset=experiment.task,
        seeds=tuple(experiment.train.seed_numbers),
        updates=experiment.train.updates,
        config=configs.to_dict(experiment.config),
        online=logged is None,
        steps_per_update=algorithm.batch_size * algorithm.sequence_length,
        spec_sha256=hash_spec(found.spec),
        action_names=_find_action_names(found),
        version=oryx_marl.__version__,
        device=jax.devices()[0].device_kind,
        rest={
            "fingerprint": None if logged is None else mapped.fingerprint(logged),
            "streamed": _is_streamed(found),
            **{k: v for k, v in configs.to_dict(experiment.train).items() if k not in TOLD},
            "evaluation": configs.to_dict(experiment.evaluation),
            "environment": None if experiment.env is None else experiment.env.name,
            "drop_invalid": experiment.drop_invalid,
            "log": list(experiment.log),
            "named": {**configs.to_dict(experiment.named), "plugins": _plugins()},
            "jax": jax.__version__,
            "devices": jax.device_count(),
        },
    )


def _find_action_names(learn_from: View | Env | HostEnv) -> list[str] | None:
    if isinstance(learn_from, View):
        return stats.find_action_names(learn_from)
    return list(learn_from.action_names) if learn_from.spec.action.kind == "discrete" else None


def _plugins() -> list[str]:
    return [str(path) for path in registry.files()]


SHORTEST_TRAINING = 5_000
"""Updates below which a policy is not evaluated by logs alone unless someone asks for it: that
takes about as long as so many, and verdicts of critics and clones with fewer were wrong."""
TOLD = ("seeds", "updates")
"""Fields of the training's settings that config.json has in a place of their own."""


def score_checkpoint(experiment: Experiment) -> tuple[Summary, int]:
    """What a training that did not end has reached at its newest checkpoint, and its update."""
    run = Run(experiment.out)
    policy = run.policy()
    scores = _scores(experiment, policy.algorithm)
    if scores is None:
        raise OryxError(f"there is no environment to score {experiment.out} in")
    weights = load_weights(run)
    trained = Trained(
        experiment.algorithm, experiment.task, policy.algorithm, policy.seeds, weights, run
    )
    with run.lock():
        return scores.find(trained), policy.origin["update"]


def load_weights(run: Run) -> dict[str, Any]:
    """Last and best weights [S, ...] of a run; the last twice if none were ever evaluated."""
    last = run.policy("last").weights
    try:
        best = run.policy("best").weights
    except NoBestError:
        best = last
    return jax.tree.map(jax.numpy.asarray, {"last": last, "best": best})
