"""Films of a run's policy: the episodes that were recorded with it, or new ones."""

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from rich.console import Console

from oryx_marl import files
from oryx_marl.envs import base
from oryx_marl.envs.adapters.accept import NUM_ENVS, as_env
from oryx_marl.envs.adapters.from_pettingzoo import ParallelEnvs
from oryx_marl.envs.base import Env, HostEnv
from oryx_marl.errors import OryxError
from oryx_marl.eval.evaluator import Evaluator
from oryx_marl.outcomes import replay
from oryx_marl.outcomes.replay import Recorded
from oryx_marl.outcomes.scores import STREAMS
from oryx_marl.parallel import compilation
from oryx_marl.policy.acting import GREEDY, SAMPLED, by_name, name_of, resolve, temperature_of
from oryx_marl.policy.artifact import PolicyArtifact
from oryx_marl.progress import Stages, stages_bar
from oryx_marl.report import video
from oryx_marl.report.video import Layout
from oryx_marl.runs.documents import RunConfig, SpecDocument
from oryx_marl.runs.folder import Run, load_policy
from oryx_marl.runs.replay import FILE, Shown

EPISODES = 6
"""New ones where nobody says how many."""
ADVICE = "Choose another file with out"


@dataclass(frozen=True)
class NewEpisodes:
    """Episodes to be played; None is the default of each."""

    episodes: int | None = None
    act: str | float | None = None
    env: Any = None
    seed: int | None = None
    """Number of the training's seed."""
    which: str | None = None
    random_seed: int | None = None

    def __post_init__(self) -> None:
        if self.episodes is not None and self.episodes < 1:
            raise OryxError(f"episodes must be at least 1, got {self.episodes}")
        if self.random_seed is not None and self.random_seed < 0:
            raise OryxError(f"random_seed must not be negative, got {self.random_seed}")
        if self.act is not None:
            temperature_of(self.act)  # refuses what is no way of acting

    @property
    def is_asked(self) -> bool:
        """Whether anything is said that the recorded ones may not be."""
        return any(value is not None for value in vars(self).values())


class Film(NamedTuple):
    """Files that were written, and what they show."""

    paths: tuple[Path, ...]
    told: str
    pictures: int


def write(
    run: Path,
    paths: Sequence[Path],
    new: NewEpisodes,
    fps: int | None,
    scale: int | None,
    console: Console,
) -> Film:
    """Writes the same film to files that end in .gif or .mp4, each at once or not at all."""
    for path in paths:
        _require_writable(path)
    watch: AbstractContextManager[Stages]
    watch = nullcontext(lambda *_: None) if console.quiet else stages_bar(console)
    with watch as report, find_episodes(run, new, report) as (found, told):
        layout = Layout.choose(found.size, max(found.lengths), fps, scale)
        return draw(found, told, layout, paths, report)


def draw(found: Recorded, told: str, layout: Layout, paths: Sequence[Path], report: Stages) -> Film:
    """Writes films of episodes, of which `told` says what they are."""
    writers = [video.make_writer(path.suffix.lower(), layout, told) for path in paths]
    shots = video.shots(found.episodes, len(found.lengths), told, layout)
    total = 1 + sum(found.lengths)
    for count, shot in enumerate(shots, 1):
        for writer in writers:
            writer.add(*shot)
        report("drawing", count, total)
    for path, writer in zip(paths, writers, strict=True):
        files.write_bytes(path, writer.finish(), ADVICE)
    return Film(tuple(paths), told, total)


def default_path(run: Path, suffix: str) -> Path:
    """Where a film goes that nobody has named a file for: into the run's folder, or beside the
    policy file."""
    if run.is_file():
        return run.with_name(f"{run.stem}-replay{suffix}")
    return run / f"replay{suffix}"


def _require_writable(path: Path) -> None:
    """Raises before minutes of work where the file could not be written."""
    if path.suffix.lower() not in video.FORMATS:
        raise OryxError(f"a film's name must end in .gif or .mp4; got {path}")
    if path.is_dir():
        raise OryxError(f"cannot write {path}: it is a folder. {ADVICE}")
    home = next(place for place in (path.absolute().parents) if place.exists())
    if not home.is_dir():
        raise OryxError(f"cannot write {path}: {home} is not a folder. {ADVICE}")
    if not os.access(home, os.W_OK):
        raise OryxError(f"cannot write {path}: {home} may not be written to. {ADVICE}")


@contextmanager
def find_episodes(run: Path, new: NewEpisodes, report: Stages) -> Iterator[tuple[Recorded, str]]:
    """Episodes, and the sentence that says which."""
    if not run.is_file():
        Run(run).require()
        if not new.is_asked and (run / FILE).is_file():
            yield _read_recorded(run)
            return
    with _play(run, new, report) as played:
        yield played


