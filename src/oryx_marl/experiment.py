"""One run from data, or from an environment, to scores: check, train, evaluate, keep it all."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

import oryx_marl
from oryx_marl import config as configs
from oryx_marl import registry
from oryx_marl.algorithms.base import Algorithm
from oryx_marl.data import stats
from oryx_marl.data.dataset import Dataset
from oryx_marl.data.quality import screen as check
from oryx_marl.data.record.segments import Recorder
from oryx_marl.data.sampler import check_length, put_on_device
from oryx_marl.data.split import Split, split
from oryx_marl.envs import base
from oryx_marl.envs.base import Env
from oryx_marl.errors import OryxError
from oryx_marl.eval import held_out, metrics
from oryx_marl.eval.evaluator import Evaluator
from oryx_marl.parallel import devices
from oryx_marl.runs import checkpoint
from oryx_marl.runs.folder import Run
from oryx_marl.train import loop
from oryx_marl.train.loop import TrainSettings, TrainState
from oryx_marl.train.offline import Logged
from oryx_marl.train.online import Live
from oryx_marl.types import Spec

STREAMS = {"last": 1_000_000_001, "best": 1_000_000_002, "replay": 1_000_000_003}
"""Random streams of the final evaluations, beyond every update's number."""


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
    """Share of the logged episodes that are not learned from: how well are their actions foretold?
    (Default: 0.1 where no environment is known, else none.)"""

    def __post_init__(self) -> None:
        for name in ("episodes", "episodes_while_training"):
            if getattr(self, name) < 1:
                raise OryxError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.replays < 0:
            raise OryxError(f"replays must not be negative, got {self.replays}")
        if self.hold_out is not None and not 0 <= self.hold_out < 1:
            raise OryxError(f"hold_out must be at least 0 and below 1, got {self.hold_out}")


@dataclass(frozen=True)
class Experiment:
    """What is learned from what, and where it is kept."""

    algorithm: str
    config: Any
    """The algorithm's Config."""
    learn_from: Dataset | Env
    """Logged data, or for an online learner the environment itself."""
    out: Path
    train: TrainSettings = field(default_factory=TrainSettings)
    evaluation: EvaluationSettings = field(default_factory=EvaluationSettings)
    leave_out_bad_rows: bool = False
    """Train on faulty data all the same, without the rows that would poison it."""

    @property
    def task(self) -> str:
        """Name of the dataset, or of the environment."""
        if isinstance(self.learn_from, Dataset):
            return self.learn_from.name
        return self.learn_from.name

    def describe(self) -> dict[str, Any]:
        """Everything needed to do it again, for config.json."""
        algorithm = make_algorithm(self.algorithm, self.config, self.learn_from.spec)
        logged = self.learn_from if isinstance(self.learn_from, Dataset) else None
        return {
            "algorithm": self.algorithm,
            "online": logged is None,
            "steps_per_update": algorithm.batch_size * algorithm.sequence_length,
            "dataset": self.task,
            "fingerprint": None if logged is None else logged.fingerprint(),
            "spec_sha256": _hash_spec(self.learn_from.spec),
            "action_names": None if logged is None else logged.origin.get("action_names"),
            **configs.to_dict(self.train),
            "seeds": self.train.seed_numbers,
            "config": configs.to_dict(self.config),
            "evaluation": configs.to_dict(self.evaluation),
            "leave_out_bad_rows": self.leave_out_bad_rows,
            "version": oryx_marl.__version__,
            "jax": jax.__version__,
            "device": jax.devices()[0].device_kind,
            "devices": jax.device_count(),
        }


def _hash_spec(spec: Spec) -> str:
    return hashlib.sha256(json.dumps(spec.to_dict(), sort_keys=True).encode()).hexdigest()


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
) -> dict[str, Any]:
    """Trains and evaluates; returns what summary.json holds (empty without an environment), and as
    `held_out` what held_out.json does, if there is one.

    With `record` every step of an online learner is recorded. Several devices are used as
    train/devices.py says.
    """
    algorithm = make_algorithm(experiment.algorithm, experiment.config, experiment.learn_from.spec)
    _require_fit(experiment)
    seeds = experiment.train.seeds
    with devices.spread(algorithm, seeds), devices.own_folder(experiment.out) as folder:
        return _run(experiment, algorithm, Run(folder), resume, on_progress, record)


