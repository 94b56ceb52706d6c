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
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from oryx_marl.algorithms.base import Algorithm
from oryx_marl.errors import OryxError
from oryx_marl.ops.masked import pick
from oryx_marl.train import checkpoint, devices
from oryx_marl.train.run import Run
from oryx_marl.train.seeds import over_seeds

Evaluate = Callable[[Any, int], np.ndarray]
"""`evaluate(weights [S, ...], update) -> returns [S, episodes]`."""
Metrics = dict[str, jax.Array]


class Source(Protocol):
    """Where learners get their experience from, for all seeds at once."""

    def init(self, algorithm: Algorithm, learners: Any, keys: jax.Array) -> Any:
        """What goes on in the world besides learning, [S, ...]; () if nothing does."""
        ...

    def advance(
        self,
        algorithm: Algorithm,
        num_updates: int,
        learners: Any,
        world: Any,
        keys: jax.Array,
        first: int,
    ) -> tuple[Any, Any, Metrics]:
        """Learners and world after `num_updates` more updates, and the mean metrics [S].

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

    def __post_init__(self) -> None:
        for name in ("updates", "seeds", "log_every", "checkpoint_every"):
            if getattr(self, name) < 1:
                raise OryxError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("first_seed", "evaluate_every"):
            if getattr(self, name) < 0:
                raise OryxError(f"{name} must not be negative, got {getattr(self, name)}")
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
    world: Any = ()
    """What the source needs to go on."""


class DivergedError(OryxError):
    """A loss stopped being a finite number."""


class StoppedError(OryxError):
    """The user stopped the run; everything up to here is in a checkpoint."""

    def __init__(
        self, what: str, how_to_go_on: str = "continue with the same command and --resume"
    ) -> None:
        super().__init__(f"{what}; nothing is lost: {how_to_go_on}")
        self.what = what


def init_state(algorithm: Algorithm, seeds: list[int], source: Source | None = None) -> TrainState:
    """Fresh learners, one per seed."""
    keys = make_keys(seeds)
    learners = _init_learners(algorithm, keys)
    best = jax.tree.map(jnp.copy, algorithm.weights(learners))
    world = () if source is None else source.init(algorithm, learners, keys)
    return TrainState(learners, best, jnp.full(len(seeds), -jnp.inf), world)


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
) -> TrainState:
    """Trains all seeds to `settings.updates`, from the newest checkpoint if `resume`."""
    state, update, elapsed = _start(algorithm, source, settings, run, resume)
    keys = make_keys(settings.seed_numbers)
    began = time.monotonic() - elapsed

    def save() -> None:
        extra = {"elapsed": time.monotonic() - began}
        checkpoint.save(run.checkpoints, checkpoint.Checkpoint(update, devices.fetch(state), extra))

    with _catch_interrupt() as interrupted:
        if update == 0:
            save()
        while update < settings.updates:
            size = min(settings.log_every - update % settings.log_every, settings.updates - update)
            learners, world, found = source.advance(
                algorithm, size, state.learners, state.world, keys, update
            )
            metrics = devices.fetch(found)
            _require_finite(metrics, update, size, run)
            state = state._replace(learners=learners, world=world)
            update += size
            values = {name: array.tolist() for name, array in metrics.items()}
            seconds = round(time.monotonic() - began, 3)
            run.append("metrics.jsonl", {"update": update, "seconds": seconds, "metrics": values})
            on_progress(update, metrics)
            finished = update == settings.updates
            every = settings.evaluate_every or settings.updates
            if evaluate is not None and (finished or update % every == 0):
                weights = algorithm.weights(learners)
                elapsed = time.monotonic() - began
                state = _evaluate(evaluate, weights, state, update, elapsed, run)
            stopped = devices.anywhere(interrupted())
            if finished or update % settings.checkpoint_every == 0 or stopped:
                save()
            if stopped:
                what = "training is done, scoring is not" if finished else "stopped"
                raise StoppedError(f"{what}, at update {update:,}")
    return state


def _start(
    algorithm: Algorithm, source: Source, settings: TrainSettings, run: Run, resume: bool
) -> tuple[TrainState, int, float]:
    """State, update and seconds to go on from."""
    state = init_state(algorithm, settings.seed_numbers, source)
    update, elapsed = 0, 0.0
    if devices.from_first(resume and bool(checkpoint.updates(run.checkpoints))):
        found = devices.fetch(state), update, elapsed
        if jax.process_index() == 0:
            kept = checkpoint.restore(run.checkpoints, state)
            found = kept.tree, kept.update, kept.extra["elapsed"]
        tree, update, elapsed = devices.from_first(found)
        state, update, elapsed = devices.place(tree), int(update), float(elapsed)
    for name in ("metrics.jsonl", "evaluations.jsonl"):
        run.rewind(name, update)
    return state, update, elapsed


def _require_finite(metrics: dict[str, np.ndarray], update: int, size: int, run: Run) -> None:
    for name, values in metrics.items():
        if not np.all(np.isfinite(values)):
            seed = int(np.flatnonzero(~np.isfinite(values))[0])
            found = checkpoint.updates(run.checkpoints)
            raise DivergedError(
                f"{name} of seed number {seed} is not finite between updates {update:,} and "
                f"{update + size:,}; the last good checkpoint is "
                f"{run.checkpoints / str(found[-1])}. "
                "Try a lower learning rate or a higher policy temperature, and check the data"
            )


def _evaluate(
    evaluate: Evaluate, weights: Any, state: TrainState, update: int, elapsed: float, run: Run
) -> TrainState:
    """Scores the current weights, logs the returns and remembers each seed's best weights."""
    returns = np.asarray(evaluate(weights, update))
    row = {"update": update, "seconds": round(elapsed, 3), "returns": returns.tolist()}
    run.append("evaluations.jsonl", row)
    scores = jnp.asarray(returns.mean(axis=1), jnp.float32)
    better = scores >= state.best_return  # of equals, the one that has learned longer
    best = pick(better, weights, state.best)
    return state._replace(best=best, best_return=jnp.maximum(scores, state.best_return))


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