def _read_recorded(folder: Path) -> tuple[Recorded, str]:
    """The episodes that were recorded when the training had ended."""
    run = Run(folder)
    try:
        episodes = run.read_replay()
    except OryxError as error:
        raise OryxError(f"{error} To play new episodes, say how many (episodes)") from error
    config = run.read(RunConfig)
    shown, first = episodes[0].shown, next(iter(config.seeds), 0)
    if shown is None:  # of an older version, which had recorded the final weights
        shown = Shown(first, "last", None, _find_act(run, config))
    sides = [episode.frames.shape[1:3] for episode in episodes]
    size = max(side[0] for side in sides), max(side[1] for side in sides)
    lengths = tuple(len(episode.frames) for episode in episodes)
    told = _tell(
        len(episodes),
        shown,
        is_first=shown.seed == first,
        of=f"the first ones after training of {config.algorithm} on {config.dataset}",
        run=folder.resolve().name,
    )
    return Recorded(lengths, size, iter(episodes)), told


def _find_act(run: Run, config: RunConfig) -> str:
    """How the policy acted in a replay that does not say."""
    acts = config.rest.get("evaluation", {}).get("act")
    if acts is None:
        acts = resolve(None, run.read(SpecDocument).spec.action)
    return next(iter(by_name(acts)))


@contextmanager
def _play(source: Path, new: NewEpisodes, report: Stages) -> Iterator[tuple[Recorded, str]]:
    """New episodes of one seed's weights."""
    compilation.use_cache()
    policy = load_policy(source, new.which or "last")
    count = EPISODES if new.episodes is None else new.episodes
    seed = policy.seeds[0] if new.seed is None else new.seed
    weights = jax.tree.map(lambda x: jnp.asarray(x)[None], policy.weights_of(seed))
    act = resolve(new.act, policy.spec.action)
    env = _make_env(source, policy, new.env, count)
    try:
        report(f"playing {_count(count)}", 0, 1)
        evaluator = Evaluator(policy.algorithm, env, [seed])
        stream = STREAMS["replay"] + 1 + (new.random_seed or 0)
        found = replay.record(evaluator, weights, stream, count, temperature_of(act))
        report(f"playing {_count(count)}", 1, 1)
        update = policy.origin.get("update")
        learned = f"{policy.name} on {policy.origin.get('learned_from', 'unknown data')}"
        told = _tell(
            count,
            Shown(seed, new.which or "last", update, name_of(act)),
            is_first=seed == policy.seeds[0],
            of=f"all that were played in {env.name} with random seed {new.random_seed or 0} by "
            f"{learned}",
            run=source.resolve().name,
        )
        yield found, told
    finally:
        if base.is_host(env):
            env.close()


def _make_env(source: Path, policy: PolicyArtifact, env: Any, count: int) -> Env | HostEnv:
    """An environment that the policy fits and that draws."""
    if env is None and not policy.spec.environment:
        raise OryxError(
            f"{source} learned from logs whose environment is not known, so there is nothing to "
            "show; name an environment with env (--env; env= in Python)"
        )
    several = min(count, NUM_ENVS)
    if env is None:
        env = base.make(policy.spec, several)
    found = as_env(env, num_envs=several, num_workers=0, fits=policy.spec)
    if isinstance(found, ParallelEnvs) and found.draws:
        found.render_rgb = found.draw  # type: ignore[attr-defined]
    if not hasattr(found, "render_rgb"):
        if base.is_host(found):
            found.close()
        raise OryxError(
            f"environment '{found.name}' draws no pictures: make a PettingZoo environment with "
            'render_mode="rgb_array", or give your own a method render_rgb'
        )
    return found


def _count(number: int) -> str:
    return f"{number:,} episode{'s' * (number != 1)}"


def _tell(count: int, shown: Shown, is_first: bool, of: str, run: str) -> str:
    """What a film shows, and that nobody has picked it."""
    acting = {SAMPLED: f"{SAMPLED} ", GREEDY: f"{GREEDY} "}.get(shown.act, "")
    kind = f"{count:,} {acting}episode{'s' * (count != 1)}"
    if not acting:
        kind += f" at temperature {shown.act}"
    seed = f"the first seed ({shown.seed})" if is_first else f"seed {shown.seed}"
    update = "" if shown.update is None else f", update {shown.update:,}"
    return f"{kind} of {seed}, not chosen: {of}, {shown.which} weights{update}. Run: {run}."
