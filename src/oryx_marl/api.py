"""The public functions of `import oryx_marl as oryx`: what the command line does, from Python."""

import difflib
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp
from rich.console import Console

from oryx_marl import experiment, recipes, registry, renamed, replaying, resuming, trusting
from oryx_marl.algorithms._making import make_algorithm
from oryx_marl.config import coerce, replace_by_name, setting_names
from oryx_marl.data import catalog, vault
from oryx_marl.data.dataset import Dataset
from oryx_marl.data.sources import base as sources
from oryx_marl.data.view import View
from oryx_marl.envs import base as envs
from oryx_marl.envs.adapters.accept import as_env
from oryx_marl.envs.base import Env, HostEnv, is_host
from oryx_marl.errors import OryxError, OryxWarning, StoppedError
from oryx_marl.eval import metrics
from oryx_marl.eval.evaluator import Evaluator
from oryx_marl.experiment import EvaluationSettings, Experiment, Named
from oryx_marl.loggers.base import Callback
from oryx_marl.ope.document import Trust
from oryx_marl.ope.settings import OpeSettings
from oryx_marl.outcomes.scores import STREAMS
from oryx_marl.parallel import compilation
from oryx_marl.policy import export as exporting
from oryx_marl.policy.acting import by_name, from_greedy, ways_in
from oryx_marl.policy.player import Player
from oryx_marl.progress import Report, now_and_then, training_bar
from oryx_marl.report import page, trust_page
from oryx_marl.resuming import Begun
from oryx_marl.runs.documents import Score, Summary
from oryx_marl.runs.folder import load_policy
from oryx_marl.runs.held_out import HeldOut
from oryx_marl.training.loop import TrainSettings
from oryx_marl.training.online import OnlineSettings
from oryx_marl.types import Spec

Which = Literal["last", "best"]


@dataclass(frozen=True)
class TrainedRun:
    """A run that has ended."""

    folder: Path
    summary: Summary | None
    """Scores by weights and way of acting, where there is an environment to score in."""
    held_out: HeldOut | None
    """Likelihood of held-out actions, where there is none or episodes were held out."""
    page: Path | None
    """Its page."""
    trust: Trust | None = None
    """What the policy is worth by the logs alone, where there is no environment."""

    def __repr__(self) -> str:
        if self.summary is not None:
            score = f"{self.summary.metric} {self.score.mean:.3g}"
        elif self.trust is not None:
            score = self.trust.verdict.text
        elif self.held_out is not None:
            score = f"action accuracy {self.held_out.action_accuracy.mean:.3g}"
        else:
            score = "not scored"
        return f"TrainedRun('{self.folder}', {score})"

    @property
    def score(self) -> Score:
        """The headline: the last weights, in the first way of acting that was scored."""
        if self.summary is None:
            raise OryxError(
                f"{self.folder} was scored in no environment; see `trust`, or score it with "
                "oryx_marl.evaluate(run, env=...)"
            )
        return next(iter(self.summary.scores.values()))


@dataclass(frozen=True)
class Evaluated:
    """Scores of a policy on fresh episodes."""

    metric: str
    """What the environment calls its return."""
    episodes: int
    """Per seed."""
    scores: dict[str, Score]
    """Of the return, by way of acting: `sampled`, `greedy`, or a temperature such as `0.25`."""
    update: int | None
    """Gradient updates of the weights, where they come from a run."""

    @property
    def score(self) -> Score:
        """That of the first way of acting; `score.metrics` are what the environment reports."""
        return next(iter(self.scores.values()))

    def to_json(self) -> dict[str, Any]:
        """Plain values: those of the first way of acting, and under `scores` all by name."""
        about = {"metric": self.metric, "update": self.update, "episodes": self.episodes}
        scores = {name: score.to_json() for name, score in self.scores.items()}
        first = next(iter(self.scores))
        return {**about, "act": first, **scores[first], "scores": scores}


def open(name_or_path: str | Path, root: Path | None = None) -> Dataset:
    """A dataset by its name (`oryx data list`) or folder, in memory."""
    return recipes.open(name_or_path, root)


