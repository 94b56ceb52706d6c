"""The way of every training: compiled calls over all seeds, logged, evaluated, checkpointed.

Where experience comes from is the Source's business: logged data (offline.py) or environments
(online.py).
"""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Int

from oryx_marl.algorithms.base import Algorithm
from oryx_marl.errors import OryxError, StoppedError
from oryx_marl.eval.metrics import evaluation_row
from oryx_marl.loggers.base import NOBODY, Callbacks
from oryx_marl.ops.masked import pick
from oryx_marl.parallel import devices
from oryx_marl.parallel.seeds import over_seeds
from oryx_marl.runs import checkpoint
from oryx_marl.runs.documents import DivergedSeeds, Evaluation, MetricRow
from oryx_marl.runs.folder import Run

Evaluate = Callable[[Any, int], dict[str, np.ndarray]]
"""`evaluate(weights [S, ...], update) -> scores [S, episodes] by name`, 'return' among them."""
Metrics = dict[str, jax.Array]
MOST_SEEDS = 1_000
"""More than anyone needs at once, and fewer than would only fail when memory is asked for."""


@runtime_checkable
class Source(Protocol):
    """Where learners get their experience from, for all seeds at once."""

    def init(self, algorithm: Algorithm, learners: Any, keys: jax.Array) -> Any:
        """Source state carried between updates, [S, ...]; () if there is none."""
        ...

    def advance(
        self,
        algorithm: Algorithm,
        num_updates: int,
        learners: Any,
        source_state: Any,
        keys: jax.Array,
        first: int,
    ) -> tuple[Any, Any, Metrics]:
        """Learners and source state after `num_updates` more updates, and the mean metrics [S].

        Every update's key is derived from the seed's key and the update's number, which begins at
        `first` + 1, so a resumed run draws what an unbroken one would have drawn.
        """
        ...


@dataclass(frozen=True)
class TrainSettings:
    """How long and how often; what is learned is the algorithm's Config."""

    updates: int = 20_000
    """Gradient updates per seed."""
    seeds: int = 3
    """Independent repetitions."""
    first_seed: int = 0
    """Number of the first seed."""
    log_every: int = 100
    """Updates in one compiled call, between two lines of the log."""
    evaluate_every: int = 2_000
    """Updates between evaluations (0: only at the end)."""
    checkpoint_every: int = 2_000
    """Updates between checkpoints."""
    continue_on_divergence: bool = False
    """When a seed diverges, train the others on; it stays as at the last checkpoint."""

    def __post_init__(self) -> None:
        for name in ("updates", "seeds", "log_every", "checkpoint_every"):
            if getattr(self, name) < 1:
                raise OryxError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("first_seed", "evaluate_every"):
            if getattr(self, name) < 0:
                raise OryxError(f"{name} must not be negative, got {getattr(self, name)}")
        if self.seeds > MOST_SEEDS:
            raise OryxError(
                f"seeds must be at most {MOST_SEEDS:,}, got {self.seeds:,}: all seeds train side "
                "by side, and so many networks with their optimisers do not fit into the memory "
                "of a device; train more seeds in further runs, by first_seed"
            )
        if self.first_seed + self.seeds > 2**31:
            raise OryxError(f"first_seed must be below 2³¹ with all seeds, got {self.first_seed:,}")
        for name in ("evaluate_every", "checkpoint_every"):
            if getattr(self, name) % self.log_every:
                raise OryxError(
                    f"{name} must be a multiple of log_every ({self.log_every}), "
                    f"got {getattr(self, name)}"
                )

    @property
    def seed_numbers(self) -> list[int]:
        return list(range(self.first_seed, self.first_seed + self.seeds))


class TrainState(NamedTuple):
    """All that a run needs to go on, stacked over seeds."""

    learners: Any
    best: Any
    """Acting weights of each seed at its best evaluation."""
    best_return: jax.Array
    """[S] mean return of that evaluation."""
    source_state: Any = ()
    """What the source needs to go on."""


class DivergedError(OryxError):
    """A loss stopped being a finite number."""


