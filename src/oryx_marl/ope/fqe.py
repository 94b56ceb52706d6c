"""Fitted Q evaluation: the value of a policy, learned from logs by temporal differences.

An ensemble of critics, each on another resample of the episodes (Hao et al., 2021). Targets are
between those of Retrace (Munos et al., 2016) and of Q(λ) (Harutyunyan et al., 2016): values of
joint actions that the policy draws, corrected by TD errors along the log. Retrace alone would learn
about a greedy policy one step at a time. Its cut of unlikely steps guards against divergence, which
a finite horizon rules out: the last step's value needs no other, the one before only that, and so
on; and TD errors of the right values have mean 0 after any action.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int
from scipy import stats

from oryx_marl.algorithms._learner import adam_on_one_vector
from oryx_marl.algorithms._standardise import standardise
from oryx_marl.data.dataset import Dataset
from oryx_marl.data.scales import feature_statistics
from oryx_marl.networks.sable import NetworkConfig
from oryx_marl.ope.critic import Critic
from oryx_marl.ope.intervals import LEVEL, Estimate
from oryx_marl.ope.sequences import Packed, Sequences
from oryx_marl.ope.settings import OpeSettings
from oryx_marl.ope.walk import Report, Walked
from oryx_marl.ops.returns import linear_recurrence
from oryx_marl.parallel.seeds import over_seeds
from oryx_marl.types import Spec, Window

CALLS = 10
"""Compiled calls that the training of the critics is cut into."""


FEW_FEATURES = 64
"""Of an observation, for which a small network is enough."""


class Logs(NamedTuple):
    """What critics learn from, on the device: [S, L, ...]; M is the team and each agent."""

    window: Window
    """With standardised features."""
    rewards: Float[Array, "S L M"]
    """In units of the spread of returns."""
    mean_reward: Float[Array, " M"]
    reward_spread: Float[Array, " M"]
    """Standard deviation of the rewards of a step, in the same units."""
    mask: Bool[Array, "S L M"]
    """Steps whose target is known."""
    bootstrap: Bool[Array, "S L M"]
    """Those of them that are followed by a step whose value counts."""
    is_step: Bool[Array, "S L"]
    baseline: Float[Array, "S L M"]
    """Mean logged return from that step count on, in the same units."""
    episode: Int[Array, "S L"]
    scale: Float[Array, ""]


class Targeted(NamedTuple):
    """What is known of the policy at the same places."""

    samples: Array
    """[S, L, K, N] joint actions, or [S, L, K, N, A]."""
    ratios: Float[Array, "S L"]
    """Weight of a logged step in the targets of those before: min(1, π/μ), or more."""


class Fitted(NamedTuple):
    """Critics of one policy, and what they say at every logged step, in units of rewards."""

    q_logged: Float[np.ndarray, "C S L M"]
    values: Float[np.ndarray, "C S L M"]
    """Expected under the policy."""
    episode_weights: Float[np.ndarray, "C E"]
    """How much each critic learned from each episode."""


def prepare(dataset: Dataset, packed: Packed) -> Logs:
    """The logs in the units that critics learn in; the same for all policies."""
    sequences = packed.sequences
    own_mask, own_goes_on = _own_masks(sequences)
    rewards = jnp.concatenate(
        [sequences.team_rewards[..., None], sequences.window.rewards], axis=-1
    )
    mask = jnp.concatenate([sequences.has_target[..., None], own_mask], axis=-1)
    bootstrap = jnp.concatenate([sequences.goes_on[..., None], own_goes_on], axis=-1)
    slopes = jnp.where(bootstrap, 1.0, 0.0)
    returns = linear_recurrence(jnp.where(mask, rewards, 0), slopes)
    counts = np.asarray(mask)
    baseline = _mean_by_step(np.asarray(returns), counts, packed)
    residual = np.asarray(returns)[..., 0] - baseline[..., 0]
    spread = float(np.sqrt(np.mean(residual[counts[..., 0]] ** 2))) if counts.any() else 0.0
    scale = spread or float(np.abs(baseline).max()) or 1.0
    told = np.where(counts, np.asarray(rewards), np.nan)
    means, spreads = (_of_steps(told, each) for each in (np.nanmean, np.nanstd))
    seen = sequences.window.observation
    features = standardise(seen.features, feature_statistics(dataset))
    window = sequences.window._replace(observation=seen._replace(features=features))
    return Logs(
        window=window,
        rewards=rewards / scale,
        mean_reward=jnp.asarray(means / scale, jnp.float32),
        reward_spread=jnp.asarray(np.where(spreads > 0, spreads, scale) / scale, jnp.float32),
        mask=mask,
        bootstrap=bootstrap,
        is_step=sequences.is_step,
        baseline=jnp.asarray(baseline / scale, jnp.float32),
        episode=sequences.episode,
        scale=jnp.float32(scale),
    )


def _of_steps(
    told: Float[np.ndarray, "S L M"], statistic: Callable[..., np.ndarray]
) -> Float[np.ndarray, " M"]:
    """Over the steps that count; 0 of agents that never do."""
    known = np.isfinite(told).any(axis=(0, 1))
    filled = np.where(known, told, 0)
    return np.asarray(statistic(filled, axis=(0, 1)), np.float64)


def _own_masks(sequences: Sequences) -> tuple[Bool[Array, "S L N"], Bool[Array, "S L N"]]:
    """As `td_masks` has them: an agent that is gone in the next step has no value there."""
    here = sequences.window.observation.agent_mask & sequences.is_step[..., None]
    ended = sequences.window.terminal
    following = jnp.roll(sequences.window.observation.agent_mask, -1, axis=1)
    goes_on = here & ~ended & sequences.goes_on[..., None] & following
    # At the horizon nothing more counts, for nobody.
    is_over = sequences.has_target & ~sequences.goes_on
    return goes_on | (here & (ended | is_over[..., None])), goes_on


def _mean_by_step(
    returns: Float[np.ndarray, "S L M"], counts: Bool[np.ndarray, "S L M"], packed: Packed
) -> Float[np.ndarray, "S L M"]:
    """Mean return from each step count on, put at every place."""
    steps = np.asarray(packed.sequences.window.observation.step_count)
    size, channels = packed.horizon.steps + 1, returns.shape[-1]
    total, number = np.zeros((size, channels)), np.zeros((size, channels))
    at = np.minimum(steps, size - 1)
    np.add.at(total, at, np.where(counts, returns, 0))
    np.add.at(number, at, counts)
    return np.where(number > 0, total / np.maximum(number, 1), 0)[at]


def fit(
    spec: Spec,
    logs: Logs,
    packed: Packed,
    walked: Walked,
    settings: OpeSettings,
    num_episodes: int,
    report: Report = lambda done, of: None,
) -> Fitted:
    """Critics of one policy."""
    joint = (walked.log_policy - walked.log_behaviour).sum(axis=-1)
    ratios = np.exp(np.minimum(joint, 0.0))
    ratios = settings.least_ratio + (1 - settings.least_ratio) * ratios
    targeted = Targeted(jnp.asarray(walked.samples), jnp.asarray(ratios, jnp.float32))
    generator = np.random.default_rng(settings.seed)
    episode_weights = generator.exponential(size=(settings.critics, num_episodes))
    width = settings.width or (32 if spec.observation_size <= FEW_FEATURES else 64)
    config = NetworkConfig(width=width, num_heads=4)
    static = _Static(
        spec,
        config,
        packed.horizon.steps,
        settings.learning_rate,
        settings.critic_updates,
        settings.tau,
        settings.td_lambda,
        max(settings.batch_steps // packed.step.shape[1], 1),
        0.0 if spec.shared_reward else 1 / spec.num_agents,
    )
    keys = jax.random.split(jax.random.key(settings.seed), settings.critics)
    states = _init(static, keys)
    calls = min(CALLS, settings.critic_updates)
    size = -(-settings.critic_updates // calls)
    weights = jnp.asarray(episode_weights, jnp.float32)
    for call in range(calls):
        now = jax.vmap(lambda key: jax.random.fold_in(key, call))(keys)  # noqa: B023
        states = _advance(static, size, states, now, weights, logs, targeted)
        report(call + 1, calls)
    q_logged, values = _values(static, states[1], logs, targeted)
    return Fitted(q_logged, values, episode_weights)


class _Static(NamedTuple):
    """What the compiled functions are made for."""

    spec: Spec
    network: NetworkConfig
    horizon: int
    learning_rate: float
    updates: int
    tau: float
    td_lambda: float
    batch: int
    own_share: float
    """Weight of each agent's own value beside the team's: 0 where all have the same reward."""

    @property
    def optimiser(self) -> optax.GradientTransformation:
        schedule = optax.cosine_decay_schedule(self.learning_rate, self.updates)
        return optax.chain(adam_on_one_vector(1.0, 1.0), optax.scale_by_schedule(schedule))


@partial(jax.jit, static_argnames="static")
def _init(static: _Static, keys: Array) -> tuple[Any, Any, Any]:
    def one(key: Array) -> tuple[Any, Any, Any]:
        critic = Critic(key, static.spec, static.network, static.horizon)
        return critic, critic, static.optimiser.init(critic)

    return over_seeds(one)(keys)


def _look(
    critic: Critic, logs: Logs, targeted: Targeted
) -> tuple[Float[Array, "B L M"], Float[Array, "B L M"]]:
    """Q of the logged joint actions, and its mean over those of the policy."""
    encoded, here = critic.encode(logs.window), logs.window.observation.agent_mask
    q = _join(critic.q(encoded, logs.window.actions, here), logs)
    samples = jnp.moveaxis(targeted.samples, 2, 0)
    each = jax.lax.map(lambda actions: _join(critic.q(encoded, actions, here), logs), samples)
    return q, each.mean(axis=0)


def _join(parts: tuple[Array, Array], logs: Logs) -> Array:
    """Q of its two parts: the reward's deviation from the mean, and what follows beside the
    baseline."""
    return logs.baseline + logs.reward_spread * parts[0] + parts[1]


def retrace(
    q: Float[Array, "B T M"],
    values: Float[Array, "B T M"],
    rewards: Float[Array, "B T M"],
    ratios: Float[Array, "B T"],
    mask: Bool[Array, "B T M"],
    bootstrap: Bool[Array, "B T M"],
    td_lambda: float,
) -> Float[Array, "B T M"]:
    """Q_t + Σ_{s≥t} (Π_{i=t+1..s} λ min(1, ρ_i)) δ_s with δ_s = r_s + V_{s+1} - Q_s.

    Args:
        q: of the logged joint actions.
        values: expected under the policy.
        rewards: of the step.
        ratios: min(1, ρ) of the logged joint action, or any number between 0 and 1.
        mask: steps whose target is known.
        bootstrap: steps whose next step counts.
        td_lambda: λ.
    """
    following = jnp.roll(values, -1, axis=1)
    errors = jnp.where(mask, rewards + jnp.where(bootstrap, following, 0) - q, 0)
    next_mask, next_ratio = jnp.roll(mask, -1, axis=1), jnp.roll(ratios, -1, axis=1)
    slopes = jnp.where(bootstrap & next_mask, td_lambda * next_ratio[..., None], 0.0)
    return q + linear_recurrence(errors, slopes)


@partial(jax.jit, static_argnames=("static", "num_updates"), donate_argnames="states")
def _advance(
    static: _Static,
    num_updates: int,
    states: tuple[Any, Any, Any],
    keys: Array,
    episode_weights: Float[Array, "C E"],
    logs: Logs,
    targeted: Targeted,
) -> tuple[Any, Any, Any]:
    """Critics, their target networks and optimisers after some updates."""

    def loss(critic: Critic, target: Critic, part: Logs, policy: Targeted, weight: Array) -> Array:
        q_old, values = _look(target, part, policy)
        goal = retrace(
            q_old, values, part.rewards, policy.ratios, part.mask, part.bootstrap, static.td_lambda
        )
        encoded = critic.encode(part.window)
        told, following = critic.q(encoded, part.window.actions, part.window.observation.agent_mask)
        gains = part.rewards - part.mean_reward
        errors = (following - (goal - part.baseline - gains)) ** 2
        errors = jnp.where(part.mask, errors + (told - gains / part.reward_spread) ** 2, 0)
        # The team counts as much as all agents together.
        share = jnp.concatenate([jnp.ones(1), jnp.full(errors.shape[-1] - 1, static.own_share)])
        each = (errors * share).sum(axis=-1) * weight
        return each.sum() / jnp.maximum(part.mask[..., 0].sum(), 1)

    def one_critic(
        logs: Logs, targeted: Targeted, state: Any, key: Array, weights: Float[Array, " E"]
    ) -> Any:
        def one_update(state: Any, key: Array) -> tuple[Any, None]:
            critic, target, optimiser = state
            chosen = jax.random.randint(key, (static.batch,), 0, len(logs.is_step))
            part = _take(logs, chosen)
            policy = jax.tree.map(lambda x: x[chosen], targeted)
            gradients = jax.grad(loss)(critic, target, part, policy, weights[part.episode])
            updates, optimiser = static.optimiser.update(gradients, optimiser, critic)
            critic = optax.apply_updates(critic, updates)
            target = optax.incremental_update(critic, target, static.tau)
            return (critic, target, optimiser), None

        return jax.lax.scan(one_update, state, jax.random.split(key, num_updates))[0]

    return over_seeds(one_critic, logs, targeted)(states, keys, episode_weights)


def _take(logs: Logs, chosen: Array | np.ndarray) -> Logs:
    """Some of the sequences; what is the same for all stays."""
    return Logs(
        *(
            each if name in SHARED else jax.tree.map(lambda x: x[chosen], each)
            for name, each in logs._asdict().items()
        )
    )


SHARED = ("mean_reward", "reward_spread", "scale")
"""Of `Logs`."""
VALUED_AT_ONCE = 64
"""Sequences whose values are computed in one call."""


def _values(
    static: _Static, critics: Any, logs: Logs, targeted: Targeted
) -> tuple[Float[np.ndarray, "C S L M"], Float[np.ndarray, "C S L M"]]:
    """What all critics say of all places, in units of rewards."""
    total, found = len(logs.is_step), []
    size = min(VALUED_AT_ONCE, total)
    for first in range(0, total, size):
        chosen = np.arange(first, first + size) % total  # the last call begins again
        part = _take(logs, chosen)
        policy = jax.tree.map(lambda x: x[chosen], targeted)  # noqa: B023
        found.append(jax.device_get(_look_all(critics, part, policy)))
    q, values = (np.concatenate(each, axis=1)[:, :total] for each in zip(*found, strict=True))
    scale = float(logs.scale)
    return q.astype(np.float64) * scale, values.astype(np.float64) * scale


@jax.jit
def _look_all(critics: Any, logs: Logs, targeted: Targeted) -> tuple[Array, Array]:
    return over_seeds(lambda *given: _look(given[-1], *given[:-1]), logs, targeted)(critics)


def estimate(
    values: Float[np.ndarray, "C E"], episode_weights: Float[np.ndarray, "C E"]
) -> Estimate:
    """Mean of the critics' values of first steps; the interval is Student's t over the critics,
    each with its own resample of the episodes."""
    weights = episode_weights / episode_weights.sum(axis=1, keepdims=True)
    each = (weights * values).sum(axis=1)
    spread = float(each.std(ddof=1))
    reach = float(stats.t.ppf((1 + LEVEL) / 2, len(each) - 1)) * spread
    mean = float(values.mean())
    return Estimate(mean, mean - reach, mean + reach, spread)