def import_log(
    source: str | Path,
    name: str,
    *,
    mapping: Path | None = None,
    kind: str | None = None,
    root: Path | None = None,
    **columns: Any,
) -> Dataset:
    """Imports a log from elsewhere under a name and opens it.

    Args:
        source: file or folder: a table (Parquet, CSV, JSON Lines), arrays (HDF5, npz, npy), Minari
            or a Vault.
        name: of the new dataset, such as depot/week-12.
        mapping: TOML file with what `columns` would say.
        kind: of the source, if it cannot be told from the file; "wide" where each agent has columns
            of its own.
        root: folder that holds datasets (default: $ORYX_DATA, or datasets/ here).
        columns: the `Options` of the importer, such as those of `oryx_marl.data.sources.table`:
            reward="gain".
    """
    if mapping is not None and columns:
        raise OryxError("give either mapping or names of columns, not both")
    path = Path(source)
    kind = sources.find(path, kind if mapping is None else sources.read_kind(mapping, kind))
    if mapping is None:
        options = sources.make_options(kind, columns)
    else:
        options = sources.read_options(kind, mapping)
    folder = catalog.new_folder(name, root)
    vault.write_parts(sources.read(path, name, options, kind), folder)
    dataset = recipes.open(folder)
    if caution := caution_on(dataset.spec):
        warnings.warn(caution, OryxWarning, stacklevel=2)
    return dataset


def caution_on(spec: Spec) -> str | None:
    """What is to be known before one trains on continuous actions, which few algorithms learn."""
    if spec.action.kind == "discrete":
        return None
    names = ", ".join(learners_of(spec)) or "none"
    return f"the actions are continuous; of the offline algorithms only {names} can learn them"


def learners_of(spec: Spec) -> list[str]:
    """The offline algorithms that can learn from data of a Spec; installed plug-ins left out."""
    found = []
    for name in registry.names("algorithms"):
        if name in registry.installed("algorithms") or experiment.is_online(name):
            continue
        with suppress(OryxError):
            make_algorithm(name, registry.load("algorithms", name).Config(), spec)
            found.append(name)
    return found


def train(
    algorithm: str,
    data: View | Env | HostEnv | str | Path,
    *,
    out: str | Path | None = None,
    updates: int | None = None,
    seeds: int | None = None,
    resume: bool = False,
    env: Any = None,
    evaluation: EvaluationSettings | None = None,
    drop_invalid: bool = False,
    stream: bool = False,
    log: Sequence[str] | None = None,
    callbacks: Sequence[Callback] = (),
    progress: bool = True,
    **settings: Any,
) -> TrainedRun:
    """Trains an algorithm, scores it and writes its page, like `oryx train`.

    Args:
        algorithm: one of `list_algorithms()`.
        data: a dataset, its name or folder; for an online learner an environment or its name.
        out: folder of the run (default: runs/<algorithm>-<dataset>).
        updates: gradient updates per seed; of an online learner `steps` says how long.
        seeds: independent repetitions.
        resume: go on with a run that was stopped, with the settings that it has; see `resume`.
        env: where to score (see `evaluate`), if not in the environment that the data come from.
        evaluation: how many episodes.
        drop_invalid: train on data with invalid rows, without those rows.
        stream: leave the dataset of a name or folder on disk; one that is too large for memory
            stays there anyway.
        log: where to pass metrics on to as they are written: "tensorboard", "wandb", "csv".
        callbacks: objects that are told of the training's events; see `Callback`.
        progress: show a progress bar.
        settings: of the algorithm (`learning_rate=1e-3`, `width=128`), or of the training
            (`log_every=50`).
    """
    algorithm = registry.canonical("algorithms", algorithm)
    learn_from = _open(algorithm, data, stream)
    name = f"{algorithm}-{learn_from.name.replace('/', '-')}"
    folder = Path("runs") / name if out is None else Path(out)
    begun = resuming.read(folder) if resume else None
    given = {"updates": updates, "seeds": seeds, **settings}
    given = {name: value for name, value in given.items() if value is not None}
    config, schedule = _settings(algorithm, given, begun)
    if isinstance(schedule, OnlineSettings):
        made = make_algorithm(algorithm, config, learn_from.spec)
        schedule = schedule.in_updates(made.batch_size * made.sequence_length)
        if isinstance(data, str | Path) and not isinstance(learn_from, View):
            learn_from = envs.resize(learn_from, str(data), made.batch_size)
    chosen = evaluation or EvaluationSettings()
    about: Any = {"named": Named(_text(data), _text(env)), "log": tuple(log or ())}
    work = Experiment(
        algorithm, config, learn_from, folder, schedule, chosen, drop_invalid, **about
    )
    if begun is not None:
        work = resuming.complete(begun, work, evaluation, env)
    elif env is not None:
        work = replace(work, env=as_env(env, fits=learn_from.spec))
    return run_experiment(work, resume, Console(stderr=True, quiet=not progress), callbacks)