def _run(
    experiment: Experiment,
    algorithm: Algorithm,
    folder: Run,
    resume: bool,
    on_progress: Progress,
    record: Record | None,
) -> dict[str, Any]:
    spec, parts = experiment.learn_from.spec, None
    if isinstance(experiment.learn_from, Dataset):
        length = algorithm.sequence_length
        parts = split(_clean(experiment), experiment.evaluation.hold_out, length)
        check_length(parts.train.num_rows, length)
    source = _prepare(experiment, algorithm, folder, resume, record, parts)
    settings = experiment.train
    if not spec.environment:
        state = loop.train(algorithm, source, settings, folder, None, resume, on_progress)
        return _foretell(algorithm, state, folder, parts)
    env = base.make(spec)
    evaluator = Evaluator(algorithm, env, settings.seed_numbers)
    episodes = experiment.evaluation.episodes_while_training

    def evaluate(weights: Any, update: int) -> np.ndarray:
        return evaluator.returns(weights, update, episodes)

    state = loop.train(algorithm, source, settings, folder, evaluate, resume, on_progress)
    summary = _finish(experiment, folder, evaluator, env, state)
    return {**summary, **_foretell(algorithm, state, folder, parts)}


def _clean(experiment: Experiment) -> Dataset:
    """The data to learn from, without faults."""
    dataset = experiment.learn_from
    assert isinstance(dataset, Dataset)
    if experiment.leave_out_bad_rows:
        return check.leave_out_bad_rows(dataset)
    check.require_clean(dataset)
    return dataset


def _foretell(
    algorithm: Algorithm, state: TrainState, folder: Run, parts: Split[Dataset] | None
) -> dict[str, Any]:
    """How well the last weights foretell the episodes that were held out, if any were."""
    if parts is None or parts.validation is None:
        return {}
    found = held_out.score(algorithm, algorithm.weights(state.learners), parts)
    folder.write("held_out.json", found)
    return {"held_out": found}


def _require_fit(experiment: Experiment) -> None:
    """Raises unless the algorithm can learn from what it is given."""
    online = is_online(experiment.algorithm)
    if online == isinstance(experiment.learn_from, Dataset):
        needs = "an environment, not a dataset" if online else "a dataset, not an environment"
        raise OryxError(
            f"'{experiment.algorithm}' learns from {needs}; given was {experiment.task}"
        )


def make_algorithm(name: str, config: Any, spec: Spec) -> Algorithm:
    """The algorithm of a name and its Config for a task."""
    return registry.load("algorithms", name).make(config, spec)


def is_online(algorithm: str) -> bool:
    """Whether an algorithm learns in an environment."""
    return registry.load("algorithms", algorithm).Config.online


def _prepare(
    experiment: Experiment,
    algorithm: Algorithm,
    folder: Run,
    resume: bool,
    record: Record | None,
    parts: Split[Dataset] | None,
) -> loop.Source:
    """Opens the run's folder."""
    found = experiment.learn_from
    folder.begin(experiment.describe(), resume)
    folder.write("spec.json", found.spec.to_dict())
    if parts is not None:
        folder.write("dataset.json", stats.describe(parts.train))
        needs_returns = algorithm.needs_returns_to_go
        return Logged(put_on_device(parts.train, needs_returns, devices.everywhere()))
    assert not isinstance(found, Dataset)
    if record is None:
        return Live(found)
    done = checkpoint.updates(folder.checkpoints) if resume else []
    record.recorder.rewind(max(done, default=0))
    return Live(found, *record)


def _finish(
    experiment: Experiment,
    folder: Run,
    evaluator: Evaluator,
    env: Env,
    state: TrainState,
) -> dict[str, Any]:
    """Final scores, marl-eval file and replays."""
    evaluation = experiment.evaluation
    summary, best_returns = score(evaluator, state, evaluation.episodes)
    summary["metric"] = env.return_name
    folder.write("summary.json", summary)
    evaluations = metrics.marl_eval(
        env.spec.environment,
        experiment.task,
        experiment.algorithm,
        experiment.train.seed_numbers,
        list(folder.rows("evaluations.jsonl")),
        best_returns,
    )
    folder.write("eval.json", evaluations)
    if evaluation.replays:
        save_replay(folder.folder / "replay.npz", env, evaluator, state, evaluation.replays)
    return summary