def init_state(algorithm: Algorithm, seeds: list[int], source: Source | None = None) -> TrainState:
    """Fresh learners, one per seed."""
    keys = make_keys(seeds)
    learners = _init_learners(algorithm, keys)
    best = jax.tree.map(jnp.copy, algorithm.weights(learners))
    source_state = () if source is None else source.init(algorithm, learners, keys)
    return TrainState(learners, best, jnp.full(len(seeds), -jnp.inf), source_state)


def make_keys(seeds: list[int]) -> jax.Array:
    """One key per seed."""
    return jax.vmap(jax.random.key)(jnp.array(seeds))


@partial(jax.jit, static_argnames="algorithm")
def _init_learners(algorithm: Algorithm, keys: jax.Array) -> Any:
    return over_seeds(lambda key: algorithm.init(jax.random.fold_in(key, 0)))(keys)


def train(
    algorithm: Algorithm,
    source: Source,
    settings: TrainSettings,
    run: Run,
    evaluate: Evaluate | None = None,
    resume: bool = False,
    on_progress: Callable[[int, dict[str, np.ndarray]], None] = lambda update, metrics: None,
    callbacks: Callbacks = NOBODY,
) -> TrainState:
    """Trains all seeds to `settings.updates`, from the newest checkpoint if `resume`."""
    state, update, elapsed, lost = _start(algorithm, source, settings, run, resume)
    callbacks.on_begin(run, update)
    keys = make_keys(settings.seed_numbers)
    began = time.monotonic() - elapsed

    def save() -> None:
        extra = {"elapsed": time.monotonic() - began, "lost": lost.tolist()}
        run.save_checkpoint(checkpoint.Checkpoint(update, devices.fetch(state), extra))
        callbacks.on_checkpoint(update)

    with _catch_interrupt() as interrupted:
        if not devices.from_first(resume and run.newest_update() is not None):
            save()
        while update < settings.updates:
            size = min(settings.log_every - update % settings.log_every, settings.updates - update)
            state, metrics = _advance(algorithm, source, size, state, keys, update, lost)
            diverged = _find_diverged(metrics) & (lost < 0)
            if diverged.any():
                if not settings.continue_on_divergence or (diverged | (lost >= 0)).all():
                    raise _tell_diverged(metrics, diverged, update, size, run)
                good, good_update, _, _ = _restore(run, state)
                learners = pick(jnp.asarray(diverged), good.learners, state.learners)
                state = state._replace(learners=learners)
                lost = np.where(diverged, good_update, lost)
                run.write(_by_seed(lost, settings))
            update += size
            values = {name: _or_none(array, lost >= 0) for name, array in metrics.items()}
            row = MetricRow(update, round(time.monotonic() - began, 3), values)
            run.append(row)
            callbacks.on_log(row)
            on_progress(update, {name: array[lost < 0] for name, array in metrics.items()})
            finished = update == settings.updates
            every = settings.evaluate_every or settings.updates
            if evaluate is not None and (finished or update % every == 0):
                weights = algorithm.weights(state.learners)
                elapsed = time.monotonic() - began
                state, scores = _evaluate(evaluate, weights, state, update, elapsed, run)
                callbacks.on_evaluation(scores)
            stopped = devices.anywhere(interrupted())
            if finished or update % settings.checkpoint_every == 0 or stopped:
                save()
            if stopped:
                what = "training is done, scoring is not" if finished else "stopped"
                raise StoppedError(f"{what}, at update {update:,}")
    return state


def _advance(
    algorithm: Algorithm,
    source: Source,
    size: int,
    state: TrainState,
    keys: jax.Array,
    update: int,
    lost: Int[np.ndarray, " S"],
) -> tuple[TrainState, dict[str, np.ndarray]]:
    """State after `size` more updates, and their metrics; seeds that are lost stay as they are."""
    is_lost = lost >= 0
    held = jax.tree.map(jnp.copy, state.learners) if is_lost.any() else None
    learners, source_state, found = source.advance(
        algorithm, size, state.learners, state.source_state, keys, update
    )
    if held is not None:
        learners = pick(jnp.asarray(is_lost), held, learners)
    return state._replace(learners=learners, source_state=source_state), devices.fetch(found)