def resume(
    run: TrainedRun | str | Path,
    *,
    updates: int | None = None,
    steps: int | None = None,
    data: View | Env | HostEnv | str | Path | None = None,
    env: Any = None,
    evaluation: EvaluationSettings | None = None,
    continue_on_divergence: bool | None = None,
    log: Sequence[str] | None = None,
    callbacks: Sequence[Callback] = (),
    progress: bool = True,
) -> TrainedRun:
    """Continues a run with the settings it has, like `oryx train --resume RUN`.

    Args:
        run: the folder of a run that was stopped or killed, or of one that is to train longer.
        updates: gradient updates per seed in all, if more than before.
        steps: the same for an online learner, in environment steps.
        data: the dataset, where it is not found by the name that the run has noted.
        env: where to score, if that is an environment of your own: code is never imported because
            a run says so.
        evaluation: how many episodes; the share that is held out stays as it is.
        continue_on_divergence: when a seed diverges, train the others on.
        log: loggers, if not those that it was begun with; see `train`.
        callbacks: objects that are told of the training's events; see `Callback`.
        progress: show a progress bar.
    """
    begun = resuming.read(_folder(run))
    with begun.run.lock():  # before data are loaded: a second writer is told at once
        work = resuming.make_experiment(
            begun,
            updates=updates,
            steps=steps,
            data=data,
            env=env,
            evaluation=evaluation,
            continue_on_divergence=continue_on_divergence,
            log=log,
        )
        return run_experiment(work, True, Console(stderr=True, quiet=not progress), callbacks)


def run_experiment(
    work: Experiment, resume: bool, console: Console, callbacks: Sequence[Callback] = ()
) -> TrainedRun:
    """Runs an experiment with a progress bar and writes its page."""
    compilation.use_cache()
    watch: AbstractContextManager[Report]
    watch = (
        nullcontext(lambda *_: None) if console.quiet else training_bar(work.train.updates, console)
    )
    with watch as report:
        try:
            unpacked = now_and_then("unpacking to train from disk", "steps", console)
            trusted = trusting.tell_stages(console)
            result = experiment.run(
                work,
                resume,
                report,
                on_unpack=unpacked,
                on_trust=trusted,
                callbacks=callbacks,
            )
        except StoppedError as stop:
            how = f"continue with `oryx train --resume {work.out}`, or oryx_marl.resume in Python"
            raise StoppedError(stop.what, how) from stop
    has_page = result.summary is not None or result.held_out is not None
    is_first = jax.process_index() == 0
    written = page.write(work.out) if has_page and is_first else None
    if result.trust is not None and is_first:
        trust_page.write(work.out)
    return TrainedRun(work.out, result.summary, result.held_out, written, result.trust)


def trust(
    run: TrainedRun | str | Path,
    data: Dataset | str | Path | None = None,
    *,
    act: str | float | None = None,
    which: Which = "last",
    settings: OpeSettings | None = None,
    progress: bool = True,
) -> Trust:
    """What a run's policy is worth by logs alone, like `oryx trust`: its expected return beside
    that of the logs, how far it leaves them, and a verdict with reasons.

    Args:
        run: what `train` returned, or the folder of a run.
        data: logs to evaluate on (default: those it learned from; the episodes it held out count).
        act: how the policy acts: "sampled", "greedy", or a temperature between them; default:
            sampled, of continuous actions greedy (the mode).
        which: the last weights, or those of the best evaluation.
        settings: how much work goes into it.
        progress: show a progress bar.
    """
    console = Console(stderr=True, quiet=not progress)
    how = settings or OpeSettings()
    (found,) = trusting.trust_all([_folder(run)], data, act, which, how, console)
    return found


