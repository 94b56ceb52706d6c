"""Off-policy evaluation of one policy: from logged episodes to a verdict."""

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial

import jax
import numpy as np
from jaxtyping import Bool, Float, Int

from oryx_marl.data.dataset import Dataset
from oryx_marl.data.subsample import take_episodes
from oryx_marl.errors import OryxError
from oryx_marl.ope import behaviour, cache, estimators, fqe, intervals, support, verdict
from oryx_marl.ope.behaviour import Clones
from oryx_marl.ope.document import NAMES, SeedTrust, Trust
from oryx_marl.ope.fqe import Logs
from oryx_marl.ope.intervals import Estimate
from oryx_marl.ope.sequences import (
    Packed,
    by_episode,
    find_horizon,
    pack,
    returns_within,
    step_counts,
)
from oryx_marl.ope.settings import OpeSettings
from oryx_marl.ope.walk import Policies, Walked, walk
from oryx_marl.policy.acting import name_of, temperature_of
from oryx_marl.policy.artifact import PolicyArtifact

LEAST_ESS = 10.0
"""Effective episodes below which importance sampling gives no number."""
LARGEST_RATIO = 100.0
"""Of one step's joint action, for importance sampling."""
LEAST_TEMPERATURE = 0.05
"""Of continuous actions."""
MOST_NUMBERS = 2**28
"""Of observations, in a few copies on the device."""
FEWEST = 4
"""Episodes without which nothing can be said."""
Progress = Callable[[str, int, int], None]
"""`report(what, done, of)`."""


@dataclass(frozen=True, eq=False)
class Subject:
    """Logged data as all policies of a dataset share them."""

    dataset: Dataset
    """The episodes that are used."""
    numbers: Int[np.ndarray, " E"]
    """Of those episodes in the whole dataset."""
    held_out: Bool[np.ndarray, " E"]
    """Those that the policy has not learned from."""
    packed: Packed
    logs: Logs
    clones: Clones
    returns: Float[np.ndarray, " E"]
    settings: OpeSettings

    @property
    def counted(self) -> Bool[np.ndarray, " E"]:
        """The episodes on which the policy is evaluated: all, where none were held out."""
        return self.held_out if self.held_out.any() else np.ones_like(self.held_out)


