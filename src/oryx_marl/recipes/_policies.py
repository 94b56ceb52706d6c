"""Recipes that act: a training that is recorded, and roll-outs of trained policies."""

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from oryx_marl import config as configs
from oryx_marl import experiment
from oryx_marl.algorithms import sable
from oryx_marl.data import subsample as subsampling
from oryx_marl.data import vault
from oryx_marl.data.dataset import Dataset
from oryx_marl.data.record.segments import Recorder
from oryx_marl.envs import base
from oryx_marl.envs.base import Env, HostEnv
from oryx_marl.errors import OryxError
from oryx_marl.eval.evaluator import Evaluator
from oryx_marl.policy import artifact
from oryx_marl.policy.acting import default_for, name_of, resolve, temperature_of
from oryx_marl.policy.artifact import PolicyArtifact
from oryx_marl.recipes.base import CHECKPOINTS, Request, one_part
from oryx_marl.rollout.record import record_episodes
from oryx_marl.runs.documents import RecordingRequest, RunConfig
from oryx_marl.runs.folder import Run, load_policy
from oryx_marl.training.online import OnlineSettings

EPISODES = 1_280
"""That score the final policy: others are measured against it."""
HOST_EPISODES = 128
"""The same outside JAX, where episodes take their time."""
EVALUATE_EVERY = 100
"""Updates between points of the curve."""
SNAPSHOT_EVERY = 10
"""Updates between the checkpoints that are stored while recording."""
SCORE_SEED = 1
"""Of `score`; a training and its own scores have seed 0."""


def record_training(
    env: Env | HostEnv, config: sable.Config, request: Request, steps: int | None = None
) -> Iterator[Dataset]:
    """Everything that Sable does while it learns, for `rows` steps; or of what it does in `steps`
    steps whole episodes that are drawn at random, `rows` steps of them.

    The training and snapshots of its policy stay in the work folder.
    """
    _require_same_rows(request)
    num_steps = request.rows if steps is None else max(steps, request.rows)
    settings = OnlineSettings(
        steps=num_steps,
        first_seed=request.seed,
        evaluate_every=EVALUATE_EVERY,
        checkpoint_every=EVALUATE_EVERY,
    )
    train = settings.in_updates(config.num_envs * config.rollout_length)
    scoring = experiment.EvaluationSettings(episodes=_count_episodes(env))
    work = experiment.Experiment("sable", config, env, request.work / "run", train, scoring)
    algorithm = sable.make(config, env.spec)
    recorder = Recorder(request.work / "segments")
    # A few environments more than needed: episodes that the end cuts off are not kept.
    num_recorded = math.ceil(config.num_envs * min(1, 1.1 * request.rows / num_steps))

    def keep(update: int, weights: Any) -> None:
        if update % SNAPSHOT_EVERY == 0 or update == train.updates:
            path = request.work / "snapshots" / f"{update}.npz"
            steps = update * algorithm.batch_size * algorithm.sequence_length
            about = {"seed": request.seed, "update": update, "steps": steps}
            stacked = jax.tree.map(lambda leaf: np.asarray(leaf)[None], weights)
            seeds = (request.seed,)
            artifact.save(path, PolicyArtifact("sable", algorithm, env.spec, stacked, seeds, about))

    with request.watch(train.updates) as report:
        record = experiment.Record(recorder, keep, num_recorded)
        summary = experiment.run(work, request.resume, report, record).summary
    assert summary is not None
    final = summary.scores["last", default_for(env.spec.action)].mean
    request.tell(f"{env.return_name} of the final policy: {final:.3f}")
    notes = {
        "algorithm": "sable",
        "config": configs.to_dict(config),
        "steps": num_steps,
        "final_return": final,
    }
    parts = recorder.parts(env.spec, "recording", notes)
    yield from parts if steps is None else _draw(parts, recorder.lengths(), request)


def _draw(
    parts: Iterator[Dataset], lengths: list[np.ndarray], request: Request
) -> Iterator[Dataset]:
    """Whole episodes drawn at random from all parts; one part is held at a time."""
    if not lengths:
        raise OryxError("no episode has ended, so there is nothing to keep; ask for more rows")
    drawn = subsampling.draw(np.concatenate(lengths), request.rows, request.seed)
    borders = np.searchsorted(drawn, np.cumsum([len(each) for each in lengths]))
    first = 0
    for part, mine in zip(parts, np.split(drawn, borders[:-1]), strict=True):
        if len(mine):
            yield subsampling.take_episodes(part, mine - first)
        first += part.num_episodes


def _require_same_rows(request: Request) -> None:
    """Raises if the recording was begun for another number of rows."""
    request.work.mkdir(parents=True, exist_ok=True)
    files = Run(request.work)
    if not files.has(RecordingRequest):
        files.write(RecordingRequest(request.rows, request.seed))
    rows = files.read(RecordingRequest).rows
    if rows != request.rows:
        raise OryxError(
            f"{request.work} was begun with {rows} rows, not {request.rows}; resume it with "
            f"{rows} rows, or remove it to begin anew"
        )