def evaluate(
    run: TrainedRun | str | Path,
    env: Any = None,
    *,
    episodes: int = 320,
    act: str | float | Sequence[str | float] | None = None,
    which: Which = "last",
    stream: int = 0,
    num_envs: int | None = None,
    num_workers: int | None = None,
    greedy: bool | None = None,
) -> Evaluated:
    """Scores a run's policy, or that of a policy file, on fresh episodes.

    Args:
        run: what `train` returned, the folder of a run, or a policy file.
        env: where: the name of an environment, one of ours, a PettingZoo parallel environment, a
            function that makes one, or "package.module:make". Default: the environment that the
            data came from.
        episodes: per seed.
        act: how the policy acts: "sampled", "greedy", a temperature between them such as 0.25, or
            several of these, all in the same episodes. Default: sampled and greedy; of continuous
            actions greedy (the mode) and sampled.
        which: the last weights, or those of the best evaluation.
        stream: another number gives other episodes.
        num_envs: environments side by side, where they run outside JAX (default: 16 of
            PettingZoo's, else the environment's own number).
        num_workers: processes, or threads, for those (default: one per processor; 0: this one).
        greedy: old name of act="greedy"; it goes with the next release.
    """
    chosen = act if greedy is None else from_greedy(greedy)
    if chosen is not None:
        by_name(chosen)  # refuses what is no way of acting
    compilation.use_cache()
    policy = load_policy(_folder(run), which)
    ways = ways_in(chosen, policy.spec.action)
    if env is None:
        env = envs.make(policy.spec, num_envs, num_workers)
    found = as_env(env, num_envs=num_envs, num_workers=num_workers, fits=policy.spec)
    try:
        evaluator = Evaluator(policy.algorithm, found, list(policy.seeds))
        weights = jax.tree.map(jnp.asarray, policy.weights)
        number = STREAMS["replay"] + 1 + stream
        played = evaluator.evaluate_each(weights, number, episodes, list(ways.values()))
    finally:
        _close(found)
    scores = {
        name: Score.from_json(metrics.summarise_scores(each, found.return_name))
        for name, each in zip(ways, played, strict=True)
    }
    return Evaluated(found.return_name, episodes, scores, policy.origin.get("update"))


def load(
    run: TrainedRun | str | Path,
    *,
    which: Which = "last",
    seed: int | None = None,
    act: str | float | None = None,
    random_seed: int = 0,
    greedy: bool | None = None,
) -> Player:
    """The trained policy of a run or of a policy file, to act with step by step.

    Args:
        run: what `train` returned, the folder of a run, or a policy file.
        which: the last weights, or those of the best evaluation.
        seed: number of the training's seed (default: the first).
        act: "sampled", "greedy" (always the likeliest action), or a temperature between them;
            default: sampled, of continuous actions greedy (the mode).
        random_seed: the sequence of episodes that are sampled is the same for the same number.
        greedy: old name of act="greedy"; it goes with the next release.
    """
    chosen = act if greedy is None else from_greedy(greedy)
    compilation.use_cache()
    return Player(load_policy(_folder(run), which), seed, chosen, random_seed)


def export(
    run: TrainedRun | str | Path,
    folder: str | Path | None = None,
    *,
    format: exporting.Format = "onnx",
    which: Which = "last",
    seed: int | None = None,
) -> Path:
    """Writes a trained policy for other programs; the folder, which also tells how to run it.

    Args:
        run: what `train` returned, the folder of a run, or a policy file.
        folder: where to (default: `export/<format>` in the run's folder, or beside the file); an
            earlier export there is replaced.
        format: "onnx" (runs without JAX) or "stablehlo" (for JAX, on CPU, GPU and TPU).
        which: the last weights, or those of the best evaluation.
        seed: number of the training's seed (default: the first).
    """
    source = _folder(run)
    policy = load_policy(source, which)
    home = source.with_name(f"{source.stem}-export") if source.is_file() else source / "export"
    target = home / format if folder is None else Path(folder)
    return exporting.write(policy, target, format, seed)