def score_checkpoint(experiment: Experiment) -> dict[str, Any]:
    """What `run` returns, as if the training had ended at its newest checkpoint."""
    loaded = load(experiment.out)
    env = base.make(loaded.spec)
    evaluator = Evaluator(loaded.algorithm, env, loaded.config["seeds"])
    state = jax.tree.map(jax.numpy.asarray, loaded.state)
    summary = _finish(experiment, Run(experiment.out), evaluator, env, state)
    return {**summary, "update": loaded.update}


def score(
    evaluator: Evaluator, state: TrainState, episodes: int
) -> tuple[dict[str, Any], np.ndarray]:
    """Last and best weights, sampled and greedy, on fresh episodes; and the best's returns."""
    summary: dict[str, Any] = {"episodes": episodes}
    weights = {"last": evaluator.algorithm.weights(state.learners), "best": state.best}
    for which, network in weights.items():
        sampled = evaluator.returns(network, STREAMS[which], episodes)
        greedy = evaluator.returns(network, STREAMS[which], episodes, greedy=True)
        summary[which] = {
            "sampled": metrics.summarise(sampled, evaluator.env.return_name),
            "greedy": metrics.summarise(greedy, evaluator.env.return_name),
        }
    return summary, sampled


def save_replay(
    path: Path, env: Env, evaluator: Evaluator, state: TrainState, episodes: int
) -> None:
    """Pictures and actions of a few sampled episodes of the first seed, for the page."""
    weights = evaluator.algorithm.weights(state.learners)
    trace = jax.device_get(evaluator.trace(weights, STREAMS["replay"], episodes))
    arrays: dict[str, Any] = {}
    captions = []
    for index in range(episodes):
        length = int(trace.live[:, index].sum())
        states = [jax.tree.map(lambda x: x[t, index], trace.states) for t in range(length)]  # noqa: B023
        states.append(jax.tree.map(lambda x: x[index], trace.last))  # noqa: B023
        arrays[f"frames_{index}"] = np.stack([env.render_rgb(each) for each in states])
        rewards = trace.rewards[:length, index]
        steps = [
            {
                "actions": [env.action_names[a] for a in trace.actions[t, index]],
                "reward": float(rewards[t]),
            }
            for t in range(length)
        ]
        title = f"episode {index + 1}"
        captions.append({"title": title, "return": float(rewards.sum()), "steps": steps})
    np.savez_compressed(path, captions=np.array(json.dumps(captions)), **arrays)


@dataclass(frozen=True)
class Loaded:
    """A run read back from its folder."""

    algorithm: Algorithm
    spec: Spec
    state: TrainState
    update: int
    config: dict[str, Any]


def load(folder: Path) -> Loaded:
    """The newest checkpoint of a run."""
    if not folder.is_dir():
        raise OryxError(f"there is no run at {folder}")
    files = Run(folder)
    config, spec = files.read("config.json"), Spec.from_dict(files.read("spec.json"))
    try:
        module = registry.load("algorithms", config["algorithm"])
        settings, seeds = configs.from_dict(module.Config, config["config"]), config["seeds"]
        fits = config["spec_sha256"] == _hash_spec(spec)
    except (KeyError, TypeError) as error:
        raise OryxError(f"{folder / 'config.json'} is damaged: {error!r} is missing") from error
    if not fits:
        raise OryxError(f"{folder / 'spec.json'} does not fit this run: it was altered")
    algorithm = module.make(settings, spec)
    source = Live(base.make(spec)) if is_online(config["algorithm"]) else None
    like = jax.eval_shape(lambda: loop.init_state(algorithm, seeds, source))
    found = checkpoint.restore(files.checkpoints, like)
    return Loaded(algorithm, spec, found.tree, found.update, config)
