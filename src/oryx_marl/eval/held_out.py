"""How well a policy predicts logged actions that it has not learned from.

All that can be known without an environment: a high action accuracy means that the policy does what
was done, not that it does well.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from oryx_marl.algorithms.base import Algorithm
from oryx_marl.data.dataset import Dataset
from oryx_marl.data.sampler import DeviceData, put_on_device, take_windows
from oryx_marl.data.split import Split
from oryx_marl.eval import metrics
from oryx_marl.networks.heads import LOG_STD_RANGE
from oryx_marl.ops.distributions import SquashedNormal, unsquash
from oryx_marl.parallel import devices
from oryx_marl.parallel.seeds import over_seeds
from oryx_marl.types import Window

BOUNDED = {"action_accuracy": "action accuracy rate"}
"""Scores that are rates, for `summarise`: no interval goes beyond 0 and 1."""


def score(algorithm: Algorithm, weights: Any, split: Split[Dataset]) -> dict[str, Any]:
    """Mean log-likelihood and action accuracy per decision, over seeds, for held_out.json.

    A decision is an agent's step with more than one available action; forced steps, which any
    policy predicts, are counted apart. `baseline` is the marginal-action baseline on the same
    decisions: each agent's action frequencies, renormalised over the available actions.
    """
    assert split.validation is not None
    needs_returns = algorithm.needs_returns_to_go
    held = put_on_device(split.validation, needs_returns, devices.everywhere())
    found = jax.device_get(_score(algorithm, weights, held))
    # The same for every seed: it depends on the data alone.
    decisions, forced = (int(found.pop(name)[0]) for name in ("decisions", "forced"))
    return {
        "episodes": split.validation.num_episodes,
        "steps": split.validation.num_rows,
        "decisions": decisions,
        "forced": forced,
        **{name: _over_seeds(np.asarray(values), name) for name, values in found.items()},
        "baseline": marginal_baseline(split.train, split.validation),
    }


def _over_seeds(values: Float[np.ndarray, " S"], name: str) -> dict[str, Any] | None:
    """None where some logged action is impossible under the policy: a greedy one has no odds."""
    if not np.all(np.isfinite(values)):
        return None
    summary = metrics.summarise(values[:, None], BOUNDED.get(name, name))
    return {key: summary[key] for key in ("mean", "low", "high", "per_seed")}


@partial(jax.jit, static_argnames="algorithm")
def _score(algorithm: Algorithm, weights: Any, data: DeviceData) -> dict[str, Array]:
    length, size = algorithm.sequence_length, algorithm.batch_size
    number = -(-data.num_rows // length)
    firsts = jnp.arange(-(-number // size) * size).reshape(-1, size) * length

    def one_batch(weights: Any, firsts: Array) -> dict[str, Array]:
        starts = jnp.minimum(firsts, data.num_rows - length)
        window = take_windows(data, starts, length)
        # The last windows overlap those before, or lie beyond the end: nothing counts twice.
        fresh = starts[:, None] + jnp.arange(length) >= firsts[:, None]
        return _sums(algorithm, weights, window, fresh)

    def one_seed(weights: Any) -> dict[str, Array]:
        sums = jax.lax.map(partial(one_batch, weights), firsts)
        found = {name: values.sum() for name, values in sums.items()}
        # Where nobody ever has a choice the forced steps are all there is: 0 and 1.
        count = jnp.maximum(found["decisions"], 1)
        is_forced = found["decisions"] == 0
        return {
            "log_likelihood": jnp.where(is_forced, 0.0, found["log_likelihood"] / count),
            "action_accuracy": jnp.where(is_forced, 1.0, found["action_accuracy"] / count),
            "decisions": found["decisions"],
            "forced": found["forced"],
        }

    return over_seeds(one_seed)(weights)


def _sums(algorithm: Algorithm, weights: Any, window: Window, fresh: Array) -> dict[str, Array]:
    policy, _ = algorithm.distribution(weights, window)
    counts = window.observation.agent_mask & fresh[..., None] & policy.supports(window.actions)
    taken, agrees = policy.log_prob(window.actions), policy.agrees(window.actions)
    is_box = window.actions.ndim > counts.ndim
    is_forced = counts & (not is_box) & (window.observation.action_mask.sum(axis=-1) == 1)
    decisions = counts & ~is_forced
    return {
        "log_likelihood": jnp.where(decisions, taken, 0).sum(),
        "action_accuracy": (agrees & decisions).sum(),
        "decisions": decisions.sum(),
        "forced": is_forced.sum(),
    }


def marginal_baseline(train: Dataset, validation: Dataset) -> dict[str, float]:
    """The same of a policy that only knows how often each agent took each action, or where in its
    box."""
    if train.spec.action.kind == "box":
        return _baseline_in_box(train, validation)
    size = train.spec.action.size
    is_action = np.arange(size) == train.actions[..., None]
    if train.agent_mask is not None:
        is_action &= train.agent_mask[..., None]
    odds = 1.0 + is_action.sum(axis=0)
    action_mask = validation.action_mask
    if action_mask is None:
        action_mask = np.ones((*validation.actions.shape, size), bool)
    odds = np.where(action_mask, odds, 0)
    taken = np.take_along_axis(odds, validation.actions[..., None].astype(int), axis=-1)[..., 0]
    counts = (taken > 0) & (action_mask.sum(axis=-1) != 1)
    if validation.agent_mask is not None:
        counts &= validation.agent_mask
    if not counts.any():  # nobody ever has a choice
        return {"log_likelihood": 0.0, "action_accuracy": 1.0}
    shares = taken[counts] / odds.sum(axis=-1)[counts]
    accuracy = (odds.argmax(axis=-1) == validation.actions)[counts]
    return {
        "log_likelihood": float(np.log(shares).mean()),
        "action_accuracy": float(accuracy.mean()),
    }


def _baseline_in_box(train: Dataset, validation: Dataset) -> dict[str, float]:
    """One squashed Normal for each agent, fitted to all of its actions."""
    space = validation.spec.action
    low, high = jnp.array(space.low, jnp.float32), jnp.array(space.high, jnp.float32)
    means, spreads = [], []
    for agent in range(train.spec.num_agents):
        here = slice(None) if train.agent_mask is None else train.agent_mask[:, agent]
        x = unsquash(jnp.asarray(train.actions[here, agent], jnp.float32), low, high)
        means.append(x.mean(axis=0))
        spreads.append(jnp.clip(jnp.log(x.std(axis=0) + 1e-8), *LOG_STD_RANGE))
    policy = SquashedNormal(jnp.stack(means), jnp.stack(spreads), low, high)
    actions = jnp.asarray(validation.actions, jnp.float32)
    counts = validation.agent_mask
    if counts is None:
        counts = np.ones(actions.shape[:2], bool)
    likelihood, agrees = np.asarray(policy.log_prob(actions)), np.asarray(policy.agrees(actions))
    return {
        "log_likelihood": float(likelihood[counts].mean()),
        "action_accuracy": float(agrees[counts].mean()),
    }