def _start(
    algorithm: Algorithm, source: Source, settings: TrainSettings, run: Run, resume: bool
) -> tuple[TrainState, int, float, np.ndarray]:
    """State, update and seconds to go on from, and for each seed that is lost since when."""
    state = init_state(algorithm, settings.seed_numbers, source)
    update, elapsed, lost = 0, 0.0, np.full(settings.seeds, -1)
    if devices.from_first(resume and bool(checkpoint.updates(run.checkpoints))):
        state, update, elapsed, lost = _restore(run, state)
    for kind in (MetricRow, Evaluation):
        run.rewind(kind, update)
    if run.has(DivergedSeeds):
        run.write(_by_seed(lost, settings))
    return state, update, elapsed, lost


def _restore(run: Run, like: TrainState) -> tuple[TrainState, int, float, np.ndarray]:
    """The newest checkpoint, in all processes; of `like` only the shapes matter."""
    blank = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), like)
    alive = np.full(like.best_return.shape, -1)
    found: Any = blank, 0, 0.0, alive
    if jax.process_index() == 0:
        kept = checkpoint.restore(run.checkpoints, blank)
        lost = np.array(kept.extra.get("lost", alive.tolist()))
        found = kept.tree, kept.update, kept.extra["elapsed"], lost
    tree, update, elapsed, lost = devices.from_first(found)
    return devices.place(tree), int(update), float(elapsed), np.asarray(lost)


def _find_diverged(metrics: dict[str, np.ndarray]) -> Bool[np.ndarray, " S"]:
    """Seeds of which some metric is not finite."""
    return np.any([~np.isfinite(values) for values in metrics.values()], axis=0)


def _tell_diverged(
    metrics: dict[str, np.ndarray], diverged: np.ndarray, update: int, size: int, run: Run
) -> DivergedError:
    seed = int(np.flatnonzero(diverged)[0])
    name = next(name for name, values in metrics.items() if not np.isfinite(values[seed]))
    found = checkpoint.updates(run.checkpoints)
    return DivergedError(
        f"{name} of seed number {seed} is not finite between updates {update:,} and "
        f"{update + size:,}; the last good checkpoint is {run.checkpoints / str(found[-1])}. "
        "Try a lower learning rate or a higher policy temperature, and check the data; "
        "resumed with continue_on_divergence, the other seeds train on, if there are others"
    )


def _by_seed(lost: Int[np.ndarray, " S"], settings: TrainSettings) -> DivergedSeeds:
    """The diverged seeds' numbers, and the updates that they have made."""
    numbers = zip(settings.seed_numbers, lost.tolist(), strict=True)
    return DivergedSeeds({seed: update for seed, update in numbers if update >= 0})


def _or_none(values: np.ndarray, is_lost: np.ndarray) -> list[float | None]:
    """Numbers as JSON has them: nothing is known of seeds that are lost."""
    return [None if gone else value for value, gone in zip(values.tolist(), is_lost, strict=True)]


def _evaluate(
    evaluate: Evaluate, weights: Any, state: TrainState, update: int, elapsed: float, run: Run
) -> tuple[TrainState, Evaluation]:
    """Scores the current weights, logs the scores and remembers each seed's best weights."""
    found = evaluate(weights, update)
    row = Evaluation.from_json(evaluation_row(update, elapsed, found))
    run.append(row)
    scores = jnp.asarray(found["return"].mean(axis=1), jnp.float32)
    better = scores >= state.best_return  # of equals, the one that has learned longer
    best = pick(better, weights, state.best)
    return state._replace(best=best, best_return=jnp.maximum(scores, state.best_return)), row


@contextmanager
def _catch_interrupt() -> Iterator[Callable[[], bool]]:
    """Turns Ctrl-C and SIGTERM into a flag, so that a chunk is finished and saved first.

    A second Ctrl-C stops at once.
    """
    stopped = False

    def stop(number: int, frame: Any) -> None:
        nonlocal stopped
        stopped = True
        signal.signal(number, signal.default_int_handler)

    try:
        before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # only the main thread may set handlers
        yield lambda: False
        return
    try:
        yield lambda: stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