def prepare(
    dataset: Dataset,
    held_out: Int[np.ndarray, " held"],
    settings: OpeSettings,
    report: Progress = lambda what, done, of: None,
) -> Subject:
    """Clones of the logged behaviour, and the logs as critics see them.

    Args:
        dataset: all logged episodes.
        held_out: numbers of those that the policy has not learned from.
        settings: how much work.
        report: is told how far it is.
    """
    if dataset.num_episodes < FEWEST:
        raise OryxError(
            f"'{dataset.name}' has {dataset.num_episodes} episodes; off-policy evaluation needs at "
            f"least {FEWEST}, and says little below a hundred"
        )
    is_held = np.zeros(dataset.num_episodes, bool)
    is_held[held_out] = True
    spec = dataset.spec
    room = min(settings.max_steps, MOST_NUMBERS // (spec.num_agents * spec.observation_size))
    numbers = _choose(dataset.episode_lengths, is_held, max(room, 1), settings.seed)
    if len(numbers) < FEWEST:
        raise OryxError(
            f"only {len(numbers)} episodes of '{dataset.name}' fit into {room:,} steps; allow more "
            "with max_steps"
        )
    key = cache.make_key(dataset.fingerprint(), numbers, settings)
    used = dataset if len(numbers) == len(is_held) else take_episodes(dataset, numbers)
    folds = behaviour.draw_folds(used.num_episodes, settings.folds, settings.seed)
    packed = pack(used, find_horizon(used), folds)
    clones = cache.read(key, behaviour.describe(used, int(folds.max()) + 1))
    if clones is None:
        clones = behaviour.fit(used, packed, settings, partial(report, "cloning the logs"))
        cache.write(key, clones)
    logs = fqe.prepare(used, packed)
    returns = returns_within(used, packed.horizon)
    return Subject(used, numbers, is_held[numbers], packed, logs, clones, returns, settings)


def _choose(
    lengths: Int[np.ndarray, " E"], is_held: Bool[np.ndarray, " E"], room: int, seed: int
) -> Int[np.ndarray, " chosen"]:
    """All episodes, or as many as there is room for, held-out ones first in half of it."""
    if lengths.sum() <= room:
        return np.arange(len(lengths))
    shuffled = np.random.default_rng(seed).permutation(len(lengths))
    held, others = shuffled[is_held[shuffled]], shuffled[~is_held[shuffled]]
    first = held[np.cumsum(lengths[held]) <= (room // 2 if len(others) else room)]
    rest = others[np.cumsum(lengths[others]) <= room - lengths[first].sum()]
    return np.sort(np.concatenate([first, rest]))


def make_key(policy: PolicyArtifact, subject: Subject, act: str | float) -> str:
    """Names a policy, the data and the settings."""
    told = [policy.sha256, subject.dataset.fingerprint(), name_of(act), asdict(subject.settings)]
    digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode())
    digest.update(np.packbits(subject.held_out).tobytes())
    return digest.hexdigest()


def evaluate_seed(
    policy: PolicyArtifact,
    seed: int,
    subject: Subject,
    act: str | float,
    report: Progress = lambda what, done, of: None,
) -> SeedTrust:
    """Of one seed's weights."""
    settings, packed, spec = subject.settings, subject.packed, policy.spec
    temperature, is_box = temperature_of(act), spec.action.kind == "box"
    if is_box:  # a greedy policy has no density
        temperature = max(temperature, LEAST_TEMPERATURE)
    policies = Policies(policy.algorithm, subject.clones.algorithm, temperature, settings.samples)
    weights = jax.tree.map(jax.numpy.asarray, policy.weights_of(seed))
    key = jax.random.fold_in(jax.random.key(settings.seed), seed)
    walked = walk(
        policies, weights, subject.clones.weights, packed, key, partial(report, "following")
    )
    episodes = subject.dataset.num_episodes
    fitted = fqe.fit(
        spec, subject.logs, packed, walked, settings, episodes, partial(report, "fitting critics")
    )
    first = np.stack([by_episode(packed, v[..., 0], episodes)[:, 0] for v in fitted.values])
    counted = subject.counted
    value = fqe.estimate(first[:, counted], fitted.episode_weights[:, counted])
    others, ess = _by_ratios(subject, walked, fitted)
    per_agent = None if spec.shared_reward else _per_agent(subject, fitted)
    return SeedTrust(
        seed=seed,
        estimates={"fqe": value, **others},
        effective_sample_size=ess,
        support=support.measure(packed, walked, is_box, counted, subject.numbers),
        per_agent=per_agent,
    )


def _per_agent(subject: Subject, fitted: fqe.Fitted) -> list[float]:
    """Each agent's own value at the first steps at which episodes are evaluated."""
    episodes, counted = subject.dataset.num_episodes, subject.counted
    found = []
    for agent in range(subject.dataset.spec.num_agents):
        values = fitted.values[..., 1 + agent].mean(axis=0)
        found.append(float(by_episode(subject.packed, values, episodes)[counted, 0].mean()))
    return found


def _by_ratios(
    subject: Subject, walked: Walked, fitted: fqe.Fitted
) -> tuple[dict[str, Estimate], float]:
    """Importance sampling in three forms, and the effective sample size."""
    packed, counted = subject.packed, subject.counted
    table = partial(by_episode, packed, num_episodes=subject.dataset.num_episodes)
    joint = (walked.log_policy - walked.log_behaviour).sum(axis=-1).astype(np.float64)
    ratios = estimators.clip_ratios(table(joint)[counted], LARGEST_RATIO)
    rewards = table(np.asarray(packed.sequences.team_rewards, np.float64))[counted]
    q = table(fitted.q_logged[..., 0].mean(axis=0))[counted]
    values = table(fitted.values[..., 0].mean(axis=0))[counted]
    ess = float(estimators.effective_sample_size(ratios).min())
    counts = intervals.bootstrap_counts(len(ratios), subject.settings.seed)
    if why := _distrust(ratios, ess, counts):
        return {name: Estimate(None, refused=why) for name in ("wdr", "wpdis", "pdis")}, ess
    doubly = partial(estimators.weighted_doubly_robust, ratios, rewards, q, values)
    found = {"wdr": doubly}
    found["wpdis"] = partial(estimators.weighted_pdis, ratios, rewards)
    found["pdis"] = partial(estimators.pdis, ratios, rewards)
    return {
        name: intervals.from_resamples(float(form()[0]), form(counts=counts))
        for name, form in found.items()
    }, ess


def _distrust(
    ratios: Float[np.ndarray, "E T"], ess: float, counts: Float[np.ndarray, "B E"]
) -> str:
    """Why importance sampling says nothing, if it does not."""
    if ess < LEAST_ESS or len(ratios) < FEWEST:
        return (
            f"the weights come down to {ess:.1f} effective episodes of {len(ratios)}, and at least "
            f"{LEAST_ESS:.0f} are needed"
        )
    means = estimators.mean_weight(ratios, counts)
    total = intervals.from_resamples(float(estimators.mean_weight(ratios)[0]), means)
    assert total.low is not None
    assert total.high is not None
    if total.low <= 1 <= total.high:
        return ""
    return (
        f"the weights of episodes have a mean of {total.value:.2g} [{total.low:.2g}, "
        f"{total.high:.2g}], and should have one of 1: either the clones misjudge the logged "
        "behaviour, or the policy does what was never logged"
    )


def conclude(
    policy: PolicyArtifact,
    subject: Subject,
    act: str | float,
    seeds: list[SeedTrust],
    began: float,
) -> Trust:
    """All seeds together, and the verdict."""
    logged = intervals.mean_of_episodes(subject.returns, subject.settings.seed)
    spread = float(subject.returns.std())
    pooled = {name: _pool([seed.estimates[name] for seed in seeds]) for name in NAMES}
    found = _pool_support([seed.support for seed in seeds])
    others = {NAMES[name]: pooled[name] for name in ("wdr", "wpdis")}
    held_out = int(subject.held_out.sum())
    return Trust(
        key=make_key(policy, subject, act),
        dataset=subject.dataset.name,
        act=name_of(act),
        horizon=subject.packed.horizon.steps,
        episodes=subject.dataset.num_episodes,
        held_out=held_out,
        logged=logged,
        logged_spread=spread,
        estimates=pooled,
        seeds=seeds,
        support=found,
        agents=list(policy.spec.agents),
        logged_per_agent=_logged_per_agent(subject),
        verdict=verdict.judge(pooled["fqe"], logged, found, spread, others, held_out),
        seconds=round(time.monotonic() - began, 3),
        settings=asdict(subject.settings),
    )


def _logged_per_agent(subject: Subject) -> list[float] | None:
    dataset = subject.dataset
    if dataset.spec.shared_reward:
        return None
    inside = step_counts(dataset) < subject.packed.horizon.steps
    rewards = np.where(inside[:, None], dataset.rewards, 0).astype(np.float64)
    return np.add.reduceat(rewards, dataset.episode_starts).mean(axis=0).tolist()


def _pool(estimates: list[Estimate]) -> Estimate:
    """Mean over seeds: they share the logs, so their errors do not cancel, and they differ."""
    if refused := [each for each in estimates if each.value is None]:
        return refused[0]
    values = np.array([each.value for each in estimates], np.float64)
    mean = float(values.mean())
    if any(each.low is None or each.spread is None for each in estimates):
        return Estimate(mean, refused=estimates[0].refused)
    between = float(values.std(ddof=1) ** 2 / len(values)) if len(values) > 1 else 0.0
    lows, highs, spreads = (
        np.array([getattr(each, name) for each in estimates], np.float64)
        for name in ("low", "high", "spread")
    )
    down = np.sqrt(np.mean(values - lows) ** 2 + 3.84 * between)
    up = np.sqrt(np.mean(highs - values) ** 2 + 3.84 * between)
    spread = float(np.sqrt(spreads.mean() ** 2 + between))
    return Estimate(mean, mean - float(down), mean + float(up), spread)


def _pool_support(found: list[support.Support]) -> support.Support:
    """Mean over seeds; the unusual actions are those of all."""
    listed = sorted((each for one in found for each in one.unusual), key=_rarity)
    parts = zip(*(one.by_part for one in found), strict=True)
    shares = [[share for share in part if share is not None] for part in parts]
    return support.Support(
        share=float(np.mean([one.share for one in found])),
        joint_share=float(np.mean([one.joint_share for one in found])),
        per_agent=np.mean([one.per_agent for one in found], axis=0).tolist(),
        by_part=[float(np.mean(part)) if part else None for part in shares],
        threshold=float(np.mean([one.threshold for one in found])),
        decisions=found[0].decisions,
        unusual=listed[: support.LISTED],
    )


def _rarity(unusual: support.Unusual) -> float:
    return unusual.log_probability