def roll_out(
    env: Env | HostEnv,
    policies: list[Path],
    least_return: float | None,
    request: Request,
    final: Path | None = None,
    act: str | float | None = None,
) -> Iterator[Dataset]:
    """Whole episodes of the policies in these files, an equal share of the rows each.

    They act as `act` says, or else as their action space does (`acting.default_for`). With
    `least_return` only episodes of at least that return are kept, and the share of those that are
    not is told. With `final` it is noted how that policy scores.
    """
    if len(policies) > 1:
        refuse_policy(request)
    loaded = [_load(policy, env, request) for policy in policies]
    rows = -(-request.rows // len(loaded))
    shares, sources, scores = [], [], {}
    if final is not None:
        scores = {"final_return": float(score(final).mean())}
        request.tell(f"return of the final policy: {scores['final_return']:.3f}")
    for number, policy in enumerate(loaded):
        key = jax.random.fold_in(jax.random.key(request.seed), number)
        way = resolve(act, policy.spec.action)
        arrays, discarded = record_episodes(
            policy.algorithm,
            env,
            policy.weights_of(),
            rows,
            key,
            least_return,
            temperature_of(way),
        )
        if len(loaded) > 1:
            steps = len(arrays["rewards"])
            request.tell(f"policy {number + 1} of {len(loaded)}: {steps:,} steps rolled out")
        shares.append(discarded)
        sources.append({**policy.origin, "act": name_of(way), "sha256": policy.sha256})
        notes: dict[str, Any] = {"policies": [*sources], **scores}
        if least_return is not None:
            notes |= {"least_return": least_return, "discarded_share": [*shares]}
            request.tell(f"{discarded:.2%} of the episodes were discarded: return too low")
        yield one_part(env.spec, arrays, **notes)


def refuse_policy(request: Request) -> None:
    """Raises if one run is to stand for the several policies that a recipe mixes."""
    if request.policy is not None:
        raise OryxError(
            f"this mixes several pretrained policies; leave out --policy {request.policy}"
        )


def find(snapshots: Path) -> list[Path]:
    """Checkpoints spread over a training, and the last one; none if the folder has none."""
    found = sorted(snapshots.glob("*.npz"), key=lambda path: int(path.stem))
    if not found:
        return []
    updates = np.array([int(path.stem) for path in found])
    middles = (np.arange(CHECKPOINTS) + 0.5) / CHECKPOINTS * updates[-1]
    nearest = np.abs(updates - middles[:, None]).argmin(axis=1)
    return [*(found[place] for place in np.unique(nearest)), found[-1]]


def _count_episodes(env: Env | HostEnv) -> int:
    return HOST_EPISODES if base.is_host(env) else EPISODES


def score(path: Path) -> np.ndarray:
    """Returns of the policy in a file in many episodes, as policies of its space act."""
    policy = artifact.load(path)
    env = base.make(policy.spec)
    evaluator = Evaluator(policy.algorithm, env, [SCORE_SEED])
    weights = jax.tree.map(lambda x: jnp.asarray(x[:1]), policy.weights)
    temperature = temperature_of(default_for(policy.spec.action))
    found = evaluator.evaluate(weights, 0, _count_episodes(env), temperature)
    return found["return"][0].astype(np.float64)


def _load(path: Path, env: Env | HostEnv, request: Request) -> PolicyArtifact:
    """The policy of the file, or of the run or file named instead, which must be of `env`."""
    if request.policy is None:
        return artifact.load(path)
    found = load_policy(request.policy)
    if found.spec != env.spec:
        made_in = base.make(found.spec).name if found.spec.environment else "no known environment"
        raise OryxError(
            f"the policy of {request.policy} acts in {made_in}, not in {env.name}; name a run of "
            f"{env.name} with --policy"
        )
    about: dict[str, Any] = {"run": str(request.policy), "update": found.origin.get("update")}
    if request.policy.is_dir():
        about["config"] = Run(request.policy).read(RunConfig).to_json()
    return replace(found, origin={**found.origin, **about})


def subsample(variant: str, request: Request) -> Iterator[Dataset]:
    """Whole episodes of another dataset of the family, drawn without replacement."""
    folder = request.work.with_name(variant)
    if not vault.is_vault(folder):
        family = folder.parent.stem
        raise OryxError(
            f"this is drawn from {family}/{variant}, which was not made yet; make it: "
            f"oryx data make {family}/{variant}"
        )
    whole = vault.read(folder)
    drawn = subsampling.whole_episodes(whole, request.rows, request.seed)
    source = {"fingerprint": whole.fingerprint(), "origin": whole.origin}
    yield replace(drawn, origin={"drawn_from": source})