def replay(
    run: TrainedRun | str | Path,
    out: str | Path,
    *,
    episodes: int | None = None,
    act: str | float | None = None,
    env: Any = None,
    seed: int | None = None,
    which: Which | None = None,
    random_seed: int | None = None,
    fps: int | None = None,
    scale: int | None = None,
    progress: bool = True,
) -> Path:
    """Writes a film of a trained policy, like `oryx replay`; the file.

    Without `episodes`, `act`, `env`, `seed`, `which` and `random_seed` it shows the episodes that
    were recorded with the run; with any of them new ones are played.

    Args:
        run: what `train` returned, the folder of a run, or a policy file.
        out: the file, which ends in .gif or .mp4.
        episodes: how many new ones (default: 6).
        act: "sampled", "greedy", or a temperature between them.
        env: where they are played, as in `evaluate`.
        seed: number of the training's seed (default: the first).
        which: the last weights (default), or those of the best evaluation.
        random_seed: another number gives other episodes.
        fps: steps per second (default: 4, more for long episodes).
        scale: pixels of the film for each pixel of the picture.
        progress: show a progress bar.
    """
    new = replaying.NewEpisodes(episodes, act, env, seed, which, random_seed)
    console = Console(stderr=True, quiet=not progress)
    return replaying.write(_folder(run), [Path(out)], new, fps, scale, console).paths[0]


def list_algorithms() -> list[str]:
    """Names that `train` takes."""
    return registry.names("algorithms")


def list_datasets() -> list[str]:
    """Names that `open` takes, and those of datasets that can be made (`oryx data make`)."""
    return [entry.name for entry in recipes.names()]


def load_plugin(path: str | Path) -> str:
    """Adds the algorithm, environment, data source or recipes of a Python file; their name."""
    registry.add_file(Path(path))
    return Path(path).stem


def _folder(run: TrainedRun | str | Path) -> Path:
    return run.folder if isinstance(run, TrainedRun) else Path(run)


def _text(thing: Any) -> str | None:
    """What the user has written, where that is a name or a path."""
    return str(thing) if isinstance(thing, str | Path) else None


def _close(env: Env | HostEnv) -> None:
    if is_host(env):
        env.close()


def _open(
    algorithm: str, data: View | Env | HostEnv | str | Path, stream: bool
) -> View | Env | HostEnv:
    """What an algorithm learns from, by its name if it is one."""
    if not isinstance(data, str | Path):
        return data
    if experiment.is_online(algorithm):
        return envs.make_named(str(data))
    return recipes.open_for_training(data, stream)


def _settings(
    algorithm: str, given: dict[str, Any], begun: Begun | None = None
) -> tuple[Any, TrainSettings | OnlineSettings]:
    """The algorithm's Config and the training's settings, from names as the command line has.

    What is not given is that of the run that was begun, or else the default.
    """
    kind = registry.load("algorithms", algorithm).Config
    schedule: Any = OnlineSettings() if kind.online else TrainSettings()
    base = kind()
    if begun is not None and begun.config.algorithm == algorithm:
        base, schedule = begun.settings, begun.schedule
    own = {entry.name for entry in fields(schedule)}
    times = {name: coerce(schedule, name, value) for name, value in given.items() if name in own}
    rest = {name: value for name, value in given.items() if name not in own}
    config, unknown = replace_by_name(base, rest)
    if unknown:
        known, name = sorted({*own, *setting_names(config)}), min(unknown)
        close = difflib.get_close_matches(name, known, 1, cutoff=0.8)
        hint = f"did you mean {close[0]}?" if close else f"it has: {', '.join(known)}"
        (new,) = renamed.settings({name: None}, online=kind.online)
        if new != name:
            hint = f"it is called {new} now"
        raise OryxError(f"'{algorithm}' has no setting {name}; {hint}")
    return config, replace(schedule, **times)
